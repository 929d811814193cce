/* job_pages.h - a long list of jobs, requested in pages, newest first.
 *
 * While the tool handles one page, a thread already requests the next. Neither
 * side holds more than two pages. The pages together are like one list: each
 * job is shown as it was at one moment, and none is missing or duplicated.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_JOB_PAGES_H
#define MGPU_SCHEDULER_TOOLS_COMMON_JOB_PAGES_H

#include "scheduler/tools/common/client.h"

/* Called for one page of the reply. The tasks of a sweep are all in one page.
 * in   head  up to and with "jobs":[
 *      jobs  one after the other, and "]}"
 * err  ends the request */
typedef int pages_each_f(void *arg, const char *head, size_t head_len,
                         const char *jobs, size_t jobs_len, struct error *err);

struct pages_conf {
    struct client *client;   /* used by nobody else meanwhile */
    const char *query;       /* "&state=..."; its fields include id and sweep */
    unsigned long long most; /* maximum number of jobs */
    unsigned long long part; /* jobs per page; more than a sweep has tasks */
    pages_each_f *page;
    void *arg;
};

/* Calls page() for each page, at least once.
 * out  ret_is_strange  true: a reply is not in the daemon's format */
int pages_each(const struct pages_conf *conf, bool *ret_is_strange,
               struct error *err) MUST_CHECK;

#endif
