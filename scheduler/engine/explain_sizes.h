/* explain_sizes.h - the sizes among which the policy goodput chooses now. */
#ifndef MGPU_SCHEDULER_ENGINE_EXPLAIN_SIZES_H
#define MGPU_SCHEDULER_ENGINE_EXPLAIN_SIZES_H

#include "scheduler/engine/engine.h"
#include "scheduler/policy/goodput_explain.h"

/* As goodput_explain(), with the nodes of the last inventory. Nothing, and the
 * price NAN, under another policy. Changes nothing, but for reasons of jobs
 * that the view leaves out. err  ERR_UNAVAIL there is no inventory; ERR_NOMEM
 */
int engine_explain_sizes(struct engine *e,
                         void (*each)(void *arg, const struct goodput_row *row),
                         void *arg, double *ret_price,
                         struct error *err) MUST_CHECK;

/* What the cluster's scheduler would say of a request of the job for so many
 * GPUs, as far as it has told its rules: an account, a QOS or a reservation
 * that it does not have, a quota, a reservation to come. False: nothing. */
bool engine_cluster_says(const struct engine *e, const struct job *job,
                         int32_t gpus, char ret[JOB_REASON_CAP]);

#endif
