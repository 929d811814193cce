/* admin_actions.c - what administrators do: to jobs (requeue, priority), which
 * are events of the jobs, and to the daemon (pause, resume), which are lines
 * of admin.log. Who may what about jobs is the engine's to say. */
#include <stdio.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/audit_log.h"

enum { LAST_MAX = 10000 };

/* ---- the daemon's own state -----------------------------------------------
 */

static void set_paused(struct ctld *c, bool is_paused, int64_t uid,
                       const char *at, const char *why)
{
    struct ctld_pause *p = &c->pause;
    p->uid = uid;
    if (!is_paused || !p->is_on) /* not when it is but another reason */
        (void)snprintf(p->since, sizeof(p->since), "%s", at);
    p->is_on = is_paused;
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
    engine_drain(c->engine, is_paused ? why : NULL);
}

/* A deed of this life or an earlier one. */
static void on_deed(void *arg, const json_t *deed)
{
    struct ctld *c = arg;
    const char *what = json_string_value(json_object_get(deed, "do"));
    const char *at = json_string_value(json_object_get(deed, "at"));
    const json_t *detail = json_object_get(deed, "detail");
    const char *why = json_string_value(json_object_get(detail, "why"));
    int64_t uid = json_integer_value(json_object_get(deed, "uid"));
    bool is_pause = what && strcmp(what, "pause") == 0;
    bool is_drain = what && strcmp(what, "drain") == 0;
    const char *node = json_string_value(json_object_get(detail, "node"));
    struct error err = ERROR_INIT;
    if (node && what && (is_drain || strcmp(what, "resume") == 0)) {
        if (ctld_drain_deed(c, node, is_drain, uid, at ? at : "",
                            why ? why : "", &err) < 0)
            log_err("admin", "a drained node is not known node=\"%s\"", node);
    } else if (is_pause || (what && strcmp(what, "resume") == 0))
        set_paused(c, is_pause, uid, at ? at : "", why ? why : "");
    else if (what && strcmp(what, "policy") == 0)
        ctld_policy_deed(c, at ? at : "", uid, detail);
}

int ctld_admin_init(struct ctld *c, struct error *err)
{
    return audit_open(c->parts.conf->state_dir, on_deed, c, &c->audit, err);
}

json_t *ctld_pause_json(const struct ctld *c)
{
    const struct ctld_pause *p = &c->pause;
    return p->is_on ? json_pack("{s:I, s:o, s:o}", "uid", (json_int_t)p->uid,
                                "since", ctld_text(p->since), "why",
                                ctld_text(p->why))
                    : json_null();
}

/* ---- who may ---------------------------------------------------------------
 */

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

/* ---- pause, resume ---------------------------------------------------------
 */

static void reply_pause(struct ctld *c, struct http_exchange *x)
{
    ctld_reply(x, 200,
               json_pack("{s:s, s:o}", "schema", "mgpu.pause/1", "paused",
                         ctld_pause_json(c)));
}

/* Durable first; then it is done. What is so already is not done again, unless
 * another reason is given. */
static int pause_or_resume(struct ctld *c, struct http_exchange *x,
                           bool is_pause, const char *why, struct error *err)
{
    const char *deed = is_pause ? "pause" : "resume";
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    char at[WIRE_TIME_CAP];
    bool is_so = is_pause == c->pause.is_on;
    if (is_so && (!is_pause || !*why || strcmp(why, c->pause.why) == 0))
        return 0;
    json_t *detail = json_pack("{s:o}", "why", ctld_text(why));
    if (is_so && detail)
        (void)json_object_set_new(detail, "old", ctld_text(c->pause.why));
    if (audit_add(c->audit, now_s, http_uid(x), deed, detail, err) < 0)
        return -1;
    wire_time(now_s, at);
    set_paused(c, is_pause, http_uid(x), at, why);
    log_notice("admin", "%s uid=%lld why=\"%s\"", deed, (long long)http_uid(x),
               why);
    ctld_want_step(c);
    return 0;
}

/* Of one node where the request names one, else of the daemon. */
static void serve_pausing(struct ctld *c, struct http_exchange *x,
                          bool is_pause, bool is_drain)
{
    struct error err = ERROR_INIT;
    json_t *body = ctld_admit_admin(c, x) ? ctld_body(x) : NULL;
    if (!body)
        return;
    const json_t *why = json_object_get(body, "why");
    const char *text = json_is_string(why) ? json_string_value(why) : "";
    bool is_node = is_drain || (!is_pause && json_object_get(body, "node"));
    int rc = (why && !json_is_string(why) && !json_is_null(why)) ||
                     strlen(text) >= WIRE_PAUSE_WHY_CAP
                 ? error_set(&err, ERR_INVAL,
                             "why: expected a text of less than %d bytes",
                             (int)WIRE_PAUSE_WHY_CAP)
             : is_node ? 0
                       : pause_or_resume(c, x, is_pause, text, &err);
    if (rc < 0)
        http_reply_err(x, &err);
    else if (is_node)
        ctld_serve_drain(c, x, body, is_drain, text);
    else
        reply_pause(c, x);
    json_decref(body);
}

void serve_drain(void *arg, struct http_exchange *x)
{
    serve_pausing(arg, x, false, true);
}

void serve_pause(void *arg, struct http_exchange *x)
{
    serve_pausing(arg, x, true, false);
}

void serve_resume(void *arg, struct http_exchange *x)
{
    serve_pausing(arg, x, false, false);
}

/* ---- its log ---------------------------------------------------------------
 */

void serve_admin_log(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    int64_t n = 0;
    if (!ctld_admit_admin(c, x) ||
        !ctld_query_int(x, "last", 1, LAST_MAX, LAST_MAX, &n))
        return;
    json_t *list = audit_last(c->audit, n, &err);
    if (!list)
        http_reply_err(x, &err);
    else
        ctld_reply(x, 200,
                   json_pack("{s:s, s:o}", "schema", "mgpu.admin_log/1",
                             "deeds", list));
}

/* ---- jobs ------------------------------------------------------------------
 */

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
