/* job_actions.c - what users ask for: cancel, hold, release; a submit is in
 * job_submit.c. */
#include <string.h>

#include "jobs/base/signals.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"

/* What a request for a job, or for all of a sweep, is to do. */
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
