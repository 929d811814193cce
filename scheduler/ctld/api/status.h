/* status.h - the state of the nodes and of the allocator. */
#ifndef MGPU_SCHEDULER_CTLD_API_STATUS_H
#define MGPU_SCHEDULER_CTLD_API_STATUS_H

#include <jansson.h>
#include <stddef.h>

struct alloc_node;
struct ctld;

/* nodes[i] as NODE in wire.h. */
json_t *status_node_json(const struct alloc_node *nodes, size_t n, size_t i);
/* "up", "down", "drained"; "draining" while jobs of any user are on it */
const char *status_node_state(const struct alloc_node *nodes, size_t n,
                              size_t i);
/* {"name","is_ok","since","why"} */
json_t *status_allocator_json(const struct ctld *c);

#endif
