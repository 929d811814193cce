/* wait.h - follow jobs to their end or to a state, and say how they get on. */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_WAIT_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

struct wait_conf {
    const char *tool; /* for messages */
    uint32_t states;  /* bits of those that end the waiting; 0: the end */
    double timeout_s; /* 0: none */
    bool quiet;       /* no progress */
    FILE *out;        /* progress: one moving line on a terminal, else a
                         line per change of state and per tenth done */
    struct render_style style;
};

/* Waits until every job is in one of the states, or has ended; a daemon that
 * restarts is found again.
 *
 * A job that is further on counts as having been QUEUED, DISPATCHING, STARTING
 * and RUNNING: a short one passes them between two looks.
 *
 * out  ret_exit  0 of those in one of the states; of the others the largest of
 *                their exit codes (mgpu-submit(1)), or 125 where states were
 *                given and theirs is 0; where states were given, standard
 *                error has what became of these
 * err  ERR_TIMEOUT timeout_s passed, ERR_UNAVAIL the daemon stayed away,
 *      ERR_NOTFOUND. The jobs go on.
 */
int wait_for_jobs(struct client *c, const uint64_t *ids, size_t n,
                  const struct wait_conf *conf, int *ret_exit,
                  struct error *err) MUST_CHECK;

/* "RUNNING,HELD" as bits; NULL: 0. err ERR_USAGE no such state */
int wait_states(const char *text, uint32_t *ret, struct error *err) MUST_CHECK;

/* "epoch 1/2  iteration 120/313  loss 0.53 ..." of a job object. */
void wait_progress_text(const json_t *job, char *out, size_t cap);

#endif
