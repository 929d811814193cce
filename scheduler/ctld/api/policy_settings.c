/* policy_settings.c - show, change and explain what decides which job starts
 * next.
 *
 * A key that an administrator sets stays set when mgpu.yaml is read again and
 * when the daemon restarts, until it is reset or its time is over. Each change
 * is a line of admin.log with the value before. These lines are all that the
 * daemon keeps: read from the first, they say which keys are set now.
 */
#include "scheduler/ctld/api/policy_settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/admin_actions.h"
#include "scheduler/ctld/api/config_apply.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/reload_config.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/free_slots.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/ctld/request/size_choice.h"

enum { PLAN_ROWS_MAX = 1000 };
static const double FOR_MAX_S = 366 * 86400.0;

struct setting {
    char key[64], value[64];
    char at[WIRE_TIME_CAP];
    int64_t uid;    /* of the administrator */
    double until_s; /* seconds since 1970; INFINITY: until it is reset */
};

struct settings {
    struct setting v[POLICY_SETTINGS_MAX];
    size_t n;
};

struct policy_settings {
    struct settings now;
    struct loop_source *timer; /* the next of them expires */
};

/* ---- what is set -----------------------------------------------------------
 */
static struct setting *find_set(struct settings *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].key, key) == 0)
            return &p->v[i];
    return NULL;
}

static void unset(struct settings *p, const char *key)
{
    struct setting *s = find_set(p, key);
    if (s)
        *s = p->v[--p->n];
}

/* err  ERR_LIMIT */
static int put(struct settings *p, const struct setting *s, struct error *err)
{
    struct setting *old = find_set(p, s->key);
    if (!old && p->n == POLICY_SETTINGS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d keys are set",
                         (int)POLICY_SETTINGS_MAX);
    *(old ? old : &p->v[p->n++]) = *s;
    return 0;
}

static size_t sets_of(const struct settings *p,
                      struct spec_set ret[POLICY_SETTINGS_MAX])
{
    for (size_t i = 0; i < p->n; i++)
        ret[i] = (struct spec_set){
            .key = p->v[i].key, .value = p->v[i].value, .option = "policy set"};
    return p->n;
}

/* One key of a request, or of a line of admin.log. */
static int make_set(const char *key, const char *value, int64_t uid,
                    const char *at, double until_s, struct setting *ret,
                    struct error *err)
{
    if (!value || strlen(key) >= sizeof(ret->key) ||
        strlen(value) >= sizeof(ret->value))
        return error_set(err, ERR_INVAL,
                         "set: expected {\"KEY\":\"VALUE\"}, each of less than "
                         "%zu bytes",
                         sizeof(ret->key));
    *ret = (struct setting){.uid = uid, .until_s = until_s};
    (void)snprintf(ret->key, sizeof(ret->key), "%s", key);
    (void)snprintf(ret->value, sizeof(ret->value), "%s", value);
    (void)snprintf(ret->at, sizeof(ret->at), "%s", at);
    return 0;
}

/* ---- lines of admin.log ----------------------------------------------------
 */
void policy_settings_repeat(struct ctld *c, const char *at, int64_t uid,
                            const json_t *detail)
{
    const char *key;
    json_t *v;
    json_object_foreach(json_object_get(detail, "unset"), key, v)
    {
        unset(&c->policy_settings->now, key);
    }
    json_object_foreach(json_object_get(detail, "set"), key, v)
    {
        const json_t *until = json_object_get(v, "until_s");
        struct error err = ERROR_INIT;
        struct setting s;
        if (make_set(key, json_string_value(json_object_get(v, "value")), uid,
                     at,
                     json_is_number(until) ? json_number_value(until)
                                           : (double)INFINITY,
                     &s, &err) < 0 ||
            put(&c->policy_settings->now, &s, &err) < 0)
            log_warn("admin", "a line of admin.log is passed over why=\"%s\"",
                     err.msg);
    }
}

/* The detail of the line: keys that are new in `want`, and keys that are not in
 * it any more. `then` is the configuration that results. The old value of a key
 * that goes is the set one: at a start the configuration does not have it. */
static json_t *difference(struct ctld *c, struct settings *want,
                          const struct conf *then)
{
    json_t *set = json_object(), *gone = json_object();
    for (size_t i = 0; i < want->n; i++) {
        const struct setting *s = &want->v[i];
        const struct setting *old = find_set(&c->policy_settings->now, s->key);
        if (old && strcmp(old->value, s->value) == 0 &&
            strcmp(old->at, s->at) == 0)
            continue;
        json_t *o = json_pack("{s:o, s:o}", "old",
                              reload_config_value(c->parts.source, s->key),
                              "value", ctld_text(s->value));
        if (isfinite(s->until_s))
            (void)json_object_set_new(o, "until_s", json_real(s->until_s));
        (void)json_object_set_new(set, s->key, o);
    }
    for (size_t i = 0; i < c->policy_settings->now.n; i++) {
        const struct setting *old = &c->policy_settings->now.v[i];
        if (!find_set(want, old->key))
            (void)json_object_set_new(
                gone, old->key,
                json_pack("{s:o, s:o}", "old", ctld_text(old->value), "value",
                          reload_config_value(then, old->key)));
    }
    return json_pack("{s:o, s:o}", "set", set, "unset", gone);
}

/* ---- in force --------------------------------------------------------------
 */
static void arm(struct ctld *c)
{
    double next_s = INFINITY;
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    for (size_t i = 0; i < c->policy_settings->now.n; i++)
        next_s = fmin(next_s, c->policy_settings->now.v[i].until_s - now_s);
    if (isfinite(next_s))
        loop_timer_set(c->policy_settings->timer,
                       fmin(fmax(next_s, 0.01), 3600));
}

/* Sets all of `want` or nothing: it must be valid with the rest of the
 * configuration, and the line must be durable. */
static int take(struct ctld *c, struct settings *want, int64_t uid,
                const char *why, struct error *err)
{
    struct spec_set sets[POLICY_SETTINGS_MAX];
    struct ctld_fresh fresh;
    double now_s = c->parts.clock->wall_s(c->parts.clock);

    if (!c->parts.reload)
        return error_set(err, ERR_CONFIG, "there is no configuration");
    if (c->parts.reload(c->parts.reload_arg, false, sets, sets_of(want, sets),
                        &fresh, err) < 0)
        return -1;
    json_t *detail = difference(c, want, fresh.source);
    if (detail && why)
        (void)json_object_set_new(detail, "why", ctld_text(why));
    if (audit_log_add(c->audit_log, now_s, uid, "policy", detail, err) < 0)
        return -1;
    c->policy_settings->now = *want;
    config_apply_fresh(c, &fresh);
    log_notice("admin", "policy uid=%lld changed=\"%s\"", (long long)uid,
               fresh.changed);
    arm(c);
    return 0;
}

/* Drops keys whose time is over, in the name of the daemon's own user. */
static int expire(struct ctld *c, struct error *err)
{
    struct settings want = {.n = 0};
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    for (size_t i = 0; i < c->policy_settings->now.n; i++)
        if (c->policy_settings->now.v[i].until_s > now_s)
            want.v[want.n++] = c->policy_settings->now.v[i];
    if (want.n == c->policy_settings->now.n)
        return 0;
    return take(c, &want, c->parts.conf->uid, "its time is over", err);
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    if (c->stopping)
        return;
    if (expire(c, &err) < 0) {
        log_err("admin",
                "cannot end a policy setting whose time is over why=\"%s\"",
                err.msg);
        loop_timer_set(c->policy_settings->timer, 60);
        return;
    }
    arm(c);
}

/* The keys were valid when they were set; the file may have changed since. */
int policy_settings_start(struct ctld *c, struct error *err)
{
    struct spec_set sets[POLICY_SETTINGS_MAX];
    struct ctld_fresh fresh;
    struct settings none = {.n = 0};
    struct error why = ERROR_INIT;

    if (c->policy_settings->now.n == 0 || !c->parts.reload)
        return 0;
    if (expire(c, &why) < 0) /* the others may be what is wrong */
        log_err("admin",
                "cannot end a policy setting whose time is over why=\"%s\"",
                why.msg);
    if (c->policy_settings->now.n == 0)
        return 0;
    if (c->parts.reload(c->parts.reload_arg, false, sets,
                        sets_of(&c->policy_settings->now, sets), &fresh,
                        &why) == 0) {
        config_apply_fresh(c, &fresh);
        arm(c);
        return 0;
    }
    log_err("admin",
            "the configuration file refuses the policy settings, they are "
            "dropped why=\"%s\"",
            why.msg);
    return take(c, &none, c->parts.conf->uid, why.msg, err);
}

int policy_settings_init(struct ctld *c, struct error *err)
{
    struct policy_settings *p = c->policy_settings = calloc(1, sizeof(*p));
    if (!p)
        return error_set(err, ERR_NOMEM, "policy");
    if (loop_timer_create(c->loop, on_timer, c, &p->timer, err) < 0)
        return -1;
    loop_source_name(p->timer, "policy timer");
    return 0;
}

void policy_settings_clear(struct ctld *c)
{
    if (!c->policy_settings)
        return;
    loop_source_destroy(c->policy_settings->timer);
    free(c->policy_settings);
    c->policy_settings = NULL;
}

size_t policy_settings_of_conf(const struct ctld *c,
                               struct spec_set ret[POLICY_SETTINGS_MAX])
{
    return sets_of(&c->policy_settings->now, ret);
}

size_t policy_settings_count(const struct ctld *c)
{
    return c->policy_settings->now.n;
}

/* ---- GET /v1/policy --------------------------------------------------------
 */
struct showing {
    const struct ctld *c;
    json_t *keys;
};

static void show_key(void *arg, const struct conf_value *v)
{
    struct showing *s = arg;
    struct settings *p = (struct settings *)&s->c->policy_settings->now;
    if (v->key != CONF_POLICY && v->key != CONF_POLICY_AT_START)
        return;
    const struct setting *set = find_set(p, v->path);
    const char *origin = set                        ? "set"
                         : v->line == CONF_BUILT_IN ? "default"
                                                    : "file";
    (void)json_array_append_new(
        s->keys,
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, "
                  "s:o}",
                  "key", v->path, "value", v->value, "default", v->def, "type",
                  v->type, "range", v->range, "doc", v->doc, "origin", origin,
                  "is_live", v->key == CONF_POLICY, "line",
                  v->line > 0 ? json_integer(v->line) : json_null(), "uid",
                  set ? json_integer(set->uid) : json_null(), "at",
                  set ? ctld_text(set->at) : json_null(), "until",
                  set ? ctld_time(set->until_s) : json_null()));
}

static json_t *policy_json(const struct ctld *c, struct error *err)
{
    struct showing s = {.c = c, .keys = json_array()};
    const struct policy *p = engine_policy(c->engine);
    const struct conf *source = c->parts.source;
    if (source && conf_each_value(source, show_key, &s, err) < 0) {
        json_decref(s.keys);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "schema", "mgpu.policy/1",
                     "policy", p->name, "summary", p->summary, "file",
                     ctld_text(source ? source->from.file : NULL), "keys",
                     s.keys);
}

static void reply_policy(const struct ctld *c, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    json_t *o = policy_json(c, &err);
    if (o)
        ctld_reply(x, 200, o);
    else
        http_reply_err(x, &err);
}

void serve_policy(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    if (ctld_admit(c, x))
        reply_policy(c, x);
}

/* ---- POST /v1/admin/policy -------------------------------------------------
 */
static int check_key(const char *key, struct error *err)
{
    enum conf_key is = conf_key_of(key);
    if (is == CONF_OTHER)
        return error_set(err, ERR_INVAL,
                         "'%s' is no key of the policy: change mgpu.yaml", key);
    if (is == CONF_POLICY_AT_START)
        return error_set(err, ERR_INVAL,
                         "'%s' is read when the daemon starts: change "
                         "mgpu.yaml",
                         key);
    return 0; /* the parser has a better error for unknown keys */
}

static int add_sets(struct ctld *c, const json_t *body, int64_t uid,
                    struct settings *want, struct error *err)
{
    const json_t *for_s = json_object_get(body, "for_s");
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    double until_s = INFINITY;
    char at[WIRE_TIME_CAP];
    const char *key;
    json_t *v;

    if (json_is_number(for_s))
        until_s = now_s + json_number_value(for_s);
    if (for_s && !json_is_null(for_s) &&
        (!json_is_number(for_s) || !(json_number_value(for_s) > 0) ||
         json_number_value(for_s) > FOR_MAX_S))
        return error_set(err, ERR_INVAL, "for_s: expected 1..%.0f", FOR_MAX_S);
    wire_time(now_s, at);
    json_object_foreach(json_object_get(body, "set"), key, v)
    {
        struct setting s;
        if (check_key(key, err) < 0 ||
            make_set(key, json_string_value(v), uid, at, until_s, &s, err) <
                0 ||
            put(want, &s, err) < 0)
            return -1;
    }
    return 0;
}

static int drop_sets(const json_t *list, struct settings *want,
                     struct error *err)
{
    size_t i;
    json_t *v;
    if (json_is_true(list))
        want->n = 0;
    json_array_foreach(list, i, v)
    {
        const char *key = json_string_value(v);
        if (!key || !find_set(want, key))
            return error_set(err, ERR_INVAL, "'%s' is not set",
                             key ? key : "?");
        unset(want, key);
    }
    return 0;
}

/* Whether the request changes nothing. A key that is set for a time starts its
 * time anew, and so is a change. */
static bool is_same(struct settings *now, const struct settings *want)
{
    for (size_t i = 0; i < want->n; i++) {
        const struct setting *s = &want->v[i];
        const struct setting *old = find_set(now, s->key);
        if (!old || strcmp(old->value, s->value) != 0 ||
            isfinite(old->until_s) || isfinite(s->until_s))
            return false;
    }
    return now->n == want->n;
}

static bool is_form(const json_t *body)
{
    const json_t *set = json_object_get(body, "set");
    const json_t *list = json_object_get(body, "unset");
    return (!set || json_is_object(set)) &&
           (!list || json_is_array(list) || json_is_true(list)) &&
           (set || list);
}

void serve_policy_set(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    json_t *body = ctld_admit_admin(c, x) ? ctld_body(x) : NULL;
    if (!body)
        return;
    struct settings want = c->policy_settings->now;
    int64_t uid = http_uid(x);
    int rc = is_form(body)
                 ? drop_sets(json_object_get(body, "unset"), &want, &err)
                 : error_set(&err, ERR_INVAL,
                             "expected {\"set\":{\"KEY\":\"VALUE\"}} or "
                             "{\"unset\":[\"KEY\"]}");
    if (rc == 0)
        rc = add_sets(c, body, uid, &want, &err);
    json_decref(body);
    if (rc == 0 && !is_same(&c->policy_settings->now, &want))
        rc = take(c, &want, uid, NULL, &err);
    if (rc == 0)
        reply_policy(c, x);
    else if (err.code == ERR_CONFIG) /* with what the request sets */
        http_reply_err_as(x, 400, &err);
    else
        http_reply_err(x, &err);
}

/* ---- GET /v1/admin/plan ----------------------------------------------------
 */
struct planning {
    struct ctld *c;
    uint64_t job; /* 0: all */
    int64_t n_more;
    json_t *rows;
};

static json_t *use_json(const struct ctld *c, const struct job *job)
{
    struct engine_use u;
    const struct engine_limits *l = &c->parts.conf->limits;
    if (engine_use(c->engine, job, &u, NULL) < 0)
        return json_null();
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:o, s:i, s:i, s:i, s:i}", "user_gpus",
        u.user_gpus, "user_gpus_max", l->gpus_per_user, "user_running",
        u.user_running, "user_running_max", l->running_per_user, "account",
        ctld_text(u.account), "account_gpus", u.account_gpus,
        "account_gpus_max", l->gpus_per_account, "account_running",
        u.account_running, "account_running_max", l->running_per_account);
}

static const char *act_of(const struct engine_decision *w)
{
    return w->job->state == JOB_HELD          ? "held"
           : w->job->state == JOB_DISPATCHING ? "submitted"
           : job_state_is_live(w->job->state) ? "runs"
           : w->nodes > 0                     ? "start"
           : w->is_shown                      ? "wait"
                                              : "out";
}

static void plan_row(void *arg, const struct engine_decision *w)
{
    struct planning *p = arg;
    struct ctld *c = p->c;
    const struct job *job = w->job;
    const struct clock *clk = c->parts.clock;
    bool is_live = job_state_is_live(job->state);
    char display[JOB_DISPLAY_CAP];

    if ((p->job && p->job != job->id) || !engine_is_durable(c->engine, job))
        return;
    if (json_array_size(p->rows) >= PLAN_ROWS_MAX) {
        p->n_more++;
        return;
    }
    double wall_s = clk->wall_s(clk);
    double at_s = wall_s + (w->start_s - clk->now_s(clk));
    json_t *row = json_pack(
        "{s:I, s:s, s:o, s:o, s:s, s:s, s:i, s:i, s:o, s:i, s:i, s:i, s:i, "
        "s:o, s:o, s:o, s:o}",
        "id", (json_int_t)job->id, "display_id", job_display_id(job, display),
        "user", ctld_text(job->user), "name", ctld_text(job->name), "state",
        job_state_name(job->state), "act", act_of(w), "priority", job->priority,
        "position", engine_queue_position(c->engine, job->id), "waited_s",
        ctld_num((is_live ? job->start_s : wall_s) - job->submit_s), "gpus_min",
        job->gpus_min, "gpus_max", job->gpus_max, "gpus",
        is_live ? job->gpus : w->gpus, "nodes", is_live ? job->nodes : w->nodes,
        "place", ctld_text(is_live ? job->place : NULL), "reason",
        ctld_text(w->reason), "start_estimate",
        w->nodes > 0 ? json_null() : ctld_time(at_s), "ends",
        ctld_time(is_live ? job->start_s + job->attempt_limit_s : (double)NAN));
    if (p->job)
        (void)json_object_set_new(row, "use", use_json(c, job));
    (void)json_array_append_new(p->rows, row);
}

void serve_plan(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    struct planning p = {.c = c};
    int64_t job = 0, total = 0, n_free = 0;

    if (!ctld_admit_admin(c, x) ||
        !ctld_query_int(x, "job", 1, INT64_MAX, 0, &job))
        return;
    p.job = (uint64_t)job;
    if (job > 0 && !ctld_job_of(c, x, p.job))
        return;
    p.rows = json_array();
    if (engine_explain(c->engine, plan_row, &p, &err) < 0) {
        json_decref(p.rows);
        http_reply_err(x, &err);
        return;
    }
    struct size_table sizes = {.rows = NULL};
    if (size_table_read(c, &sizes, &err) < 0) {
        json_decref(p.rows);
        http_reply_err(x, &err);
        return;
    }
    json_t *size_rows = size_table_json(&sizes, p.job);
    const struct policy *policy = engine_policy(c->engine);
    free_slots_count(c, &total, &n_free);
    ctld_reply(x, 200,
               json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:o, s:o, "
                         "s:o}",
                         "schema", "mgpu.plan/1", "policy", policy->name,
                         "summary", policy->summary, "generated",
                         ctld_time(c->parts.clock->wall_s(c->parts.clock)),
                         "paused", admin_actions_pause_json(c), "gpus_total",
                         (json_int_t)total, "gpus_free", (json_int_t)n_free,
                         "n_more", (json_int_t)p.n_more, "jobs", p.rows,
                         "gpu_price", ctld_num(sizes.price), "sizes",
                         size_rows));
    size_table_clear(&sizes);
}
