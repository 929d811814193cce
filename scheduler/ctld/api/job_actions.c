/* job_actions.c - cancel, hold, release, requeue, resize, update and prioritise
 * jobs; open and finish runs.
 *
 * A submit is in job_submit.c. The engine decides who may do what.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "jobs/base/signals.h"
#include "jobs/http/digest_ssl.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/run_values.h"
#include "scheduler/ctld/job_list/job_watch.h"
#include "scheduler/ctld/maintenance/disk_space.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/user_names.h"
#include "scheduler/engine/resize.h"
#include "scheduler/engine/run.h"
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

/* ---- runs (engine/run.h) ---------------------------------------------------
 * What a run is about - its name, its project and its settings - becomes the
 * specification of the job, so every view and export shows it where it shows
 * those of other jobs.
 */
static const char run_expected[] =
    "expected {\"name\":\"..\", \"project\":\"..\", \"config\":{..}, "
    "\"holder\":\"HOST PID\"}, all of them optional but name";

/* False: it is there, and no text. */
static bool take_word(const json_t *body, const char *key, const char *absent,
                      const char **ret)
{
    const json_t *v = json_object_get(body, key);

    *ret = json_is_string(v) ? json_string_value(v) : absent;
    return !v || json_is_null(v) || json_is_string(v);
}

static int check_run_keys(json_t *body, struct error *err)
{
    static const char *const known[] = {"name", "project", "config", "holder"};
    const char *key;
    json_t *v;

    json_object_foreach(body, key, v)
    {
        size_t i = 0;
        while (i < sizeof(known) / sizeof(known[0]) &&
               strcmp(key, known[i]) != 0)
            i++;
        if (i == sizeof(known) / sizeof(known[0]))
            return error_set(err, ERR_INVAL, "%.40s: %s", key, run_expected);
    }
    return 0;
}

/* SQLite reads JSON of up to 1,000 levels, and other readers of it less. */
enum { CONFIG_LEVELS = 64 };

/* Whether there are more than `most` objects and arrays in each other. */
static bool is_deeper(json_t *v, int most)
{
    const char *key;
    json_t *in;
    size_t i;

    if (!json_is_object(v) && !json_is_array(v))
        return false;
    if (most == 0)
        return true;
    json_object_foreach(v, key, in) if (is_deeper(in, most - 1)) return true;
    json_array_foreach(v, i, in) if (is_deeper(in, most - 1)) return true;
    return false;
}

/* own  *ret_spec: free() */
static int read_run(const struct ctld *c, json_t *body, struct engine_run *ret,
                    char **ret_spec, struct error *err)
{
    json_t *config = json_object_get(body, "config");
    const char *project;

    if (check_run_keys(body, err) < 0)
        return -1;
    if (!take_word(body, "name", NULL, &ret->name) || !ret->name ||
        !take_word(body, "project", NULL, &project) ||
        !take_word(body, "holder", "unknown", &ret->holder) ||
        !ret->holder[0] ||
        (config && !json_is_null(config) && !json_is_object(config)))
        return error_set(err, ERR_INVAL, "%s", run_expected);
    if (is_deeper(config, CONFIG_LEVELS))
        return error_set(err, ERR_INVAL,
                         "config: it has more than %d levels of objects and "
                         "lists",
                         CONFIG_LEVELS);
    json_t *spec =
        json_pack("{s:i, s:s, s:s, s:s*, s:O*}", "version", 1, "kind",
                  job_kind_run, "name", ret->name, "project", project, "config",
                  json_is_object(config) ? config : NULL);
    char *text = spec ? json_dumps(spec, JSON_COMPACT) : NULL;
    json_decref(spec);
    if (!text)
        return error_set(err, ERR_NOMEM, "run");
    int64_t most = c->parts.conf->max_spec_bytes;
    if (most > 0 && (int64_t)strlen(text) > most) {
        (void)error_set(err, ERR_LIMIT,
                        "config: the run has %zu bytes, limits.max_spec_bytes "
                        "is %lld",
                        strlen(text), (long long)most);
        free(text);
        return -1;
    }
    ret->spec = *ret_spec = text;
    return 0;
}

static int open_run(struct ctld *c, struct http_exchange *x, json_t *body,
                    const char *user, uint64_t *ret_id, bool *ret_again,
                    struct error *err)
{
    struct engine_run run = {.uid = http_uid(x), .user = user};
    struct error closed = ERROR_INIT;
    char drawn[RNG_TOKEN_CAP], hex[DIGEST_HEX_CAP], digest[JOB_DIGEST_CAP];
    char *spec = NULL;

    if (read_run(c, body, &run, &spec, err) < 0)
        return -1;
    const struct digest_part part = {spec, strlen(spec)};
    run.key = http_header(x, "Idempotency-Key");
    int rc = digest_parts(&part, 1, hex, err);
    if (rc == 0 && !run.key) {
        rc = rng_token(drawn, err);
        run.key = drawn;
    }
    if (rc == 0) {
        memcpy(digest, hex, sizeof(digest) - 1);
        digest[sizeof(digest) - 1] = '\0';
        run.digest = digest;
        if (disk_space_check(c, &closed) < 0)
            run.closed = &closed;
        rc = engine_run_open(c->engine, &run, ret_id, ret_again, err);
    }
    free(spec);
    return rc;
}

void serve_job_open_run(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    char user[NAME_USER_CAP];
    uint64_t id = 0;
    bool again = false;
    json_t *body = ctld_admit(c, x) && user_names_of_caller(c, x, user)
                       ? ctld_body(x)
                       : NULL;

    if (!body)
        return;
    int rc = open_run(c, x, body, user, &id, &again, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, again ? 200 : 201, id);
}

void serve_job_finish_run(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    json_t *body =
        ctld_admit(c, x) && ctld_param_one(c, x, &id) ? ctld_body(x) : NULL;

    if (!body)
        return;
    const json_t *code = json_object_get(body, "exit_code");
    const char *why = NULL;
    json_int_t n = json_integer_value(code);
    int rc = (code && !json_is_integer(code)) || n < INT32_MIN ||
                     n > INT32_MAX || !take_word(body, "why", "", &why)
                 ? error_set(&err, ERR_INVAL,
                             "expected {\"exit_code\":N, \"why\":\"..\"}")
                 : engine_run_finish(c->engine, id, http_uid(x), (int32_t)n,
                                     why, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, id);
}

void serve_job_put_values(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    int64_t offset = 0;

    if (!ctld_admit(c, x) || !ctld_param_one(c, x, &id) ||
        !ctld_query_int(x, "offset", 0, INT64_MAX / 2, 0, &offset))
        return;
    if (run_values_take(c, x, id, offset, job_watch_changed, &err) < 0)
        http_reply_err(x, &err);
}
