/* watch.h - mgpu-stat --watch: the queue as it changes, sent by the daemon. */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_WATCH_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_WATCH_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/views/show.h"

struct watch_conf {
    struct show_conf show;
    double every_s;   /* minimum interval between pictures */
    double timeout_s; /* end after this long; 0: never */
    bool json;        /* print each change as a line of JSON */
    bool ids;         /* print each change as a line with the job's id */
    bool top;         /* use the whole screen: see top.h */
    struct filter filter;
    unsigned long long most; /* ended jobs to show at first */
};

/* Runs until the time has passed. On a terminal it redraws the picture,
 * otherwise it prints the picture again when something has changed. It
 * reconnects to a daemon that restarts.
 * err  ERR_UNAVAIL the daemon did not come back;  ERR_USAGE no such column, or
 *      --top without a terminal */
int watch_queue(struct client *c, const struct watch_conf *conf,
                struct error *err) MUST_CHECK;

#endif
