/* update.c - change what a job asked for; see update.h.
 *
 * What a user may change follows Slurm: a pending job may get any time limit, a
 * running one a shorter one, and only an administrator lets a job run longer
 * than its user asked for when it began. Other than in Slurm a user may also
 * raise a priority again, up to what a submit may have: there is nothing that
 * lowering it would protect.
 */
#include "scheduler/engine/update.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/inventory.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/store/corrupt_jobs.h"

enum { PARALLEL_MAX = 1000000 };
static const double LIMIT_MIN_S = 1, LIMIT_MAX_S = 366 * 86400.0;

/* ---- what may change now --------------------------------------------------
 */
static bool same_text(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Leaves what the job has already out of the update. */
static struct engine_update news(const struct job *job,
                                 const struct engine_update *to)
{
    struct engine_update u = *to;

    u.has_limit =
        u.has_limit && (u.limit_s < job->limit_s || u.limit_s > job->limit_s ||
                        job->limit_is_default);
    if (same_text(u.partition, job->where.partition))
        u.partition = NULL;
    if (same_text(u.account, job->where.account))
        u.account = NULL;
    u.has_priority = u.has_priority && u.priority != job->priority;
    return u;
}

/* Whether an attempt's request changes. */
static bool is_request(const struct engine_update *u)
{
    return u->has_limit || u->partition || u->account;
}

static int check_values(const struct engine *e, int64_t uid,
                        const struct engine_update *u, struct error *err)
{
    if (u->has_limit && isfinite(u->limit_s) &&
        (u->limit_s < LIMIT_MIN_S || u->limit_s > LIMIT_MAX_S))
        return error_set(err, ERR_INVAL,
                         "time_limit: expected 1s..366d, or "
                         "null for none");
    if ((u->partition && strlen(u->partition) >= DETAIL_WHERE_CAP) ||
        (u->account && strlen(u->account) >= DETAIL_WHERE_CAP))
        return error_set(err, ERR_INVAL,
                         "a partition and an account have at most %d "
                         "characters",
                         DETAIL_WHERE_CAP - 1);
    if (u->has_parallel &&
        (u->max_parallel < 0 || u->max_parallel > PARALLEL_MAX))
        return error_set(err, ERR_INVAL,
                         "sweep.max_parallel: expected 1..%d, or null for any "
                         "number",
                         (int)PARALLEL_MAX);
    return u->has_priority ? eng_check_priority(e, uid, u->priority, err) : 0;
}

static int check_state(const struct engine *e, const struct job_record *rec,
                       int64_t uid, const struct engine_update *u,
                       struct error *err)
{
    const struct job *job = &rec->job;
    bool waits = !job_state_is_live(job->state) || eng_is_pending(rec);

    if (job_state_is_final(job->state))
        return eng_refuse(job, err, ERR_STATE, "has ended: %s",
                          job_state_name(job->state));
    if (eng_check_whole(rec, err) < 0 ||
        eng_run_refuse(job, "updated", err) < 0)
        return -1;
    if (job->cancel_asked || job->limit_hit || rec->give_up)
        return eng_refuse(job, err, ERR_STATE, "is being ended");
    if (waits || !is_request(u))
        return 0;
    if (job->native_id[0] == '\0')
        return eng_refuse(job, err, ERR_STATE,
                          "is being started: try again in a moment");
    if (u->partition || u->account)
        return eng_refuse(
            job, err, ERR_STATE,
            "has its GPUs: only the %s of a pending job can change",
            u->partition ? "partition" : "account");
    if (job->reported)
        return eng_refuse(job, err, ERR_STATE,
                          "has completed its work and is ending");
    if (u->limit_s > job->limit_s && !engine_is_admin(e, uid))
        return eng_refuse(
            job, err, ERR_DENIED,
            "has begun: only an administrator makes its time limit "
            "longer");
    return 0;
}

/* ---- whether it could still start ------------------------------------------
 */
static struct job changed(const struct engine *e, const struct job *job,
                          const struct engine_update *u)
{
    struct job then = *job;
    const char *which;

    if (u->has_limit)
        then.limit_s = then.attempt_limit_s = u->limit_s;
    if (u->partition)
        then.where.partition = u->partition;
    if (u->account)
        then.where.account = u->account;
    if (isinf(then.limit_s) || (job->limit_is_default && !u->has_limit))
        then.limit_s = then.attempt_limit_s =
            eng_partition_limit_s(e, &then, &which);
    return then;
}

/* A job that no node could hold before may become better, or another such. */
static int check_room(const struct engine *e, const struct job *job,
                      const struct engine_update *u, struct error *err)
{
    struct job then = changed(e, job, u);

    if (!is_request(u) || job->force_queue || job->native_id[0] != '\0')
        return 0;
    if (eng_feasibility_check(e, &then, err) < 0)
        return eng_feasibility_check(e, job, NULL) < 0 ? 0 : -1;
    return u->account ? eng_check_limits(e, &then, err) : 0;
}

/* ---- the change -----------------------------------------------------------
 */
static void describe(const struct engine_update *u, struct detail *d)
{
    if (u->has_limit)
        d->limit_ms =
            isfinite(u->limit_s) ? (int64_t)ceil(u->limit_s * 1000) : 0;
    if (u->partition)
        text_copy(d->partition, sizeof(d->partition), u->partition);
    if (u->account)
        text_copy(d->account, sizeof(d->account), u->account);
    if (u->has_priority)
        d->priority = u->priority;
}

/* Each task has the number, so each gets the event. */
static int set_parallel(struct engine *e, const struct job *job, int64_t uid,
                        int32_t n, struct error *err)
{
    struct detail d = DETAIL_INIT;

    d.max_parallel = n;
    for (int32_t i = 0; i < job->n_tasks; i++) {
        struct job_record *rec = eng_find(e, job->sweep + (uint64_t)i);
        if (rec && !job_state_is_final(rec->job.state) &&
            rec->job.max_parallel != n &&
            eng_stage(e, rec, EV_UPDATE, uid, &d, err) < 0)
            return -1;
    }
    return 0;
}

int engine_update(struct engine *e, uint64_t id, int64_t uid,
                  const struct engine_update *to, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = eng_mine(e, id, uid, err);

    if (!rec)
        return -1;
    struct engine_update u = news(&rec->job, to);
    if (check_values(e, uid, to, err) < 0 ||
        check_state(e, rec, uid, &u, err) < 0 ||
        check_room(e, &rec->job, &u, err) < 0)
        return -1;
    if (u.has_parallel && rec->job.sweep == 0)
        return eng_refuse(
            &rec->job, err, ERR_INVAL,
            "is no task of a sweep: sweep.max_parallel is of those");
    bool is_pending = job_state_is_live(rec->job.state) && eng_is_pending(rec);
    describe(&u, &d);
    if ((is_request(&u) || u.has_priority) &&
        eng_stage(e, rec, EV_UPDATE, uid, &d, err) < 0)
        return -1;
    if ((is_pending || !job_state_is_live(rec->job.state)) &&
        (u.has_limit || u.partition) && eng_default_limit(e, rec, err) < 0)
        return -1;
    if (is_pending && is_request(&u) &&
        eng_take_back(e, rec, "its request has changed", err) < 0)
        return -1;
    return u.has_parallel ? set_parallel(e, &rec->job, uid, u.max_parallel, err)
                          : 0;
}

int engine_update_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        const struct engine_update *to, struct error *err)
{
    const struct job *first = engine_sweep(e, sweep);
    struct engine_update each = *to;
    struct error not = ERROR_INIT;
    int32_t n = first ? first->n_tasks : 0, n_done = 0, n_not = 0;

    if (!first)
        return error_set(err, ERR_NOTFOUND, "no sweep %" PRIu64, sweep);
    for (int32_t i = 0; i < n; i++) {
        const struct job *job = engine_job(e, sweep + (uint64_t)i);
        struct error why = ERROR_INIT;
        if (!job || job_state_is_final(job->state))
            continue;
        if (engine_update(e, job->id, uid, &each, &why) == 0) {
            n_done++;
            each.has_parallel = false; /* all tasks have it now */
            continue;
        }
        if (n_not++ == 0)
            not = why;
    }
    if (n_done + n_not == 0)
        return error_set(err, ERR_STATE,
                         "all jobs of sweep %" PRIu64 " have ended", sweep);
    if (n_not == 0)
        return 0;
    return n_done == 0 ? error_set(err, not .code, "%s", not .msg)
                       : error_set(err, not .code,
                                   "%" PRId32 " jobs of sweep %" PRIu64
                                   " were changed and %" PRId32
                                   " not, the first because: %.120s",
                                   n_done, sweep, n_not, not .msg);
}
