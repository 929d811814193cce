/* auth.c - who is calling, and may he speak to us?
 *
 * Over the unix socket the kernel names the caller's uid. Over TCP it names
 * nobody: a worker shows the token of its attempt, from an address where that
 * attempt may be; a user's request needs a credential.
 *
 * What is refused here is counted (mgpu_refused_total) and logged, one line a
 * second at most: who knocks often must not fill the disk.
 */
#include "jobs/base/log.h"
#include "scheduler/ctld/private.h"

static const double REFUSED_EVERY_S = 1;

static void log_refused(struct ctld *c, const struct http_exchange *x,
                        const struct error *why)
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    c->stats.refused++;
    if (now_s - c->refused_s < REFUSED_EVERY_S && c->stats.refused > 1) {
        c->n_unsaid++;
        return;
    }
    c->refused_s = now_s;
    log_warn("auth", "refused peer=%s uid=%lld unsaid=%llu why=\"%s\"",
             http_peer(x)[0] ? http_peer(x) : "socket", (long long)http_uid(x),
             (unsigned long long)c->n_unsaid, why->msg);
    c->n_unsaid = 0;
}

static bool refuse(struct ctld *c, struct http_exchange *x,
                   const struct error *why)
{
    if (why->code == ERR_DENIED)
        log_refused(c, x, why);
    http_reply_err(x, why);
    return false;
}

static bool is_stopping(const struct ctld *c, struct error *err)
{
    if (c->stopping)
        (void)error_set(err, ERR_UNAVAIL, "the daemon is stopping");
    return c->stopping;
}

/* A uid that the kernel, or a credential, vouches for. */
static int check_uid(const struct ctld *c, int64_t uid, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    if (uid < 0)
        return error_set(err, ERR_DENIED, "the caller is not known");
    if (uid != 0 && !conf->serves_all && uid != conf->uid)
        return error_set(err, ERR_DENIED, "this daemon serves uid %lld only",
                         (long long)conf->uid);
    return 0;
}

bool ctld_admit(struct ctld *c, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    if (is_stopping(c, &err))
        return refuse(c, x, &err);
    if (http_peer(x)[0] && http_uid(x) < 0) {
        (void)error_set(&err, ERR_DENIED,
                        "only workers are heard over TCP: an administrator "
                        "sets 'auth: {remote: munge}' in mgpu.yaml");
        return refuse(c, x, &err);
    }
    return check_uid(c, http_uid(x), &err) == 0 || refuse(c, x, &err);
}

static int check_worker(const struct ctld *c, const struct http_exchange *x,
                        const struct worker *w, struct error *err)
{
    const char *peer = http_peer(x);
    if (!peer[0] && check_uid(c, http_uid(x), err) < 0)
        return -1;
    if (engine_check_token(c->engine, w->job, w->attempt, w->token, err) < 0)
        return -1;
    if (!peer[0] || c->parts.conf->workers_from == WORKERS_FROM_ANY ||
        ctld_origin_fits(c, engine_job(c->engine, w->job), peer))
        return 0;
    return error_set(err, ERR_DENIED,
                     "job %llu has no worker at %s (auth.workers_from)",
                     (unsigned long long)w->job, peer);
}

bool ctld_admit_worker(struct ctld *c, struct http_exchange *x,
                       struct worker *ret)
{
    struct error err = ERROR_INIT;
    const char *token = http_bearer(x);
    uint64_t job = 0, attempt = 0;
    if (!ctld_param_id(x, 0, &job) || !ctld_param_id(x, 1, &attempt))
        return false;
    *ret = (struct worker){
        .job = job, .attempt = (int32_t)attempt, .token = token ? token : ""};
    if (is_stopping(c, &err) || check_worker(c, x, ret, &err) < 0)
        return refuse(c, x, &err);
    return true;
}
