/* job_lookup.c - the job that a request names, in memory or archived, if the
 * caller may see it.
 */
#include "scheduler/ctld/request/job_lookup.h"

#include <math.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/request/reply.h"

/* err  of the store; *ret is NULL then, and when there is no such job */
static int find(struct ctld *c, uint64_t id, const struct job **ret,
                struct error *err)
{
    *ret = engine_job(c->engine, id);
    if (*ret)
        return 0;
    int rc = engine_recall(c->engine, id, err);
    *ret = engine_job(c->engine, id);
    if (*ret)
        ctld_step_want(c); /* in which those leave that are too many */
    return rc;
}

const struct job *ctld_job_find_or_log(struct ctld *c, uint64_t id)
{
    const struct job *job;
    struct error err = ERROR_INIT;
    if (find(c, id, &job, &err) < 0)
        log_err("ctld", "cannot read an archived job job=%llu why=\"%s\"",
                (unsigned long long)id, err.msg);
    return job;
}

const struct job *ctld_job_next_since(const struct ctld *c, uint64_t after,
                                      double since_s)
{
    const struct job *job = engine_next_since(c->engine, after, since_s);
    const struct job *known = NULL;
    while (job && !(known = engine_settled(c->engine, job)))
        job = engine_next_since(c->engine, job->id, since_s);
    return known;
}

const struct job *ctld_job_next(const struct ctld *c, uint64_t after)
{
    return ctld_job_next_since(c, after, -INFINITY);
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
    if (find(c, id, &job, &err) < 0) {
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

bool ctld_job_param(struct ctld *c, struct http_exchange *x,
                    const struct job **ret)
{
    struct target t;
    if (!ctld_param_target(c, x, &t))
        return false;
    *ret = ctld_job_of(c, x, t.id);
    return *ret;
}
