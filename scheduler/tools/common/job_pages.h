/* job_pages.h - a long list of jobs, asked for in parts, the newest first.
 *
 * While one part is looked at the daemon makes the next, on a thread that does
 * nothing but wait for it. Neither has more than two parts at a time. All that
 * holds of a list holds of its parts together: each job is as it was at one
 * moment, and none is missing or there twice.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_JOB_PAGES_H
#define MGPU_SCHEDULER_TOOLS_COMMON_JOB_PAGES_H

#include "scheduler/tools/common/client.h"

/* One part of the daemon's reply. The tasks of a sweep are in one.
 * in   head  up to and with "jobs":[
 *      jobs  one after the other, and "]}"
 * err  ends it all */
typedef int pages_each_f(void *arg, const char *head, size_t head_len,
                         const char *jobs, size_t jobs_len, struct error *err);

struct pages_conf {
    struct client *client;   /* nobody else's meanwhile */
    const char *query;       /* "&state=..."; with fields of id and sweep */
    unsigned long long most; /* jobs */
    unsigned long long part; /* of a part; more than a sweep has tasks */
    pages_each_f *page;
    void *arg;
};

/* Calls page() for each, at least once.
 * out  ret_is_strange  true: a reply is not as the daemon writes it */
int pages_each(const struct pages_conf *conf, bool *ret_is_strange,
               struct error *err) MUST_CHECK;

#endif
