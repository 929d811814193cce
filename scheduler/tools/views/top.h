/* top.h - the cluster on one screen: jobs and utilisation of each GPU, running
 * jobs, pending jobs.
 */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_TOP_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_TOP_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/views/show.h"

/* mgpu.gpus/1 of the last minute: the GPUs and their utilisation.
 * own  *ret: json_decref() */
int top_read_gpus(struct client *c, json_t **ret, struct error *err) MUST_CHECK;

/* mgpu.top/1 from the live and pending jobs of mgpu.queue/1, and from
 * mgpu.gpus/1.
 * in   others  GPUs may be allocated to jobs that are not in the queue: take
 *      these from mgpu.gpus/1
 * own  *ret: json_decref() */
int top_document(const json_t *queue, const json_t *gpus, bool others,
                 json_t **ret, struct error *err) MUST_CHECK;

/* The same, requested once from the daemon. */
int top_once(struct client *c, const struct filter *filter, json_t **ret,
             struct error *err) MUST_CHECK;

/* Prints mgpu.top/1, in no more lines than the style has rows. */
int show_top(const struct show_conf *s, const json_t *top,
             struct error *err) MUST_CHECK;

#endif
