/* free_slots.h - count free GPUs or slots, for replies that show them. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_FREE_SLOTS_H
#define MGPU_SCHEDULER_CTLD_REQUEST_FREE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct alloc_node;
struct ctld;

/* The free GPUs of the i-th node, for a caller that takes all nodes in order:
 * entries of the same machine share its CPUs, so those before it reduce them.
 * in   counts  false: the node is skipped, 0
 * io   room  of the machine */
int32_t free_slots_take(const struct alloc_node *nodes, size_t i, bool counts,
                        int32_t *io_room);
/* The GPUs or slots of nodes that are up, and of other nodes those that jobs
 * have. */
void free_slots_count(const struct ctld *c, int64_t *ret_total,
                      int64_t *ret_free);

#endif
