/* cancel_jobs.h - ends jobs, or sends them a signal: what mgpu-cancel does, and
 * mgpu-stat --cancel. */
#ifndef MGPU_SCHEDULER_TOOLS_CANCEL_CANCEL_JOBS_H
#define MGPU_SCHEDULER_TOOLS_CANCEL_CANCEL_JOBS_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"

struct cancel_conf {
    const char *tool; /* for messages */
    const struct filter *filter;
    const char *signal; /* "USR1"; NULL: they are ended */
    bool json, quiet;
};

/* The value of --signal, as in jobs/base/signals.h.
 * err  ERR_USAGE */
int cancel_signal(const char *value, const char **ret,
                  struct error *err) MUST_CHECK;
/* Without operands and without a user there is nothing to end, and what else
 * chooses jobs goes with a user alone: nobody ends others' by a slip.
 * err  ERR_USAGE */
int cancel_check(const struct cancel_conf *conf, int n,
                 struct error *err) MUST_CHECK;
/* Each of the words and of what the filter chooses, and says what became of
 * it. All are tried.
 * out  ret_exit  the status of the worst
 * err  ERR_UNAVAIL */
int cancel_jobs(struct client *c, const struct cancel_conf *conf, int n,
                char **words, int *ret_exit, struct error *err) MUST_CHECK;

#endif
