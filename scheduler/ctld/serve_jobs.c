/* serve_jobs.c - what users ask for: submit, cancel, hold, release. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/base/rng.h"
#include "jobs/spec.h"
#include "scheduler/ctld/private.h"

enum { KEY_MAX = 64 };

/* ---- submit ---------------------------------------------------------------
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

/* The jobs of a spec, checked by the code that the tools use. */
static int read_spec(const struct ctld_conf *conf, const json_t *spec,
                     struct spec_jobs *ret, struct error *err)
{
    struct spec_options opt = {.draw_seed = true};
    struct spec_report report = {.n = 0};
    char *text = json_dumps(spec, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return error_set(err, ERR_NOMEM, "spec");
    size_t len = strlen(text);
    int rc = (int64_t)len > conf->max_spec_bytes
                 ? error_set(err, ERR_LIMIT,
                             "spec: %zu bytes, limits.max_spec_bytes is %lld",
                             len, (long long)conf->max_spec_bytes)
                 : spec_expand(text, len, &opt, ret, &report, err);
    if (rc < 0 && report.n_errors > 0)
        rc = refuse_spec(&report, err);
    spec_report_clear(&report);
    free(text);
    return rc;
}

/* One of them as the engine stores it: every value present. */
static int resolve_spec(const struct ctld_conf *conf,
                        const struct job_spec *spec, struct buf *out,
                        struct error *err)
{
    return spec->logs.max_bytes > conf->max_log_bytes
               ? error_set(err, ERR_LIMIT,
                           "spec: logs.max_bytes: at most %lld here "
                           "(limits.max_log_bytes)",
                           (long long)conf->max_log_bytes)
               : spec_dump(spec, out, err);
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

static int submit_one(struct ctld *c, struct engine_submit *req,
                      const struct spec_jobs *jobs, uint64_t *ret_id,
                      bool *ret_again, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = resolve_spec(c->parts.conf, &jobs->tasks[0].spec, &text, err);
    req->spec = buf_str(&text);
    if (rc == 0)
        rc = engine_submit(c->engine, req, ret_id, ret_again, err);
    buf_clear(&text);
    return rc;
}

static int submit_sweep(struct ctld *c, const struct engine_submit *req,
                        const struct spec_jobs *jobs, uint64_t *ret_id,
                        bool *ret_again, struct error *err)
{
    struct engine_task *tasks = calloc(jobs->n, sizeof(*tasks));
    struct engine_sweep sweep = {.tasks = tasks,
                                 .n = jobs->n,
                                 .max_parallel = jobs->max_parallel,
                                 .stop_on_fail = jobs->stop_on_fail};
    int rc = tasks ? 0 : error_set(err, ERR_NOMEM, "%zu tasks", jobs->n);
    for (size_t i = 0; rc == 0 && i < jobs->n; i++) {
        struct buf text = BUF_INIT;
        rc = resolve_spec(c->parts.conf, &jobs->tasks[i].spec, &text, err);
        tasks[i].vary = jobs->tasks[i].vary;
        tasks[i].spec = rc == 0 ? buf_detach(&text) : NULL;
        if (rc == 0 && !tasks[i].spec)
            rc = error_set(err, ERR_NOMEM, "task %zu", i);
        buf_clear(&text);
    }
    if (rc == 0)
        rc =
            engine_submit_sweep(c->engine, req, &sweep, ret_id, ret_again, err);
    for (size_t i = 0; tasks && i < jobs->n; i++)
        free((char *)tasks[i].spec);
    free(tasks);
    return rc;
}

static int submit(struct ctld *c, struct http_exchange *x, const char *user,
                  const json_t *body, uint64_t *ret_id, bool *ret_again,
                  struct error *err)
{
    const json_t *spec = json_object_get(body, "spec");
    const json_t *hold = json_object_get(body, "hold");
    char key[RNG_TOKEN_CAP];
    struct spec_jobs jobs = {.n = 0};
    if (!json_is_object(spec) || (hold && !json_is_boolean(hold)))
        return error_set(err, ERR_INVAL,
                         "expected {\"spec\":{..},\"hold\":true or false}");
    if (pick_key(x, key, err) < 0 ||
        read_spec(c->parts.conf, spec, &jobs, err) < 0)
        return -1;
    struct engine_submit req = {.uid = http_uid(x),
                                .user = user,
                                .key = key,
                                .hold = json_is_true(hold)};
    int rc = jobs.is_sweep
                 ? submit_sweep(c, &req, &jobs, ret_id, ret_again, err)
                 : submit_one(c, &req, &jobs, ret_id, ret_again, err);
    spec_jobs_clear(&jobs);
    return rc;
}

/* The helper would refuse it later, and the job would have failed. */
static int check_root(const struct ctld *c, struct http_exchange *x,
                      struct error *err)
{
    return c->parts.conf->refuses_root && http_uid(x) == 0
               ? error_set(err, ERR_DENIED,
                           "root's jobs are not run here: submit as a user")
               : 0;
}

void serve_submit(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    bool again = false;
    char user[CTLD_USER_CAP];
    json_t *body =
        ctld_admit(c, x) && ctld_caller_name(c, x, user) ? ctld_body(x) : NULL;
    if (!body)
        return;
    int rc = check_root(c, x, &err);
    if (rc == 0)
        rc = submit(c, x, user, body, &id, &again, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        ctld_hold(c, x, again ? 200 : 201, id);
}

/* ---- cancel, hold, release ------------------------------------------------
 */

static int signal_number(const char *name, struct error *err)
{
    static const struct {
        const char *name;
        int signo;
    } known[] = {
        {"TERM", SIGTERM}, {"INT", SIGINT},   {"KILL", SIGKILL},
        {"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
        {"USR2", SIGUSR2}, {"STOP", SIGSTOP}, {"CONT", SIGCONT},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].signo;
    return error_set(err, ERR_INVAL,
                     "signal '%.20s': expected TERM, INT, KILL, HUP, QUIT, "
                     "USR1, USR2, STOP or CONT",
                     name);
}

/* What a request for a job, or for all of a sweep, is to do. */
static int cancel_target(struct ctld *c, const struct target *t, int64_t uid,
                         const json_t *name, struct error *err)
{
    struct engine *e = c->engine;
    if (json_is_string(name)) {
        int signo = signal_number(json_string_value(name), err);
        if (signo < 0)
            return -1;
        return t->is_sweep ? engine_signal_sweep(e, t->id, uid, signo, err)
                           : engine_signal(e, t->id, uid, signo, err);
    }
    if (name && !json_is_null(name))
        return error_set(err, ERR_INVAL, "signal: expected a string");
    return t->is_sweep ? engine_cancel_sweep(e, t->id, uid, err)
                       : engine_cancel(e, t->id, uid, err);
}

void serve_cancel(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    struct target t;
    json_t *body =
        ctld_admit(c, x) && ctld_param_target(c, x, &t) ? ctld_body(x) : NULL;
    if (!body)
        return;
    int rc = cancel_target(c, &t, http_uid(x), json_object_get(body, "signal"),
                           &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        ctld_hold(c, x, 200, t.id);
}

static void set_hold(struct ctld *c, struct http_exchange *x, bool hold)
{
    struct error err = ERROR_INIT;
    struct target t;
    int64_t uid = http_uid(x);
    if (!ctld_admit(c, x) || !ctld_param_target(c, x, &t))
        return;
    int rc = t.is_sweep ? engine_hold_sweep(c->engine, t.id, uid, hold, &err)
                        : engine_hold(c->engine, t.id, uid, hold, &err);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        ctld_hold(c, x, 200, t.id);
}

void serve_hold(void *arg, struct http_exchange *x)
{
    set_hold(arg, x, true);
}

void serve_release(void *arg, struct http_exchange *x)
{
    set_hold(arg, x, false);
}
