/* admin_actions.c - pause and resume the daemon, and show admin.log.
 *
 * Each such action is a line of admin.log. An action on a job is an event of
 * the job instead; see job_actions.c.
 */
#include "scheduler/ctld/api/admin_actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/drain_nodes.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/api/policy_settings.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"

enum { LAST_MAX = 10000 };

struct admin_actions {
    bool is_paused;
    int64_t uid; /* of the administrator who did it */
    char since[WIRE_TIME_CAP], why[WIRE_PAUSE_WHY_CAP];
};

/* ---- the daemon's own state -----------------------------------------------
 */

static void set_paused(struct ctld *c, bool is_paused, int64_t uid,
                       const char *at, const char *why)
{
    struct admin_actions *p = c->admin_actions;
    p->uid = uid;
    if (!is_paused || !p->is_paused) /* a new reason keeps the time */
        (void)snprintf(p->since, sizeof(p->since), "%s", at);
    p->is_paused = is_paused;
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
    engine_drain(c->engine, is_paused ? why : NULL);
}

/* Repeats a line of admin.log. */
static void on_record(void *arg, const json_t *record)
{
    struct ctld *c = arg;
    const char *what = json_string_value(json_object_get(record, "do"));
    const char *at = json_string_value(json_object_get(record, "at"));
    const json_t *detail = json_object_get(record, "detail");
    const char *why = json_string_value(json_object_get(detail, "why"));
    int64_t uid = json_integer_value(json_object_get(record, "uid"));
    bool is_pause = what && strcmp(what, "pause") == 0;
    bool is_drain = what && strcmp(what, "drain") == 0;
    const char *node = json_string_value(json_object_get(detail, "node"));
    struct error err = ERROR_INIT;
    if (node && what && (is_drain || strcmp(what, "resume") == 0)) {
        if (drain_nodes_repeat(c, node, is_drain, uid, at ? at : "",
                               why ? why : "", &err) < 0)
            log_err("admin", "a drained node is not known node=\"%s\"", node);
    } else if (is_pause || (what && strcmp(what, "resume") == 0))
        set_paused(c, is_pause, uid, at ? at : "", why ? why : "");
    else if (what && strcmp(what, "policy") == 0)
        policy_settings_repeat(c, at ? at : "", uid, detail);
}

int admin_actions_init(struct ctld *c, struct error *err)
{
    c->admin_actions = calloc(1, sizeof(*c->admin_actions));
    if (!c->admin_actions)
        return error_set(err, ERR_NOMEM, "pause");
    return audit_log_open(c->parts.conf->state_dir, on_record, c, &c->audit_log,
                          err);
}

void admin_actions_clear(struct ctld *c)
{
    audit_log_close(c->audit_log);
    c->audit_log = NULL;
    free(c->admin_actions);
    c->admin_actions = NULL;
}

bool admin_actions_is_paused(const struct ctld *c)
{
    return c->admin_actions->is_paused;
}

json_t *admin_actions_pause_json(const struct ctld *c)
{
    const struct admin_actions *p = c->admin_actions;
    return p->is_paused
               ? json_pack("{s:I, s:o, s:o}", "uid", (json_int_t)p->uid,
                           "since", ctld_text(p->since), "why",
                           ctld_text(p->why))
               : json_null();
}

/* ---- pause, resume ---------------------------------------------------------
 */

static void reply_pause(struct ctld *c, struct http_exchange *x)
{
    ctld_reply(x, 200,
               json_pack("{s:s, s:o}", "schema", "mgpu.pause/1", "paused",
                         admin_actions_pause_json(c)));
}

/* Writes the line first, then acts. What is so already is not repeated, unless
 * the request gives another reason. */
static int pause_or_resume(struct ctld *c, struct http_exchange *x,
                           bool is_pause, const char *why, struct error *err)
{
    const char *action = is_pause ? "pause" : "resume";
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    char at[WIRE_TIME_CAP];
    bool is_so = is_pause == c->admin_actions->is_paused;
    if (is_so &&
        (!is_pause || !*why || strcmp(why, c->admin_actions->why) == 0))
        return 0;
    json_t *detail = json_pack("{s:o}", "why", ctld_text(why));
    if (is_so && detail)
        (void)json_object_set_new(detail, "old",
                                  ctld_text(c->admin_actions->why));
    if (audit_log_add(c->audit_log, now_s, http_uid(x), action, detail, err) <
        0)
        return -1;
    wire_time(now_s, at);
    set_paused(c, is_pause, http_uid(x), at, why);
    log_notice("admin", "%s uid=%lld why=\"%s\"", action,
               (long long)http_uid(x), why);
    ctld_step_want(c);
    return 0;
}

/* Acts on the node that the request names, else on the daemon. */
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
        drain_nodes_serve(c, x, body, is_drain, text);
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
    json_t *list = audit_log_last(c->audit_log, n, &err);
    if (!list)
        http_reply_err(x, &err);
    else
        ctld_reply(x, 200,
                   json_pack("{s:s, s:o}", "schema", "mgpu.admin_log/1",
                             "actions", list));
}
