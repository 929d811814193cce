/* job_json.h - parts of the JSON of a job, and the sums of free GPUs. */
#ifndef MGPU_SCHEDULER_CTLD_API_JOB_JSON_H
#define MGPU_SCHEDULER_CTLD_API_JOB_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctld;
struct job;
struct alloc_node;

/* SWEEP of wire.h, of its first task; else null. */
json_t *job_json_sweep(const struct ctld *c, const struct job *job);
/* "warnings" of wire.h; NULL: there are none. */
json_t *job_json_warnings(const struct ctld *c, const struct job *job);
/* The free GPUs of the i-th node, for a caller that takes all nodes in order:
 * entries of the same machine share its CPUs, so those before it reduce them.
 * in   counts  false: the node is skipped, 0
 * io   room  of the machine */
int32_t job_json_take_free(const struct alloc_node *nodes, size_t i,
                           bool counts, int32_t *io_room);
/* The GPUs or slots of nodes that are up, and of other nodes those that jobs
 * have. */
void job_json_slots(const struct ctld *c, int64_t *ret_total,
                    int64_t *ret_free);

#endif
