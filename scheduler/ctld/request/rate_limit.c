/* rate_limit.c - limit the requests of each user with token buckets.
 *
 * A bucket holds limits.rpc_burst tokens and gains limits.rpc_rate a second; a
 * request takes one. A user whose requests come in a loop is served at that
 * rate and no faster, and costs other users a comparison. Administrators of a
 * daemon that serves all users are exempt: they call when something is wrong.
 * Workers are exempt, too: the daemon decides their number and pace.
 *
 * There are RATE_LIMIT_BUCKETS buckets. When all are in use, a new user takes
 * the bucket of the user who has been silent for longest, which is most likely
 * full by then.
 */
#include "scheduler/ctld/request/rate_limit.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

struct bucket {
    int64_t uid;
    double tokens, at_s; /* so many were left then; at_s 0: free */
};

struct rate_limit {
    struct bucket buckets[RATE_LIMIT_BUCKETS];
};

static struct bucket *find(struct rate_limit *all, int64_t uid, double burst)
{
    struct bucket *oldest = &all->buckets[0];
    for (struct bucket *r = all->buckets; r < all->buckets + RATE_LIMIT_BUCKETS;
         r++) {
        if (r->at_s > 0 && r->uid == uid)
            return r;
        if (r->at_s < oldest->at_s)
            oldest = r;
    }
    *oldest = (struct bucket){.uid = uid, .tokens = burst};
    return oldest;
}

bool rate_limit_take(struct ctld *c, int64_t uid, double *ret_after_s)
{
    const struct ctld_conf *conf = c->parts.conf;
    double rate = conf->rpc_rate, burst = fmax(conf->rpc_burst, 1);
    double now_s = c->parts.clock->now_s(c->parts.clock);

    if (rate <= 0 || (conf->serves_all && engine_is_admin(c->engine, uid)))
        return true;
    struct bucket *r = find(c->rate_limit, uid, burst);
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

int rate_limit_init(struct ctld *c, struct error *err)
{
    c->rate_limit = calloc(1, sizeof(*c->rate_limit));
    return c->rate_limit ? 0 : error_set(err, ERR_NOMEM, "rate limit");
}

void rate_limit_clear(struct ctld *c)
{
    free(c->rate_limit);
    c->rate_limit = NULL;
}
