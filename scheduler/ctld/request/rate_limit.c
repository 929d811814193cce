/* rate_limit.c - how often one user may ask: a bucket of tokens each.
 *
 * A bucket holds limits.rpc_burst tokens, gets limits.rpc_rate a second, and a
 * request takes one. A user who asks in a loop is answered at that rate and no
 * faster, and costs the others a comparison. Administrators of a daemon that
 * serves all are not counted: they come when something is wrong. Nor are
 * workers, whose number and pace is the daemon's own doing.
 *
 * There are CTLD_RATES_MAX buckets; who comes when all are taken gets that of
 * the user who has not asked for longest, by then most likely a full one.
 */
#include <math.h>

#include "scheduler/ctld/ctld_internal.h"

static struct ctld_rate *find(struct ctld *c, int64_t uid, double burst)
{
    struct ctld_rate *oldest = &c->rates[0];
    for (struct ctld_rate *r = c->rates; r < c->rates + CTLD_RATES_MAX; r++) {
        if (r->at_s > 0 && r->uid == uid)
            return r;
        if (r->at_s < oldest->at_s)
            oldest = r;
    }
    *oldest = (struct ctld_rate){.uid = uid, .tokens = burst};
    return oldest;
}

bool ctld_rate_takes(struct ctld *c, int64_t uid, double *ret_after_s)
{
    const struct ctld_conf *conf = c->parts.conf;
    double rate = conf->rpc_rate, burst = fmax(conf->rpc_burst, 1);
    double now_s = c->parts.clock->now_s(c->parts.clock);

    if (rate <= 0 || (conf->serves_all && engine_is_admin(c->engine, uid)))
        return true;
    struct ctld_rate *r = find(c, uid, burst);
    double passed_s = r->at_s > 0 ? fmax(now_s - r->at_s, 0) : 0;
    r->tokens = fmin(burst, r->tokens + passed_s * rate);
    r->at_s = fmax(now_s, 1e-9);
    if (r->tokens >= 1) {
        r->tokens -= 1;
        return true;
    }
    *ret_after_s = (1 - r->tokens) / rate;
    c->stats.limited++;
    return false;
}
