/* attempts.c - what workers say: claim, heartbeat, report. Rows are in
 * metric_ingest.c. */
#include <math.h>

#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/worker_report.h"
#include "scheduler/ctld/job_list/job_watch.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"

struct caller {
    struct worker w;
    json_t *body; /* owned */
};

static bool who(struct ctld *c, struct http_exchange *x, struct caller *ret)
{
    if (!ctld_admit_worker(c, x, &ret->w))
        return false;
    ret->body = ctld_body(x);
    return ret->body != NULL;
}

static double real_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int64_t int_of(const json_t *o, const char *key, int64_t max)
{
    const json_t *v = json_object_get(o, key);
    int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    return n < 0 || n > max ? -1 : n;
}

void serve_claim(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct caller w;
    struct error err = ERROR_INIT;
    if (!who(c, x, &w))
        return;
    const char *holder = json_string_value(json_object_get(w.body, "holder"));
    const char *id = json_string_value(json_object_get(w.body, "native_id"));
    int rc = holder && *holder
                 ? engine_claim(c->engine, w.w.job, w.w.attempt, w.w.token,
                                holder, id ? id : "", &err)
                 : error_set(&err, ERR_INVAL, "a claim names its 'holder'");
    json_decref(w.body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, 0);
}

void serve_heartbeat(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct caller w;
    struct error err = ERROR_INIT;
    if (!who(c, x, &w))
        return;
    struct engine_beat beat = {
        .iteration = int_of(w.body, "iteration", INT64_MAX),
        .iterations_total = int_of(w.body, "iterations_total", INT64_MAX),
        .epoch = (int32_t)int_of(w.body, "epoch", INT32_MAX),
        .epochs_total = (int32_t)int_of(w.body, "epochs_total", INT32_MAX),
        .loss = real_of(w.body, "loss"),
        .t_iter = real_of(w.body, "t_iter"),
        .eval_loss = real_of(w.body, "eval_loss"),
        .eval_accuracy = real_of(w.body, "eval_accuracy"),
        .tokenised = real_of(w.body, "tokenised"),
        .lease_s = real_of(w.body, "lease_s"),
        .work = int_of(w.body, "work", INT64_MAX),
        .saves = json_is_true(json_object_get(w.body, "saving")),
        .failures = worker_report_failures(w.body),
    };
    int rc =
        engine_check_lease(c->engine, w.w.job, w.w.attempt, w.w.token, &err);
    if (rc == 0)
        rc = engine_beat(c->engine, w.w.job, w.w.attempt, &beat, &err);
    json_decref(w.body); /* the beat borrowed its texts */
    if (rc < 0) {
        http_reply_err(x, &err);
        return;
    }
    job_watch_changed(c, w.w.job);
    /* The reply is not held until a commit: a lost heartbeat loses nothing. The
     * event that it staged (RUN) is committed by the step that this wakes. */
    ctld_step_want(c);
    ctld_reply(x, 200, json_pack("{s:s}", "schema", "mgpu.ok/1"));
}

void serve_report(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct caller w;
    struct worker_report report;
    struct error err = ERROR_INIT;
    if (!who(c, x, &w))
        return;
    int rc =
        engine_check_lease(c->engine, w.w.job, w.w.attempt, w.w.token, &err);
    if (rc == 0)
        rc = worker_report_parse(w.body, &report, &err);
    if (rc == 0)
        rc = worker_report_use(c->engine, w.w.job, w.w.attempt, &report, &err);
    json_decref(w.body);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        held_replies_add(c, x, 200, 0);
}
