/* rate_limit.c - S06: who asks too often is told when to ask again, and nobody
 * else notices. */
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/rate_limit.h"
#include "tests/tap.h"

static struct ctld *make(struct clock_virtual *clock, int rate, int burst)
{
    struct ctld *c = calloc(1, sizeof(*c));
    if (!c)
        abort();
    c->conf.rpc_rate = rate;
    c->conf.rpc_burst = burst;
    c->parts.conf = &c->conf;
    c->parts.clock = &clock->base;
    if (rate_limit_init(c, NULL) < 0)
        abort();
    return c;
}

static int n_taken(struct ctld *c, int64_t uid, int n, double *ret_after_s)
{
    int taken = 0;
    for (int i = 0; i < n; i++)
        taken += rate_limit_take(c, uid, ret_after_s);
    return taken;
}

int main(void)
{
    struct clock_virtual clock;
    double after_s = 0;
    clock_virtual_init(&clock, 100, 1e9);
    struct ctld *c = make(&clock, 20, 60);

    is_int(n_taken(c, 1000, 10000, &after_s), 60, "a burst, and no more");
    ok(after_s > 0.04 && after_s < 0.06, "the next in 50 ms: %g", after_s);
    is_int((long)c->stats.limited, 9940, "the others are counted");
    is_int(n_taken(c, 1001, 60, &after_s), 60, "another user has his own");
    clock.t_s += 0.5;
    is_int(n_taken(c, 1000, 100, &after_s), 10, "20 a second come back");
    clock.t_s += 3600;
    is_int(n_taken(c, 1000, 100, &after_s), 60, "but never more than a burst");
    clock.t_s -= 1800;
    is_int(n_taken(c, 1000, 100, &after_s), 0,
           "a clock that goes back gives none");
    ok(after_s <= 0.05, "and takes none: %g", after_s);
    clock.t_s += 7200;
    for (int64_t uid = 2000; uid < 2000 + 2 * RATE_LIMIT_BUCKETS; uid++)
        after_s = n_taken(c, uid, 61, &after_s) == 60 ? after_s : -1;
    ok(after_s > 0, "more users than buckets are all served");
    c->conf.rpc_rate = 0;
    is_int(n_taken(c, 1000, 1000, &after_s), 1000, "no limit, no refusal");
    rate_limit_clear(c);
    free(c);
    return tap_done();
}
