/* job_submit.c - a submit: read on a thread, entered by the loop.
 *
 * To expand a sweep, to read and check what its tasks say, and to write the
 * events of their submits takes 0.1 ms a task and needs nothing but the text
 * and some of the configuration, so the thread "submits" does it, in the order
 * of arrival. The loop then enters all of it as one request: whether the key is
 * known, whether there is room and whether it fits here are questions about
 * that moment.
 *
 * A job that the submission names, by its key or as a dependency, may be in the
 * archive. The reader's thread reads that job first, and the submission is
 * checked again when it is there, because other requests go on meanwhile. A
 * submission that needs nothing of the archive may pass.
 */
#include "scheduler/ctld/api/job_submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "jobs/http/digest_ssl.h"
#include "jobs/spec/spec.h"
#include "scheduler/ctld/api/dry_run.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/disk_space.h"
#include "scheduler/ctld/request/archive_load.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/user_names.h"
#include "scheduler/engine/store/archive.h"

enum {
    KEY_MAX = 64,
    RECALLS_MAX = 3, /* what is asked for may leave as often as it comes */
};

/* A submit on its way. The loop owns it until it posts it to the thread; the
 * thread, until it has read the specification. */
struct submission {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    json_t *body; /* owned until it is read */
    char user[NAME_USER_CAP], key[RNG_TOKEN_CAP];
    char digest[JOB_DIGEST_CAP]; /* of the spec's text; set on the thread */
    int64_t uid, max_spec_bytes, max_log_bytes;
    int32_t max_sweep;
    double kill_grace_s, wall_s; /* wall_s: when it came */
    bool hold;
    bool is_dry; /* nothing is to be entered */
    bool is_seed_open;
    bool has_program; /* notify.program is set */

    /* The jobs that the specification describes. */
    struct engine_task *tasks; /* owned, as .vary and .read of each */
    size_t n;
    bool is_sweep, stop_on_fail;
    int32_t max_parallel;
    int n_recalls;
    int rc;
    struct error err;
};

static void submission_destroy(struct submission *s)
{
    for (size_t i = 0; s->tasks && i < s->n; i++) {
        free((char *)s->tasks[i].vary);
        engine_read_destroy(s->tasks[i].read);
    }
    free(s->tasks);
    json_decref(s->body);
    free(s);
}

/* ---- on the thread --------------------------------------------------------
 */

/* The first error in one sentence; all of them are for the tools to show. */
static int refuse_spec(const struct spec_report *r, struct error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct spec_finding *f = &r->findings[i];
        if (f->is_error)
            return error_set(err, ERR_INVAL, "spec: %s%s%s [%s]%s", f->path,
                             f->path[0] ? ": " : "", f->message, f->code,
                             r->n_errors > 1 ? ", and more errors" : "");
    }
    return -1;
}

/* Another value is another text. */
static int digest(struct submission *s, const char *text, size_t len,
                  struct error *err)
{
    const struct digest_part part = {text, len};
    char hex[DIGEST_HEX_CAP];
    if (digest_parts(&part, 1, hex, err) < 0)
        return -1;
    memcpy(s->digest, hex, sizeof(s->digest) - 1);
    return 0;
}

/* The jobs of a spec, checked by the code that the tools use. */
static int expand(struct submission *s, struct spec_jobs *ret,
                  struct error *err)
{
    struct spec_options opt = {.draw_seed = !s->is_dry, .user = s->user};
    struct spec_report report = {.n = 0};
    char *text = json_dumps(json_object_get(s->body, "spec"),
                            JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return error_set(err, ERR_NOMEM, "spec");
    size_t len = strlen(text);
    int rc = (int64_t)len > s->max_spec_bytes
                 ? error_set(err, ERR_LIMIT,
                             "spec: %zu bytes, limits.max_spec_bytes is %lld",
                             len, (long long)s->max_spec_bytes)
                 : spec_expand(text, len, &opt, ret, &report, err);
    if (rc == 0)
        rc = digest(s, text, len, err);
    if (rc < 0 && report.n_errors > 0)
        rc = refuse_spec(&report, err);
    diagnostics_clear(&report);
    free(text);
    return rc;
}

/* A job's specification as the engine stores it: with every value. */
static int resolve(const struct submission *s, const struct job_spec *spec,
                   struct engine_read **ret, struct error *err)
{
    char owner[RNG_TOKEN_CAP] = "";
    struct buf text = BUF_INIT;
    int rc = spec->logs.max_bytes > s->max_log_bytes
                 ? error_set(err, ERR_LIMIT,
                             "spec: logs.max_bytes: at most %lld here "
                             "(limits.max_log_bytes)",
                             (long long)s->max_log_bytes)
                 : ctld_event_notice_check(spec, s->has_program, err);
    if (rc == 0)
        rc = spec_dump(spec, &text, err);
    if (rc == 0)
        rc = rng_token(owner, err);
    owner[JOB_OWNER_CAP - 1] = '\0';
    if (rc == 0)
        rc = engine_read(buf_str(&text), owner, ret, err);
    buf_clear(&text);
    return rc;
}

/* A stop does not wait for a large sweep, and its user is told in time. */
static int check_open(const struct submission *s, struct error *err)
{
    return atomic_load(&s->c->closing)
               ? error_set(err, ERR_UNAVAIL, "the daemon is stopping")
               : 0;
}

/* A sweep that is too large is refused for good, as any other bad sweep: the
 * client does not try again. */
static int check_sweep(const struct submission *s, const struct spec_jobs *jobs,
                       struct error *err)
{
    if (!jobs->is_sweep || s->max_sweep < 1 || jobs->n <= (size_t)s->max_sweep)
        return 0;
    return error_set(err, ERR_INVAL,
                     "a sweep of %zu jobs, of %d allowed: an administrator can "
                     "raise limits.max_sweep [E020]",
                     jobs->n, (int)s->max_sweep);
}

static int read_tasks(struct submission *s, struct spec_jobs *jobs,
                      struct error *err)
{
    s->is_sweep = jobs->is_sweep;
    s->max_parallel = jobs->max_parallel;
    s->stop_on_fail = jobs->stop_on_fail;
    s->is_seed_open = jobs->tasks[0].spec.train.seed < 0;
    s->tasks = calloc(jobs->n, sizeof(*s->tasks));
    if (!s->tasks)
        return error_set(err, ERR_NOMEM, "%zu tasks", jobs->n);
    s->n = jobs->n;
    for (size_t i = 0; i < s->n; i++) {
        struct spec_task *t = &jobs->tasks[i];
        if (check_open(s, err) < 0 ||
            resolve(s, &t->spec, &s->tasks[i].read, err) < 0)
            return -1;
        s->tasks[i].vary = t->vary;
        t->vary = NULL;
    }
    return 0;
}

/* The engine's request, from what the thread read. */
static struct engine_submit request_of(const struct submission *s)
{
    return (struct engine_submit){.uid = s->uid,
                                  .user = s->user,
                                  .key = s->key,
                                  .digest = s->digest,
                                  .read = s->is_sweep ? NULL : s->tasks[0].read,
                                  .hold = s->hold};
}

static struct engine_sweep sweep_of(const struct submission *s)
{
    return (struct engine_sweep){.tasks = s->tasks,
                                 .n = s->n,
                                 .max_parallel = s->max_parallel,
                                 .stop_on_fail = s->stop_on_fail};
}

/* Makes all jobs at once on the thread: in the loop the engine could make them
 * only one by one. */
static int draft(struct submission *s, struct error *err)
{
    const struct engine_submit req = request_of(s);
    const struct engine_sweep sweep = sweep_of(s);
    return check_open(s, err) < 0
               ? -1
               : engine_draft(&req, s->is_sweep ? &sweep : NULL,
                              s->kill_grace_s, s->wall_s, err);
}

static void read_run(struct task *t)
{
    struct submission *s = (struct submission *)t;
    struct spec_jobs jobs = {.n = 0};
    s->rc = check_open(s, &s->err);
    if (s->rc == 0)
        s->rc = expand(s, &jobs, &s->err);
    if (s->rc == 0)
        s->rc = check_sweep(s, &jobs, &s->err);
    if (s->rc == 0)
        s->rc = read_tasks(s, &jobs, &s->err);
    if (s->rc == 0 && !s->is_dry)
        s->rc = draft(s, &s->err);
    spec_jobs_clear(&jobs);
    json_decref(s->body);
    s->body = NULL;
}

/* ---- on the loop ----------------------------------------------------------
 */

/* This configuration refuses the specification; an earlier one may have taken
 * it. Then the engine knows the key, and the answer is the job that it made. */
static int enter_refused(const struct submission *s, uint64_t *ret_id,
                         bool *ret_again, struct error *err)
{
    struct engine_submit req = {.uid = s->uid,
                                .user = s->user,
                                .key = s->key,
                                .digest = s->digest,
                                .closed = &s->err};
    return engine_submit(s->c->engine, &req, ret_id, ret_again, err);
}

static int enter(const struct submission *s, uint64_t *ret_id, bool *ret_again,
                 struct error *err)
{
    struct engine *e = s->c->engine;
    struct error closed = ERROR_INIT;
    struct engine_submit req = request_of(s);
    const struct engine_sweep sweep = sweep_of(s);

    if (disk_space_check(s->c, &closed) < 0)
        req.closed = &closed;
    return s->is_sweep
               ? engine_submit_sweep(e, &req, &sweep, ret_id, ret_again, err)
               : engine_submit(e, &req, ret_id, ret_again, err);
}

static void dry_run(struct submission *s)
{
    const struct engine_submit req = request_of(s);
    const struct engine_sweep sweep = sweep_of(s);
    struct error closed = ERROR_INIT;

    if (disk_space_check(s->c, &closed) < 0) {
        http_reply_err(s->x, &closed);
        return;
    }
    dry_run_reply(s->c, s->x, &req, s->is_sweep ? &sweep : NULL,
                  s->is_seed_open);
}

/* The text of the specification was read, so the engine may know its key. */
static bool may_be_known(const struct submission *s)
{
    return !s->is_dry && s->digest[0] != '\0';
}

static void answer(struct submission *s)
{
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    bool again = false;
    int rc = s->rc;
    if (rc == 0 && !s->is_dry)
        rc = enter(s, &id, &again, &err);
    else if (rc < 0 && may_be_known(s))
        rc = enter_refused(s, &id, &again, &err);
    else
        err = s->err;
    if (rc < 0)
        http_reply_err(s->x, &err);
    else if (s->is_dry)
        dry_run(s);
    else
        held_replies_add(s->c, s->x, again ? 200 : 201, id);
    submission_destroy(s);
}

static void settle(struct submission *s);

/* A job that was removed meanwhile, or is being removed, is no error here: the
 * engine decides when the submit's turn comes. */
static void on_recalled(void *arg, const struct error *why)
{
    struct submission *s = arg;
    if (!why || why->code == ERR_NOTFOUND || why->code == ERR_BUSY) {
        settle(s);
        return;
    }
    http_reply_err(s->x, why);
    submission_destroy(s);
}

/* The daemon may have been asked to stop meanwhile, and takes nothing more.
 * A client that left without waiting finds its job by the key. */
static void settle(struct submission *s)
{
    const struct engine_submit req = {.uid = s->uid,
                                      .key = s->is_dry ? NULL : s->key};
    struct error err = ERROR_INIT;
    uint64_t *ids = NULL;
    size_t n = 0;
    int rc = 0;
    if (s->c->stopping) {
        if (s->rc == 0)
            (void)error_set(&s->err, ERR_UNAVAIL, "the daemon is stopping");
        http_reply_err(s->x, &s->err);
        submission_destroy(s);
        return;
    }
    if ((s->rc == 0 || may_be_known(s)) && s->n_recalls++ < RECALLS_MAX)
        rc = engine_needs(s->c->engine, &req, s->tasks, s->rc == 0 ? s->n : 0,
                          &ids, &n, &err);
    if (rc == 0 && n > 0)
        rc = archive_load_all(s->c, ids, n, on_recalled, s, &err);
    free(ids);
    if (rc < 0) {
        http_reply_err(s->x, &err);
        submission_destroy(s);
    } else if (n == 0) {
        answer(s);
    }
}

static void read_done(struct task *t)
{
    settle((struct submission *)t);
}

static int pick_key(struct http_exchange *x, char ret[RNG_TOKEN_CAP],
                    struct error *err)
{
    const char *key = http_header(x, "Idempotency-Key");
    if (!key)
        return rng_token(ret, err);
    size_t len = strlen(key);
    if (len < 1 || len > KEY_MAX)
        return error_set(err, ERR_INVAL,
                         "Idempotency-Key: expected 1..%d characters", KEY_MAX);
    memcpy(ret, key, len + 1);
    return 0;
}

/* Root may ask any daemon, but a job of root's would fail where it starts: the
 * helper refuses it, and a daemon of one user cannot become another. */
static int check_root(const struct ctld *c, struct http_exchange *x,
                      struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    if (conf->refuses_root && http_uid(x) == 0)
        return error_set(err, ERR_DENIED,
                         "root's jobs are not run here: submit as a user");
    if (!conf->serves_all && http_uid(x) != conf->uid)
        return error_set(err, ERR_DENIED,
                         "this daemon runs jobs of uid %lld only: submit as "
                         "that user, or to a daemon of your own",
                         (long long)conf->uid);
    return 0;
}

static int check_shape(const json_t *body, struct error *err)
{
    const json_t *hold = json_object_get(body, "hold");
    return json_is_object(json_object_get(body, "spec")) &&
                   (!hold || json_is_boolean(hold))
               ? 0
               : error_set(err, ERR_INVAL,
                           "expected {\"spec\":{..},\"hold\":true or false}");
}

/* Takes the body. */
static int post(struct ctld *c, struct http_exchange *x, const char *user,
                json_t *body, bool is_dry, struct error *err)
{
    const struct ctld_conf *conf = c->parts.conf;
    struct submission *s = calloc(1, sizeof(*s));
    if (!s) {
        json_decref(body);
        return error_set(err, ERR_NOMEM, "submit");
    }
    s->task = (struct task){.run = read_run, .done = read_done};
    s->c = c;
    s->x = x;
    s->body = body;
    s->is_dry = is_dry;
    s->uid = http_uid(x);
    s->max_sweep = conf->max_sweep;
    s->max_spec_bytes = conf->max_spec_bytes;
    s->max_log_bytes = conf->max_log_bytes;
    s->kill_grace_s = conf->kill_grace_s;
    s->wall_s = c->parts.clock->wall_s(c->parts.clock);
    s->hold = json_is_true(json_object_get(body, "hold"));
    (void)snprintf(s->user, sizeof(s->user), "%s", user);
    s->has_program = conf->notify_program && conf->notify_program->n > 0;
    int rc = check_root(c, x, err);
    if (rc == 0)
        rc = check_shape(body, err);
    if (rc == 0 && !is_dry)
        rc = pick_key(x, s->key, err);
    if (rc == 0)
        rc = work_queue_post(c->submits, &s->task, err);
    if (rc < 0)
        submission_destroy(s);
    return rc;
}

static void serve(struct ctld *c, struct http_exchange *x, bool is_dry)
{
    struct error err = ERROR_INIT;
    char user[NAME_USER_CAP];
    json_t *body = ctld_admit(c, x) && user_names_of_caller(c, x, user)
                       ? ctld_body(x)
                       : NULL;
    if (body && post(c, x, user, body, is_dry, &err) < 0)
        http_reply_err(x, &err);
}

void serve_submit(void *arg, struct http_exchange *x)
{
    serve(arg, x, false);
}

void serve_dry_run(void *arg, struct http_exchange *x)
{
    serve(arg, x, true);
}

int job_submit_init(struct ctld *c, struct error *err)
{
    /* A connection has one request under way. */
    return work_queue_create(c->loop, "submits",
                             (size_t)c->parts.conf->max_clients, &c->submits,
                             err);
}
