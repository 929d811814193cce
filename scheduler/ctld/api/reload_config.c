/* reload_config.c - read mgpu.yaml again, by request or by signal. The result
 * is a line of admin.log: the administrator, and each key with its old and its
 * new value. */
#include "scheduler/ctld/api/reload_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/config_apply.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/policy_settings.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/audit_log.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"

struct reload_config {
    char at[WIRE_TIME_CAP]; /* of the last reload; "": there was none */
    bool is_ok;
    char why[256], changed[1024], waiting[1024];
};

/* ---- what changes ----------------------------------------------------------
 */

struct lookup {
    const char *key;
    json_t *value;
};

static void look(void *arg, const struct conf_value *v)
{
    struct lookup *l = arg;
    if (!l->value && strcmp(v->path, l->key) == 0)
        l->value = ctld_text(v->value);
}

json_t *reload_config_value(const struct conf *c, const char *key)
{
    struct lookup l = {.key = key};
    if (c && conf_each_value(c, look, &l, NULL) < 0) {
        json_decref(l.value);
        l.value = NULL;
    }
    return l.value ? l.value : json_null();
}

struct changes {
    const struct conf *from, *to;
    json_t *set;
};

static void add_change(void *arg, const char *path, bool is_live)
{
    const struct changes *s = arg;
    if (is_live)
        (void)json_object_set_new(
            s->set, path,
            json_pack("{s:o, s:o}", "old", reload_config_value(s->from, path),
                      "value", reload_config_value(s->to, path)));
}

/* {KEY: {"old": .., "value": ..}} of keys that take effect at once; {} if
 * either is NULL. */
static json_t *changes_json(const struct conf *from, const struct conf *to)
{
    struct changes s = {from, to, json_object()};
    if (from && to)
        conf_changes(from, to, add_change, &s);
    return s.set;
}

/* ---- reading ---------------------------------------------------------------
 */
json_t *reload_config_json(const struct ctld *c)
{
    const struct reload_config *r = c->reload_config;
    if (!r->at[0])
        return json_null();
    return json_pack("{s:s, s:b, s:o, s:s, s:s}", "at", r->at, "is_ok",
                     r->is_ok, "why", ctld_text(r->why), "changed", r->changed,
                     "after_restart", r->waiting);
}

static int reload(struct ctld *c, int64_t uid, json_t **ret_detail,
                  struct error *err)
{
    struct reload_config *r = c->reload_config;
    struct ctld_fresh fresh;
    struct spec_set sets[POLICY_SETTINGS_MAX];
    int rc =
        c->parts.reload
            ? c->parts.reload(c->parts.reload_arg, true, sets,
                              policy_settings_of_conf(c, sets), &fresh, err)
            : error_set(err, ERR_CONFIG, "there is no configuration");
    wire_time(c->parts.clock->wall_s(c->parts.clock), r->at);
    r->is_ok = rc == 0;
    if (rc < 0) {
        (void)snprintf(r->why, sizeof(r->why), "%s", err->msg);
        r->changed[0] = '\0';
        log_err("ctld",
                "reload failed, nothing was changed uid=%lld why=\"%s\"",
                (long long)uid, err->msg);
        return -1;
    }
    r->why[0] = '\0';
    json_t *set = changes_json(c->parts.source, fresh.source);
    config_apply_fresh(c, &fresh);
    *ret_detail = json_pack("{s:s, s:o, s:s}", "changed", fresh.changed, "set",
                            set, "after_restart", fresh.waiting);
    (void)snprintf(r->changed, sizeof(r->changed), "%s", fresh.changed);
    (void)snprintf(r->waiting, sizeof(r->waiting), "%s", fresh.waiting);
    log_notice("ctld", "reloaded uid=%lld changed=\"%s\" after_restart=\"%s\"",
               (long long)uid, fresh.changed, fresh.waiting);
    return 0;
}

/* The line is written after the reload: the administrator's file has the new
 * values already, and a full disk must not keep the daemon from using them. */
static void note_reload(struct ctld *c, int64_t uid, const char *by,
                        json_t *detail)
{
    struct error err = ERROR_INIT;
    if (!c->reload_config->is_ok)
        detail = json_pack("{s:o}", "failed", ctld_text(c->reload_config->why));
    if (detail && by)
        (void)json_object_set_new(detail, "by", json_string(by));
    if (audit_log_add(c->audit_log, c->parts.clock->wall_s(c->parts.clock), uid,
                      "reload", detail, &err) < 0)
        log_err("admin", "a reload is not in the log why=\"%s\"", err.msg);
}

int reload_config_by_signal(struct ctld *c, struct error *err)
{
    const struct reload_config was = *c->reload_config;
    const struct reload_config *now = c->reload_config;
    int64_t uid = c->parts.conf->uid;
    json_t *detail = NULL;
    int rc = reload(c, uid, &detail, err);
    /* A script that sends SIGHUP each second must not fill the disk. */
    bool is_same = was.at[0] && was.is_ok == now->is_ok && !now->changed[0] &&
                   strcmp(was.why, now->why) == 0 &&
                   strcmp(was.waiting, now->waiting) == 0;
    if (is_same)
        json_decref(detail);
    else
        note_reload(c, uid, "SIGHUP", detail);
    return rc;
}

void serve_reload(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    json_t *detail = NULL;
    if (!ctld_admit_admin(c, x))
        return;
    int rc = reload(c, http_uid(x), &detail, &err);
    note_reload(c, http_uid(x), NULL, detail);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        ctld_reply(x, 200,
                   json_pack("{s:s, s:o}", "schema", "mgpu.reload/1", "reload",
                             reload_config_json(c)));
}

bool reload_config_has_failed(const struct ctld *c)
{
    return c->reload_config->at[0] && !c->reload_config->is_ok;
}

int reload_config_init(struct ctld *c, struct error *err)
{
    c->reload_config = calloc(1, sizeof(*c->reload_config));
    return c->reload_config ? 0 : error_set(err, ERR_NOMEM, "reload");
}

void reload_config_clear(struct ctld *c)
{
    free(c->reload_config);
    c->reload_config = NULL;
}
