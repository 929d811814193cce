/* cancel_jobs.h - cancel jobs or send them a signal, for mgpu-cancel. */
#ifndef MGPU_SCHEDULER_TOOLS_CANCEL_CANCEL_JOBS_H
#define MGPU_SCHEDULER_TOOLS_CANCEL_CANCEL_JOBS_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"

struct cancel_conf {
    const char *tool; /* for messages */
    const struct filter *filter;
    const char *signal; /* "USR1"; NULL: cancel */
    bool json, quiet;
};

/* Parses the value of --signal, as in jobs/base/signals.h.
 * err  ERR_USAGE */
int cancel_signal(const char *value, const char **ret,
                  struct error *err) MUST_CHECK;
/* Checks that operands or a user were given, and that other filters come with a
 * user: a typing error must not cancel the jobs of others.
 * err  ERR_USAGE */
int cancel_check(const struct cancel_conf *conf, int n,
                 struct error *err) MUST_CHECK;
/* Handles each word and each job that the filter chooses, and prints the
 * results. Tries all of them.
 * out  ret_exit  the worst exit status
 * err  ERR_UNAVAIL */
int cancel_jobs(struct client *c, const struct cancel_conf *conf, int n,
                char **words, int *ret_exit, struct error *err) MUST_CHECK;

#endif
