/* serve.c - the routes of wire.h, and what their handlers share.
 *
 * Every handler begins with ctld_admit() or ctld_admit_worker() (auth.c).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/private.h"
#include "scheduler/engine/lack.h"

#define ATTEMPT "/v1/attempts/:job/:attempt/"

const struct http_route ctld_routes[] = {
    {"POST", "/v1/jobs", serve_submit},
    {"POST", "/v1/dry-run", serve_dry_run},
    {"GET", "/v1/jobs", serve_queue},
    {"GET", "/v1/jobs/:id", serve_job},
    {"POST", "/v1/jobs/:id/cancel", serve_cancel},
    {"POST", "/v1/jobs/:id/hold", serve_hold},
    {"POST", "/v1/jobs/:id/release", serve_release},
    {"POST", "/v1/jobs/:id/requeue", serve_requeue},
    {"POST", "/v1/jobs/:id/priority", serve_priority},
    {"GET", "/v1/jobs/:id/events", serve_events},
    {"GET", "/v1/jobs/:id/iterations", serve_iterations},
    {"GET", "/v1/jobs/:id/epochs", serve_epochs},
    {"GET", "/v1/jobs/:id/values", serve_values},
    {"GET", "/v1/jobs/:id/profile", serve_profile},
    {"GET", "/v1/jobs/:id/scaling", serve_scaling},
    {"GET", "/v1/jobs/:id/logs", serve_logs},
    {"GET", "/v1/jobs/:id/why", serve_why},
    {"GET", "/v1/watch", serve_watch},
    {"GET", "/v1/nodes", serve_nodes},
    {"GET", "/v1/gpus", serve_gpus},
    {"GET", "/v1/status", serve_status},
    {"POST", "/v1/admin/pause", serve_pause},
    {"POST", "/v1/admin/drain", serve_drain},
    {"POST", "/v1/admin/resume", serve_resume},
    {"POST", "/v1/admin/reload", serve_reload},
    {"GET", "/v1/policy", serve_policy},
    {"POST", "/v1/admin/policy", serve_policy_set},
    {"GET", "/v1/admin/plan", serve_plan},
    {"POST", "/v1/admin/backup", serve_backup},
    {"POST", "/v1/admin/fsck", serve_fsck},
    {"POST", "/v1/admin/sql", serve_sql},
    {"GET", "/v1/admin/log", serve_admin_log},
    {"POST", ATTEMPT "key", serve_key},
    {"POST", ATTEMPT "claim", serve_claim},
    {"POST", ATTEMPT "rows", serve_rows},
    {"POST", ATTEMPT "heartbeat", serve_heartbeat},
    {"POST", ATTEMPT "report", serve_report},
    {"GET", "/metrics", serve_metrics},
    {"GET", "/livez", serve_livez},
    {"GET", "/readyz", serve_readyz},
    {NULL, NULL, NULL},
};

void ctld_reply(struct http_exchange *x, int status, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text) {
        http_reply_json(x, status, text, strlen(text));
        free(text);
        return;
    }
    struct error err;
    (void)error_set(&err, ERR_NOMEM, "reply");
    http_reply_err(x, &err);
}

json_t *ctld_body(struct http_exchange *x)
{
    size_t len = 0;
    const char *text = http_body(x, &len);
    json_error_t why = {.text = ""};
    lack_forget(); /* else what is taken may be another text */
    json_t *o = len > 0 ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &why)
                        : json_object();
    bool has_lacked = lack_was_there();
    if (json_is_object(o) && !has_lacked)
        return o;
    struct error err;
    if (has_lacked)
        (void)error_set(&err, ERR_NOMEM, "request");
    else if (o)
        (void)error_set(&err, ERR_INVAL, "the body is not a JSON object");
    else
        (void)error_set(&err, ERR_INVAL, "the body is not JSON: line %d: %s",
                        why.line, why.text);
    json_decref(o);
    http_reply_err(x, &err);
    return NULL;
}

static int parse_int(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || *text == '+' || *text == ' ' ||
        v < min || v > max)
        return -1;
    *ret = v;
    return 0;
}

bool ctld_param_id(struct http_exchange *x, size_t i, uint64_t *ret)
{
    int64_t id = 0;
    if (parse_int(http_param(x, i), 1, i == 0 ? INT64_MAX : INT32_MAX, &id) <
        0) {
        struct error err;
        (void)error_set(&err, ERR_NOTFOUND, "no such job: '%.40s'",
                        http_param(x, i));
        http_reply_err(x, &err);
        return false;
    }
    *ret = (uint64_t)id;
    return true;
}

int ctld_find(struct ctld *c, uint64_t id, const struct job **ret,
              struct error *err)
{
    *ret = engine_job(c->engine, id);
    if (*ret)
        return 0;
    int rc = engine_recall(c->engine, id, err);
    *ret = engine_job(c->engine, id);
    if (*ret)
        ctld_want_step(c); /* in which those leave that are too many */
    return rc;
}

const struct job *ctld_find_or_log(struct ctld *c, uint64_t id)
{
    const struct job *job;
    struct error err = ERROR_INIT;
    if (ctld_find(c, id, &job, &err) < 0)
        log_err("ctld", "cannot read an archived job job=%llu why=\"%s\"",
                (unsigned long long)id, err.msg);
    return job;
}

bool ctld_param_target(struct ctld *c, struct http_exchange *x,
                       struct target *ret)
{
    const char *text = http_param(x, 0), *bar = strchr(text, '_');
    char sweep[24] = "";
    int64_t id = 0, task = 0;
    if (!bar) {
        if (!ctld_param_id(x, 0, &ret->id) || !ctld_recall_for(c, x, ret->id))
            return false;
        ret->is_sweep = engine_sweep(c->engine, ret->id) != NULL;
        return true;
    }
    if ((size_t)(bar - text) < sizeof(sweep))
        memcpy(sweep, text, (size_t)(bar - text));
    bool is_id = parse_int(sweep, 1, INT64_MAX, &id) == 0 &&
                 parse_int(bar + 1, 0, INT32_MAX, &task) == 0;
    if (is_id && !ctld_recall_for(c, x, (uint64_t)id))
        return false;
    const struct job *job =
        is_id ? engine_task(c->engine, (uint64_t)id, (uint64_t)task) : NULL;
    if (!job) {
        struct error err;
        (void)error_set(&err, ERR_NOTFOUND, "no such job: '%.40s'", text);
        http_reply_err(x, &err);
        return false;
    }
    *ret = (struct target){.id = job->id};
    return true;
}

const struct job *ctld_next_since(const struct ctld *c, uint64_t after,
                                  double since_s)
{
    const struct job *job = engine_next_since(c->engine, after, since_s);
    const struct job *known = NULL;
    while (job && !(known = engine_settled(c->engine, job)))
        job = engine_next_since(c->engine, job->id, since_s);
    return known;
}

const struct job *ctld_next_job(const struct ctld *c, uint64_t after)
{
    return ctld_next_since(c, after, -INFINITY);
}

bool ctld_param_one(struct ctld *c, struct http_exchange *x, uint64_t *ret)
{
    struct target t;
    struct error err;
    if (!ctld_param_target(c, x, &t))
        return false;
    *ret = t.id;
    const struct job *first = engine_sweep(c->engine, t.id);
    if (!t.is_sweep || !first)
        return true;
    char name[JOB_DISPLAY_CAP];
    (void)job_display_id(first, name);
    (void)error_set(&err, ERR_INVAL,
                    "%llu is a sweep; name one of its jobs, as %s",
                    (unsigned long long)t.id, name);
    http_reply_err(x, &err);
    return false;
}

static void say_none(const struct ctld *c, uint64_t id, struct error *ret)
{
    struct store *s = c->parts.store;
    struct store_removed r;
    char end[WIRE_TIME_CAP], gone[WIRE_TIME_CAP];
    if (s->ops->removed(s, id, &r, NULL) < 0) {
        (void)error_set(ret, ERR_NOTFOUND, "no job %llu",
                        (unsigned long long)id);
        return;
    }
    wire_time(r.end_s, end);
    wire_time(r.removed_s, gone);
    (void)error_set(ret, ERR_NOTFOUND,
                    "job %llu ended at %s and was removed at %s "
                    "(store.jobs_retention)",
                    (unsigned long long)id, end, gone);
}

const struct job *ctld_job_of(struct ctld *c, struct http_exchange *x,
                              uint64_t id)
{
    const struct job *job;
    struct error err = ERROR_INIT;
    if (ctld_find(c, id, &job, &err) < 0) {
        http_reply_err(x, &err);
        return NULL;
    }
    if (job)
        job = engine_settled(c->engine, job);
    if (job && engine_may(c->engine, job, http_uid(x)))
        return job;
    if (job)
        (void)error_set(&err, ERR_DENIED, "job %llu belongs to another user",
                        (unsigned long long)id);
    else
        say_none(c, id, &err);
    http_reply_err(x, &err);
    return NULL;
}

bool ctld_param_job(struct ctld *c, struct http_exchange *x,
                    const struct job **ret)
{
    struct target t;
    if (!ctld_param_target(c, x, &t))
        return false;
    *ret = ctld_job_of(c, x, t.id);
    return *ret;
}

bool ctld_query_int(struct http_exchange *x, const char *name, int64_t min,
                    int64_t max, int64_t absent, int64_t *ret)
{
    const char *text = http_query(x, name);
    if (!text || !*text) {
        *ret = absent;
        return true;
    }
    if (parse_int(text, min, max, ret) == 0)
        return true;
    struct error err;
    (void)error_set(&err, ERR_INVAL, "%s=%.40s: expected %lld..%lld", name,
                    text, (long long)min, (long long)max);
    http_reply_err(x, &err);
    return false;
}
