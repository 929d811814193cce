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

#endif
