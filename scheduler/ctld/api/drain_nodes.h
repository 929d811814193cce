/* drain_nodes.h - nodes on which administrators let no job start. */
#ifndef MGPU_SCHEDULER_CTLD_API_DRAIN_NODES_H
#define MGPU_SCHEDULER_CTLD_API_DRAIN_NODES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct engine_drained;
struct http_exchange;

int drain_nodes_init(struct ctld *c, struct error *err) MUST_CHECK;
/* The engine does not exist any more. */
void drain_nodes_clear(struct ctld *c);
/* Does what a line of admin.log about a node says.
 * in   is_drain  false: the node is in use again
 * err  ERR_NOMEM nothing is changed */
int drain_nodes_repeat(struct ctld *c, const char *node, bool is_drain,
                       int64_t uid, const char *at, const char *why,
                       struct error *err) MUST_CHECK;
/* Carries out the request of an administrator that names a node, and replies.
 */
void drain_nodes_serve(struct ctld *c, struct http_exchange *x,
                       const json_t *body, bool is_drain, const char *why);
/* The drained nodes as the engine takes them; valid until the next change. */
const struct engine_drained *drain_nodes_of_engine(const struct ctld *c,
                                                   size_t *ret_n);
/* "drained" of mgpu.status/1 */
json_t *drain_nodes_json(const struct ctld *c);

#endif
