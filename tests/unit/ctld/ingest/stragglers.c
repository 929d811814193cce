/* stragglers.c - which rank of an attempt is said to be behind. */
#include <math.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/stragglers.h"
#include "tests/tap.h"

int main(void)
{
    static struct ctld c;
    struct clock_virtual clock;
    struct rank_seen seen[3] = {{118, 90}, {118, 99}, {118, 98}};
    struct attempt_metrics i = {
        .job = 7, .attempt = 2, .seen = seen, .n_ranks = 3};
    struct job job = {.id = 7, .attempt = 2};
    char why[80];

    clock_virtual_init(&clock, 100, 1e9);
    c.conf.heartbeat_s = 1;
    c.parts.conf = &c.conf;
    c.parts.clock = &clock.base;
    c.attempts = &i;
    stragglers_describe(&c, &job, why, sizeof(why));
    is_str(why, "", "all are as far, and heard");
    seen[1].iteration = 117;
    stragglers_describe(&c, &job, why, sizeof(why));
    is_str(why, "; rank 1 lags: at iteration 117, others at 118", "one is not");
    seen[1].iteration = 0;
    seen[1].heard_s = NAN;
    stragglers_describe(&c, &job, why, sizeof(why));
    is_str(why, "", "of one that sends nothing at all nothing is known");
    seen[2].heard_s = 60;
    stragglers_describe(&c, &job, why, sizeof(why));
    is_str(why, "; rank 2 is silent for 40 s", "one that did is missed");
    job.attempt = 3;
    stragglers_describe(&c, &job, why, sizeof(why));
    is_str(why, "", "another attempt is another");
    return tap_done();
}
