/* wait.h - wait for jobs to end or to reach a state, and print their
 * progress. */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_WAIT_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

struct wait_conf {
    const char *tool; /* for messages */
    uint32_t states;  /* bits of the awaited states; 0: the end */
    double timeout_s; /* 0: none */
    bool quiet;       /* print no progress */
    FILE *out;        /* progress: one updated line on a terminal, else a
                         line per change of state and per tenth of the work */
    struct render_style style;
};

/* Waits until every job is in one of the states, or has ended; reconnects to a
 * daemon that restarts.
 *
 * A job that is further on counts as having been QUEUED, DISPATCHING, STARTING
 * and RUNNING: a short job passes these between two updates.
 *
 * out  ret_exit  0 for jobs in one of the states; for the others the largest of
 *      their exit codes (mgpu-submit(1)), or 125 if states were given and the
 *      code is 0. If states were given, the final state of these jobs is
 *      printed on standard error
 * err  ERR_TIMEOUT timeout_s passed, ERR_UNAVAIL the daemon did not come back,
 *      ERR_NOTFOUND. The jobs go on. */
int wait_for_jobs(struct client *c, const uint64_t *ids, size_t n,
                  const struct wait_conf *conf, int *ret_exit,
                  struct error *err) MUST_CHECK;

/* Parses "RUNNING,HELD" into bits; NULL: 0. err ERR_USAGE no such state */
int wait_states(const char *text, uint32_t *ret, struct error *err) MUST_CHECK;

/* Writes "epoch 1/2 iteration 120/313 loss 0.53 ..." for a job object. */
void wait_progress_text(const json_t *job, char *out, size_t cap);

#endif
