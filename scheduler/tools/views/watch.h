/* watch.h - the queue as it changes, pushed by the daemon. */
#ifndef MGPU_SCHEDULER_TOOLS_VIEWS_WATCH_H
#define MGPU_SCHEDULER_TOOLS_VIEWS_WATCH_H

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/job_query.h"
#include "scheduler/tools/views/show.h"

struct watch_conf {
    struct show_conf show;
    double every_s;   /* a new picture at most so often */
    double timeout_s; /* end after this long; 0: never */
    bool json;        /* each change as a line, as the daemon sends it */
    bool ids;         /* each change as a line with the job's number */
    bool top;         /* all of the screen: see top.h */
    struct filter filter;
    unsigned long long most; /* of those that have ended, at first */
};

/* Until the time has passed. On a terminal the picture is drawn anew, else
 * printed again when something has changed. A daemon that restarts is found
 * again.
 * err  ERR_UNAVAIL it stayed away;  ERR_USAGE a column that there is not, or
 *      no screen for top */
int watch_queue(struct client *c, const struct watch_conf *conf,
                struct error *err) MUST_CHECK;

#endif
