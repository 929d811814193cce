/* requests.c - requests of users: submit, cancel, hold, signal.
 *
 * The engine checks and stages a request and answers at once; the request
 * counts when the batch with its ticket is durable (engine.h).
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/store/archive.h"
#include "scheduler/engine/store/archive_list.h"
#include "scheduler/engine/store/corrupt_jobs.h"
#include "scheduler/engine/update.h"

enum { KEY_MAX = 64 };

/* ---- submit --------------------------------------------------------------
 */
static int check_request(const struct engine_submit *req, struct error *err)
{
    size_t len = req->key ? strlen(req->key) : 0;
    if (len < 1 || len > KEY_MAX)
        return error_set(err, ERR_INVAL,
                         "an idempotency key has 1..%d characters", KEY_MAX);
    for (const char *p = req->key; *p; p++) {
        if (*p < 0x21 || *p > 0x7e)
            return error_set(err, ERR_INVAL,
                             "an idempotency key is printable ASCII without "
                             "spaces");
    }
    return req->user ? 0 : error_set(err, ERR_INVAL, "a submit needs a user");
}

int eng_check_room(const struct engine *e, int64_t uid, size_t more,
                   struct error *err)
{
    int32_t n = eng_jobs_of(e, uid), max = e->parts.conf->max_jobs_per_user;

    if (max > 0 && n + (int64_t)more > max)
        return error_set(err, ERR_LIMIT,
                         "you have %" PRId32 " jobs, of %" PRId32
                         " allowed (max_jobs_per_user)%s",
                         n, max,
                         more > 1 ? ", and this request would exceed it" : "");
    return 0;
}

/* A job from before digests existed matches any specification. */
static int check_same(const struct job *job, const struct engine_submit *req,
                      struct error *err)
{
    return req->digest && job->digest[0] &&
                   strcmp(req->digest, job->digest) != 0
               ? error_set(err, ERR_STATE,
                           "the idempotency key '%s' belongs to job %" PRIu64
                           ", which has another specification: use another key",
                           req->key, job->id)
               : 0;
}

int eng_check_submit(struct engine *e, const struct engine_submit *req,
                     size_t n, uint64_t *ret_id, bool *ret_again,
                     struct error *err)
{
    if (check_request(req, err) < 0 ||
        eng_recall_key(e, req->uid, req->key, err) < 0)
        return -1;
    const struct job_record *rec = eng_find_key(e, req->uid, req->key);
    *ret_again = rec != NULL;
    if (rec)
        *ret_id = rec->job.id;
    if (!rec && req->closed)
        return error_set(err, req->closed->code, "%s", req->closed->msg);
    return rec ? check_same(&rec->job, req, err)
               : eng_check_room(e, req->uid, n, err);
}

/* Most tasks of a sweep have the same dependencies. */
static bool waits_alike(const struct job *a, const struct job *b)
{
    bool is = a->n_depends == b->n_depends;
    for (size_t i = 0; is && i < a->n_depends; i++)
        is = a->depends[i].job == b->depends[i].job;
    return is;
}

static int add_id(struct buf *out, uint64_t id, struct error *err)
{
    return buf_add(out, &id, sizeof(id), err);
}

static int add_awaited(const struct engine *e, const struct engine_task *tasks,
                       size_t n, struct buf *out, struct error *err)
{
    const struct job *last = NULL;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        const struct job *job = &tasks[i].read->rec->job;
        bool is_new = !last || !waits_alike(last, job);
        for (size_t k = 0; is_new && rc == 0 && k < job->n_depends; k++)
            rc = add_id(out, job->depends[k].job, err);
        const uint64_t parent = parent_id_of(e, tasks[i].read);
        if (rc == 0 && parent > 0)
            rc = add_id(out, parent, err);
        last = job;
    }
    return rc;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Keeps the ids that are in the archive; returns how many. */
static size_t pick_past(struct engine *e, uint64_t *io, size_t n)
{
    uint64_t last = 0;
    size_t n_past = 0;

    qsort(io, n, sizeof(*io), compare_ids);
    for (size_t i = 0; i < n; i++) {
        bool is_past = false;
        if (io[i] != last && engine_is_past(e, io[i], &is_past, NULL) < 0)
            is_past = false;
        last = io[i];
        if (is_past)
            io[n_past++] = last;
    }
    return n_past;
}

int engine_needs(struct engine *e, const struct engine_submit *req,
                 const struct engine_task *tasks, size_t n_tasks,
                 uint64_t **ret, size_t *ret_n, struct error *err)
{
    struct buf all = BUF_INIT;
    uint64_t id = 0;
    size_t n = 0;

    *ret = NULL;
    *ret_n = 0;
    if (!engine_has_past(e) ||
        (req->key && eng_find_key(e, req->uid, req->key)))
        return 0;
    if (req->key)
        id = eng_past_key(e, req->uid, req->key);
    int rc = id > 0 ? add_id(&all, id, err)
                    : add_awaited(e, tasks, n_tasks, &all, err);
    uint64_t *ids = (uint64_t *)(void *)all.data;
    if (rc == 0 && all.len > 0)
        n = pick_past(e, ids, all.len / sizeof(*ids));
    if (n > 0) {
        *ret = ids;
        *ret_n = n;
    } else {
        buf_clear(&all);
    }
    return rc;
}

int eng_enter_one(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, struct error *err)
{
    struct engine_read *read = req->read;
    struct job_record *rec;
    size_t n = e->n_events;

    if (!read && !req->spec)
        return error_set(err, ERR_INVAL, "a submit needs a spec");
    if (!read && engine_read(req->spec, NULL, &read, err) < 0)
        return -1;
    int rc = eng_prepare(e, req, read, NULL, err);
    if (rc == 0)
        rc = eng_enter(e, req, read, 0, &rec, err);
    if (read != req->read)
        engine_read_destroy(read);
    /* Stage both events or neither: a job that its user wants held must not
     * run. */
    if (rc == 0 && req->hold &&
        (rc = eng_stage(e, rec, EV_HOLD, req->uid, NULL, err)) < 0)
        eng_stage_undo(e, n);
    if (rc == 0)
        *ret_id = rec->job.id;
    return rc;
}

int engine_submit(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, bool *ret_again, struct error *err)
{
    bool again;

    if (eng_check_submit(e, req, 1, ret_id, &again, err) < 0)
        return -1;
    if (ret_again)
        *ret_again = again;
    return again ? 0 : eng_enter_one(e, req, ret_id, err);
}

/* ---- cancel, hold, signal --------------------------------------------------
 */
int eng_refuse(const struct job *job, struct error *err, enum err_code code,
               const char *fmt, ...)
{
    char why[240], display[JOB_DISPLAY_CAP];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    return error_set(err, code, "job %s %s", job_display_id(job, display), why);
}

static int check_not_over(const struct job_record *rec, struct error *err)
{
    if (job_state_is_final(rec->job.state))
        return eng_refuse(&rec->job, err, ERR_STATE, "has ended: %s",
                          job_state_name(rec->job.state));
    return 0;
}

int engine_cancel(struct engine *e, uint64_t id, int64_t uid, struct error *err)
{
    struct job_record *rec = eng_mine(e, id, uid, err);
    if (!rec)
        return -1;
    if (rec->job.state == JOB_CANCELLED || rec->job.cancel_asked)
        return 0;
    if (check_not_over(rec, err) < 0)
        return -1;
    return eng_stage(e, rec, EV_CANCEL, uid, NULL, err);
}

int eng_hold_one(struct engine *e, struct job_record *rec, int64_t uid,
                 bool hold, struct error *err)
{
    const struct job *job = &rec->job;
    /* An administrator takes over the hold of a user, and a hold for a
     * dependency becomes that of the requester: the job then stays held when
     * the user releases it, or when the dependency is satisfied after all. */
    bool takes_over = hold && job->state == JOB_HELD &&
                      (job->held_by == HELD_DEPENDENCY ||
                       (job->held_by != HELD_ADMIN && uid != job->uid));

    if (eng_check_whole(rec, err) < 0 ||
        eng_run_refuse(job, hold ? "held" : "released", err) < 0)
        return -1;
    if (!hold && job->held_by == HELD_ADMIN && !engine_is_admin(e, uid))
        return eng_refuse(job, err, ERR_DENIED, "is held by an administrator");
    if (job->state == (hold ? JOB_HELD : JOB_QUEUED) && !takes_over)
        return 0;
    if (job_state_is_live(job->state))
        return hold ? eng_refuse(
                          job, err, ERR_STATE,
                          "is %s and cannot be held: only pending jobs can. "
                          "mgpu-admin requeue ends its attempt first",
                          job_state_name(job->state))
                    : 0; /* a live job is not held */
    return eng_stage(e, rec, hold ? EV_HOLD : EV_RELEASE, uid, NULL, err);
}

int engine_hold(struct engine *e, uint64_t id, int64_t uid, bool hold,
                struct error *err)
{
    struct job_record *rec = eng_mine(e, id, uid, err);
    if (!rec || check_not_over(rec, err) < 0)
        return -1;
    return eng_hold_one(e, rec, uid, hold, err);
}

int engine_requeue(struct engine *e, uint64_t id, int64_t uid,
                   struct error *err)
{
    struct job_record *rec = eng_mine(e, id, uid, err);
    if (!rec || check_not_over(rec, err) < 0)
        return -1;
    if (eng_check_whole(rec, err) < 0 ||
        eng_run_refuse(&rec->job, "requeued", err) < 0)
        return -1;
    if (rec->job.state == JOB_HELD)
        return eng_refuse(&rec->job, err, ERR_STATE, "is HELD: release it");
    if (rec->job.cancel_asked)
        return eng_refuse(&rec->job, err, ERR_STATE, "is being cancelled");
    if (rec->job.state == JOB_QUEUED || rec->job.requeue_asked)
        return 0;
    if (rec->job.reported)
        return eng_refuse(&rec->job, err, ERR_STATE,
                          "has completed its work and is ending");
    return eng_stage(e, rec, EV_PREEMPT, uid, NULL, err);
}

int eng_check_priority(const struct engine *e, int64_t uid, int32_t priority,
                       struct error *err)
{
    int32_t most = engine_is_admin(e, uid) ? PRIORITY_MAX : PRIORITY_USER;

    if (priority < -most || priority > most)
        return error_set(err, ERR_INVAL,
                         "priority %" PRId32 ": you may give -%" PRId32
                         "..%" PRId32,
                         priority, most, most);
    return 0;
}

int engine_prioritise(struct engine *e, uint64_t id, int64_t uid,
                      int32_t priority, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = eng_mine(e, id, uid, err);

    if (!rec || check_not_over(rec, err) < 0 || eng_check_whole(rec, err) < 0 ||
        eng_run_refuse(&rec->job, "given a priority", err) < 0)
        return -1;
    /* Each event would delay the end of the attempt by a commit. */
    if (rec->job.cancel_asked || rec->give_up)
        return eng_refuse(&rec->job, err, ERR_STATE, "is being ended");
    if (eng_check_priority(e, uid, priority, err) < 0)
        return -1;
    if (rec->job.priority == priority)
        return 0;
    d.priority = priority;
    return eng_stage(e, rec, EV_PRIORITY, uid, &d, err);
}

int engine_top(struct engine *e, uint64_t id, int64_t uid, struct error *err)
{
    int32_t most = INT32_MIN;
    const struct job_record *rec = eng_mine(e, id, uid, err);

    if (!rec || check_not_over(rec, err) < 0 ||
        eng_run_refuse(&rec->job, "given a priority", err) < 0)
        return -1;
    if (!engine_is_admin(e, uid))
        return error_set(err, ERR_DENIED, "only administrators can");
    for (size_t i = 0; i < e->n_active; i++) {
        const struct job *job = &e->active[i]->job;
        if (e->active[i] != rec && job->state == JOB_QUEUED &&
            job->priority > most)
            most = job->priority;
    }
    if (rec->job.priority > most)
        return 0;
    return engine_prioritise(
        e, id, uid, most < PRIORITY_MAX ? most + 1 : PRIORITY_MAX, err);
}

int engine_signal(struct engine *e, uint64_t id, int64_t uid, int signo,
                  struct error *err)
{
    struct alloc *a = e->parts.alloc;
    struct job_record *rec = eng_mine(e, id, uid, err);
    if (!rec || check_not_over(rec, err) < 0 ||
        eng_run_refuse(&rec->job, "sent a signal", err) < 0)
        return -1;
    if (!job_state_is_live(rec->job.state))
        return eng_refuse(&rec->job, err, ERR_STATE, "is %s, not running",
                          job_state_name(rec->job.state));
    return a->ops->signal(a, id, rec->job.attempt, signo, err);
}
