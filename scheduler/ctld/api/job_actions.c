/* job_actions.c - cancel, hold, release, requeue, resize, update and prioritise
 * jobs.
 *
 * A submit is in job_submit.c. The engine decides who may do what.
 */
#include <math.h>
#include <string.h>

#include "jobs/base/signals.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/user_names.h"
#include "scheduler/engine/resize.h"
#include "scheduler/engine/update.h"

/* Cancels or signals a job, or all tasks of a sweep. */
static int cancel_target(struct ctld *c, const struct target *t, int64_t uid,
                         const json_t *name, struct error *err)
{
    struct engine *e = c->engine;
    if (json_is_string(name)) {
        int signo = signals_of_job(json_string_value(name), NULL, err);
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
        held_replies_add(c, x, 200, t.id);
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
        held_replies_add(c, x, 200, t.id);
}

void serve_hold(void *arg, struct http_exchange *x)
{
    set_hold(arg, x, true);
}

void serve_release(void *arg, struct http_exchange *x)
{
    set_hold(arg, x, false);
}

void serve_requeue(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    if (!ctld_admit(c, x) || !ctld_param_one(c, x, &id))
        return;
    if (engine_requeue(c->engine, id, http_uid(x), &err) < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, id);
}

/* {"gpus":4} or {"gpus":"any"}, and {"nodes":2} */
static int size_of(const json_t *body, struct engine_size *ret,
                   struct error *err)
{
    const json_t *gpus = json_object_get(body, "gpus");
    const json_t *nodes = json_object_get(body, "nodes");
    const char *word = json_string_value(gpus);
    json_int_t n = json_integer_value(gpus), k = json_integer_value(nodes);

    *ret = (struct engine_size){.gpus = 0};
    if (nodes && !json_is_null(nodes) &&
        (!json_is_integer(nodes) || k < 1 || k > INT32_MAX))
        return error_set(err, ERR_INVAL, "nodes: expected 1 or more");
    if (word && strcmp(word, "any") == 0 && k == 0)
        return 0;
    if (!json_is_integer(gpus) || n < 1 || n > INT32_MAX)
        return error_set(err, ERR_INVAL,
                         "expected {\"gpus\":N}, with {\"nodes\":N} or not, "
                         "or {\"gpus\":\"any\"}");
    *ret = (struct engine_size){.gpus = (int32_t)n, .nodes = (int32_t)k};
    return 0;
}

void serve_resize(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    struct engine_size to;
    char who[NAME_USER_CAP], says[JOB_REASON_CAP] = "";
    uint64_t id = 0;
    json_t *body = ctld_admit(c, x) && ctld_param_one(c, x, &id) &&
                           user_names_of_caller(c, x, who)
                       ? ctld_body(x)
                       : NULL;
    if (!body)
        return;
    int rc = size_of(body, &to, &err);
    const struct job *job = engine_job(c->engine, id);
    if (rc == 0 && job)
        engine_resize_says(job, who, &to, says);
    if (rc == 0)
        rc = engine_resize(c->engine, id, http_uid(x), who, &to, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add_text(c, x, 200, id, says);
}

static int set_priority(struct ctld *c, struct http_exchange *x, uint64_t id,
                        const json_t *body, struct error *err)
{
    const json_t *n = json_object_get(body, "priority");
    if (json_is_true(json_object_get(body, "top")))
        return engine_top(c->engine, id, http_uid(x), err);
    json_int_t v = json_integer_value(n);
    if (!json_is_integer(n) || v < INT32_MIN || v > INT32_MAX)
        return error_set(err, ERR_INVAL,
                         "expected {\"priority\":N} or {\"top\":true}");
    return engine_prioritise(c->engine, id, http_uid(x), (int32_t)v, err);
}

void serve_priority(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    json_t *body =
        ctld_admit(c, x) && ctld_param_one(c, x, &id) ? ctld_body(x) : NULL;
    if (!body)
        return;
    int rc = set_priority(c, x, id, body, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, id);
}

/* ---- update ----------------------------------------------------------------
 */
static const char expected[] =
    "expected {\"time_limit_s\":N or null, \"partition\":\"..\", "
    "\"account\":\"..\", \"priority\":N, \"max_parallel\":N or null}, at least "
    "one of them";

static bool take_text(const json_t *v, const char **ret)
{
    *ret = json_string_value(v);
    return *ret && **ret;
}

static bool take_whole(const json_t *v, int32_t *ret)
{
    json_int_t n = json_integer_value(v);

    *ret = (int32_t)n;
    return json_is_integer(v) && n >= INT32_MIN && n <= INT32_MAX;
}

/* False: no such key, or a value of another type. */
static bool take_key(struct engine_update *u, const char *key, const json_t *v)
{
    if (strcmp(key, "time_limit_s") == 0) {
        u->has_limit = true;
        u->limit_s = json_is_null(v) ? (double)INFINITY : json_number_value(v);
        return json_is_null(v) || json_is_number(v);
    }
    if (strcmp(key, "partition") == 0)
        return take_text(v, &u->partition);
    if (strcmp(key, "account") == 0)
        return take_text(v, &u->account);
    if (strcmp(key, "priority") == 0) {
        u->has_priority = true;
        return take_whole(v, &u->priority);
    }
    u->has_parallel = strcmp(key, "max_parallel") == 0;
    return u->has_parallel &&
           (json_is_null(v) ||
            (take_whole(v, &u->max_parallel) && u->max_parallel > 0));
}

static int update_of(json_t *body, struct engine_update *ret, struct error *err)
{
    const char *key;
    json_t *v;

    *ret = (struct engine_update){.limit_s = NAN};
    if (!json_is_object(body) || json_object_size(body) == 0)
        return error_set(err, ERR_INVAL, "%s", expected);
    json_object_foreach(body, key, v)
    {
        if (!take_key(ret, key, v))
            return error_set(err, ERR_INVAL, "%.40s: %s", key, expected);
    }
    return 0;
}

void serve_update(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    struct engine_update u;
    struct target t;
    json_t *body =
        ctld_admit(c, x) && ctld_param_target(c, x, &t) ? ctld_body(x) : NULL;

    if (!body)
        return;
    int rc = update_of(body, &u, &err);
    if (rc == 0)
        rc = t.is_sweep
                 ? engine_update_sweep(c->engine, t.id, http_uid(x), &u, &err)
                 : engine_update(c->engine, t.id, http_uid(x), &u, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, t.id);
}
