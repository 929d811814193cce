/* auth.c - authenticate callers.
 *
 * Over the unix socket the kernel names the caller's uid. Over TCP there is no
 * such name: a worker shows the token of its attempt, from an address where
 * that attempt may be; a user's request shows a MUNGE credential for its digest
 * (http_digest.h), which is valid for this one request.
 *
 * To open a credential the daemon calls munged, which may be slow or hang. A
 * thread calls it, and the request waits meanwhile; the loop does not. When
 * munged hangs, requests that have waited for LOGIN_WAIT_S fail without another
 * try, because each try takes seconds.
 *
 * A refusal is counted (mgpu_refused_total) and logged, at most one line a
 * second: a caller who tries often must not fill the disk.
 */
#include "scheduler/ctld/request/auth.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/http/cred_munge.h"
#include "jobs/http/http_digest.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/archive_load.h"
#include "scheduler/ctld/request/rate_limit.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/worker_address.h"

enum { LOGINS_QUEUED = 256 };
static const double REFUSED_EVERY_S = 1, LOGIN_WAIT_S = 5, BUSY_AGAIN_S = 0.5;

struct auth {
    double refused_s;  /* when a refusal was last logged */
    uint64_t n_unsaid; /* refused since, not logged */
};

static void log_refused(struct ctld *c, const struct http_exchange *x,
                        const struct error *why)
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    c->stats.refused++;
    if (now_s - c->auth->refused_s < REFUSED_EVERY_S && c->stats.refused > 1) {
        c->auth->n_unsaid++;
        return;
    }
    c->auth->refused_s = now_s;
    log_warn("auth", "refused peer=%s uid=%lld unsaid=%llu why=\"%s\"",
             http_peer(x)[0] ? http_peer(x) : "socket", (long long)http_uid(x),
             (unsigned long long)c->auth->n_unsaid, why->msg);
    c->auth->n_unsaid = 0;
}

static bool refuse(struct ctld *c, struct http_exchange *x,
                   const struct error *why)
{
    if (why->code == ERR_DENIED || (why->code == ERR_UNAVAIL && !c->stopping))
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

/* ---- users over TCP -------------------------------------------------------
 */

struct login {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    char *cred; /* owned */
    double asked_s;
    int64_t uid;
    char text[CRED_TEXT_CAP];
    int rc;
    struct error err;
};

static void login_run(struct task *t)
{
    struct login *l = (struct login *)t;
    const struct clock *clock = l->c->parts.clock;
    if (atomic_load(&l->c->closing))
        l->rc = error_set(&l->err, ERR_UNAVAIL, "the daemon is stopping");
    else if (clock->now_s(clock) - l->asked_s > LOGIN_WAIT_S)
        l->rc = error_set(&l->err, ERR_UNAVAIL,
                          "munged does not answer the daemon in time");
    else
        l->rc = cred_open(l->c->parts.conf->munge_socket, l->cred, &l->uid,
                          l->text, &l->err);
}

static int check_digest(struct http_exchange *x, const char *text,
                        struct error *err)
{
    char want[DIGEST_HEX_CAP];
    struct http_request req = {.method = http_method(x),
                               .path = http_target(x),
                               .idempotency_key =
                                   http_header(x, "Idempotency-Key")};
    req.body = http_body(x, &req.body_len);
    if (http_request_digest(&req, want, err) < 0)
        return -1;
    if (!digest_same(want, text))
        return error_set(err, ERR_DENIED,
                         "the MUNGE credential is for another request");
    return 0;
}

static void login_done(struct task *t)
{
    struct login *l = (struct login *)t;
    bool gone = http_is_gone(l->x);
    if (l->rc == 0 && !gone)
        l->rc = check_digest(l->x, l->text, &l->err);
    if (l->rc == 0 && !gone)
        l->rc = http_set_uid(l->x, l->uid, &l->err);
    if (l->rc == 0 || gone)
        http_again(l->x);
    else if (l->err.code == ERR_BUSY)
        http_reply_retry(l->x, &l->err, BUSY_AGAIN_S);
    else
        (void)refuse(l->c, l->x, &l->err);
    free(l->cred);
    free(l);
}

static int post_login(struct ctld *c, struct http_exchange *x, const char *cred,
                      struct error *err)
{
    struct login *l = calloc(1, sizeof(*l));
    if (!l || !(l->cred = strdup(cred))) {
        free(l);
        return error_set(err, ERR_NOMEM, "credential");
    }
    l->task = (struct task){.run = login_run, .done = login_done};
    l->c = c;
    l->x = x;
    l->asked_s = c->parts.clock->now_s(c->parts.clock);
    int rc = work_queue_post(c->logins, &l->task, err);
    if (rc < 0) {
        free(l->cred);
        free(l);
    }
    return rc;
}

/* Whoever calls is known later, or is told why not. */
static void login(struct ctld *c, struct http_exchange *x)
{
    const char *cred = http_authorization(x, "MUNGE");
    struct error err = ERROR_INIT;
    int rc = 0;
    if (c->parts.conf->auth_remote != AUTH_MUNGE)
        rc = error_set(&err, ERR_DENIED,
                       "only workers are heard over TCP: an administrator "
                       "sets 'auth: {remote: munge}' in mgpu.yaml");
    else if (!cred)
        rc = error_set(&err, ERR_DENIED,
                       "a request over TCP needs a MUNGE credential: use "
                       "mgpu's tools");
    else
        rc = post_login(c, x, cred, &err);
    if (rc < 0)
        (void)refuse(c, x, &err);
}

int auth_init(struct ctld *c, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    c->auth = calloc(1, sizeof(*c->auth));
    if (!c->auth)
        return error_set(err, ERR_NOMEM, "callers");
    if (!conf->listen || conf->auth_remote != AUTH_MUNGE)
        return 0;
    if (!HAVE_MUNGE)
        return error_set(err, ERR_CONFIG,
                         "auth.remote: this mgpu was built without MUNGE");
    return work_queue_create(c->loop, "logins", LOGINS_QUEUED, &c->logins, err);
}

void auth_clear(struct ctld *c)
{
    free(c->auth);
    c->auth = NULL;
}

/* Who passes requests of strangers on asks for what any user sees of the jobs
 * of others (wire.h), and loses his own rights for this request. */
static bool drop_rights(struct http_exchange *x)
{
    const char *view = http_header(x, WIRE_VIEW);
    struct error err = ERROR_INIT;
    if (!view)
        return true;
    if (strcmp(view, WIRE_VIEW_OTHERS) != 0)
        (void)error_set(&err, ERR_INVAL, "%s must be '%s'", WIRE_VIEW,
                        WIRE_VIEW_OTHERS);
    else if (strcmp(http_method(x), "GET") != 0)
        (void)error_set(&err, ERR_DENIED, "with %s only GET is allowed",
                        WIRE_VIEW);
    if (err.code != ERR_NONE) {
        http_reply_err(x, &err);
        return false;
    }
    http_drop_uid(x);
    http_add_header(x, WIRE_VIEW, WIRE_VIEW_OTHERS);
    return true;
}

bool ctld_admit(struct ctld *c, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    if (is_stopping(c, &err))
        return refuse(c, x, &err);
    if (http_uid(x) == HTTP_NOBODY) /* the handler is called again */
        return true;
    if (http_peer(x)[0] && http_uid(x) < 0) {
        login(c, x);
        return false;
    }
    if (check_uid(c, http_uid(x), &err) < 0)
        return refuse(c, x, &err);
    double after_s = 0;
    if (!http_is_first(x) || rate_limit_take(c, http_uid(x), &after_s))
        return drop_rights(x);
    (void)error_set(&err, ERR_BUSY,
                    "too many requests of uid %lld: more than %d a second "
                    "(limits.rpc_rate); again in %.2f s",
                    (long long)http_uid(x), (int)c->parts.conf->rpc_rate,
                    after_s);
    http_reply_retry(x, &err, after_s);
    return false;
}

bool ctld_admit_admin(struct ctld *c, struct http_exchange *x)
{
    struct error err;
    if (!ctld_admit(c, x))
        return false;
    if (engine_is_admin(c->engine, http_uid(x)))
        return true;
    (void)error_set(&err, ERR_DENIED,
                    "only administrators can (auth.admins of mgpu.yaml)");
    http_reply_err(x, &err);
    return false;
}

/* ---- workers --------------------------------------------------------------
 */

static int check_worker(const struct ctld *c, const struct http_exchange *x,
                        const struct worker *w, struct error *err)
{
    const char *peer = http_peer(x);
    if (!peer[0] && check_uid(c, http_uid(x), err) < 0)
        return -1;
    if (engine_check_token(c->engine, w->job, w->attempt, w->token, err) < 0)
        return -1;
    if (!peer[0] || c->parts.conf->workers_from == WORKERS_FROM_ANY ||
        worker_address_fits(c, engine_job(c->engine, w->job), peer))
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
    /* One that comes back after its job has left memory is to hear that its
     * attempt is over, not that there is none. */
    if (is_stopping(c, &err))
        return refuse(c, x, &err);
    if (!archive_load_for(c, x, job))
        return false;
    if (check_worker(c, x, ret, &err) < 0)
        return refuse(c, x, &err);
    return true;
}
