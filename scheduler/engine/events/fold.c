/* fold.c - apply an event to a job; nothing else changes a job.
 *
 * The same function serves a running engine and a replay. It reads only the
 * event: no clock, no configuration, so that a log folds to the same jobs on
 * any machine at any time.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/events/fold_begin.h"
#include "scheduler/engine/events/fold_resize.h"

static void because(struct job *job, const char *why)
{
    text_copy(job->reason, sizeof(job->reason), why);
}

/* src may overlap dst, which text_copy() does not allow. */
static void copy(char *dst, const char *src, size_t cap)
{
    memcpy(dst, src, strnlen(src, cap - 1) + 1);
    dst[cap - 1] = '\0';
}

int eng_take_submit(struct job_record *rec, const char *text, struct error *err)
{
    struct texts own;

    if (!text)
        return error_set(err, ERR_INVAL, "a submit without its detail");
    if (submit_decode(text, rec->own.spec, &rec->job, &own, err) < 0)
        return -1;
    texts_clear(&rec->own);
    rec->own = own;
    if (own.dir)
        rec->job.dir = own.dir;
    rec->job.spec = own.spec;
    rec->job.key = own.key;
    rec->job.depends = own.depends;
    rec->job.rules = own.rules;
    return 0;
}

static void fold_hold(struct job *job, const struct store_event *ev,
                      const struct detail *d)
{
    static const char *const why[] = {
        [HELD_USER] = "Held: by its user",
        [HELD_ADMIN] = "Held: by an administrator",
        [HELD_DEPENDENCY] = "DependencyNeverSatisfied: ",
        [HELD_REFUSED] = "Refused: ",
    };
    job->held_by = strcmp(d->held, "dependency") == 0 ? HELD_DEPENDENCY
                   : strcmp(d->held, "refused") == 0  ? HELD_REFUSED
                   : ev->uid == job->uid              ? HELD_USER
                                                      : HELD_ADMIN;
    because(job, d->why[0] ? d->why : why[job->held_by]);
}

/* A release by hand lets the job start without its dependencies; the engine
 * notices that the job is pending again. A backoff continues. */
static void fold_release(struct job *job, const struct store_event *ev)
{
    char why[JOB_REASON_CAP] = "", at[WIRE_TIME_CAP];
    double retry_s = job->requeue_s + job->requeue_wait_s;

    job->depends_waived = job->depends_waived ||
                          (job->held_by == HELD_DEPENDENCY && ev->uid >= 0);
    job->held_by = HELD_NOT;
    job->freed_s = ev->at_s;
    if (job->requeue_wait_s >= 1 && retry_s > ev->at_s) {
        wire_time(retry_s, at);
        (void)snprintf(why, sizeof(why),
                       "retry %" PRId32 " of %" PRId32 ", not before %s",
                       job->retries, job->retry_max, at);
    }
    because(job, why);
}

/* Time in which the ranks are suspended does not count as run time. */
static void fold_stopped(struct job *job, double at_s, bool is_stopped)
{
    if (!isnan(job->stopped_s))
        job->stopped_for_s += fmax(0, at_s - job->stopped_s);
    job->stopped_s = is_stopped ? at_s : (double)NAN;
}

static void fold_grant(struct job *job, const struct store_event *ev,
                       const struct detail *d)
{
    if (d->stopped >= 0)
        fold_stopped(job, ev->at_s, d->stopped > 0);
    copy(job->native_id, d->native_id, sizeof(job->native_id));
    copy(job->place, d->place, sizeof(job->place));
    copy(job->on_type, d->gpu_type, sizeof(job->on_type));
    if (d->native_id[0] == '\0')
        job->start_s = NAN; /* the attempt is pending again */
    else if (isnan(job->start_s))
        job->start_s = ev->at_s;
    /* The reason for which it was pending in the allocator no longer
     * applies. */
    if (job->holder[0] == '\0' && !job->cancel_asked && !job->limit_hit &&
        !job->requeue_asked)
        because(job, "");
}

/* The worker knows best in which allocation it runs. */
static void fold_claim(struct job *job, const struct store_event *ev,
                       const struct detail *d)
{
    copy(job->holder, d->holder, sizeof(job->holder));
    if (d->native_id[0] != '\0') {
        if (strcmp(job->native_id, d->native_id) != 0)
            job->place[0] = '\0';
        copy(job->native_id, d->native_id, sizeof(job->native_id));
        job->claim_names_id = true;
    }
    job->claim_s = ev->at_s;
    resize_claimed(&job->resize);
    if (isnan(job->first_claim_s))
        job->first_claim_s = ev->at_s;
    job->first_claimed = job->first_claimed ? job->first_claimed : ev->attempt;
    if (isnan(job->start_s))
        job->start_s = ev->at_s;
    if (d->stopped > 0)
        job->stopped_for_s = fmax(0, ev->at_s - job->start_s);
    because(job, "");
}

static void fold_run(struct job *job, double at_s)
{
    because(job, "");
    if (!isnan(job->run_s))
        return; /* it runs again */
    job->run_s = at_s;
    resize_ran(job);
}

/* A detail says that the engine cancelled it, and why. */
static void fold_cancel(struct job_record *rec, const struct store_event *ev,
                        const struct detail *d)
{
    struct job *job = &rec->job;
    bool own = ev->uid == job->uid;

    job->cancel_asked = true;
    job->cancel_uid = ev->uid;
    because(job, d->why[0] ? d->why
                 : own     ? "cancelled by its user"
                           : "cancelled by an administrator");
    if (!job_state_is_final(job->state))
        return; /* the job ends when its attempt does */
    job->end_s = ev->at_s;
    job->exit_code = d->exit_code >= 0 ? d->exit_code
                     : own             ? EXIT_CANCELLED
                                       : EXIT_CANCELLED_BY_ADMIN;
}

static void fold_preempt(struct job *job, const struct store_event *ev,
                         const struct detail *d)
{
    bool is_live = job_state_is_live(job->state);

    if (d->to_gpus >= 0) {
        resize_asked(job, ev->at_s, d, is_live);
        because(job, d->why);
    }
    if (!is_live || d->to_gpus == 0)
        return; /* only the next size has changed */
    job->requeue_asked = true;
    if (d->to_gpus > 0)
        return;
    if (d->for_job > 0) {
        job->is_preempted = true;
        job->preempted_for = (uint64_t)d->for_job;
        job->preempt_s = ev->at_s;
        job->preempt_grace_s = d->grace_ms / 1000.0;
        because(job, d->why);
        return;
    }
    because(job, d->why[0]             ? d->why
                 : ev->uid == job->uid ? "requeued by its user"
                                       : "requeued by an administrator");
}

/* If the list is full, the oldest nodes are dropped. */
static void keep_away(struct job *job, const char *nodes)
{
    size_t len = strlen(job->exclude);
    if (len + strlen(nodes) + 2 > sizeof(job->exclude))
        len = 0;
    (void)snprintf(job->exclude + len, sizeof(job->exclude) - len, "%s%s",
                   len > 0 ? "," : "", nodes);
}

/* The attempt may have ended while no daemon ran. */
static double ended_s(const struct store_event *ev, const struct detail *d)
{
    return d->ended_ms > 0 ? (double)d->ended_ms / 1000 : ev->at_s;
}

static void fold_requeue(struct job_record *rec, const struct store_event *ev,
                         const struct detail *d)
{
    struct job *job = &rec->job;

    rec->attempt_end_s = ended_s(ev, d);
    rec->attempt_exit = d->exit_code;
    rec->attempt_signal = d->signal > 0 ? d->signal : 0;
    if (!isnan(job->claim_s)) /* an unclaimed attempt has used none of it */
        job->attempt_limit_s =
            d->left_ms > 0 ? (double)d->left_ms / 1000 : job->limit_s;
    resize_requeued(job, rec->attempt_end_s);
    job->retries += d->retry > 0;
    job->requeue_s = ev->at_s;
    if (d->exclude[0])
        keep_away(job, d->exclude);
    job->requeue_wait_s = d->wait_ms > 0 ? d->wait_ms / 1000.0 : 0;
    job->start_s = NAN;
    job->limit_hit = job->release_asked = job->requeue_asked = false;
    job->is_preempted = false;
    rec->is_taken_back =
        strncmp(d->why, eng_taken_back, strlen(eng_taken_back)) == 0;
    because(job, d->why);
}

/* For a job whose heartbeats are not in memory. */
static void take_progress(struct job *job, const struct detail *d)
{
    job->iteration = d->iteration;
    job->iterations_total = d->iterations_total;
    job->epoch = d->epoch;
    job->epochs_total = d->epochs_total;
    job->loss = d->loss;
    job->t_iter = d->t_iter;
    job->eval_loss = d->eval_loss;
    job->eval_accuracy = d->eval_accuracy;
}

static void fold_end(struct job_record *rec, const struct store_event *ev,
                     const struct detail *d)
{
    struct job *job = &rec->job;

    if (job->attempt > 0 && isnan(rec->attempt_end_s)) {
        rec->attempt_end_s = ended_s(ev, d);
        rec->attempt_exit = d->exit_code;
        rec->attempt_signal = d->signal > 0 ? d->signal : 0;
        resize_used(job, rec->attempt_end_s);
    }
    job->end_s = ended_s(ev, d);
    job->exit_code = d->exit_code;
    rec->has_progress = true;
    if (job->iteration == 0)
        take_progress(job, d);
    because(job, d->why);
}

/* Moves the end of an attempt that has only a part of the limit by as much. */
static void fold_limit(struct job *job, int64_t limit_ms, bool is_default)
{
    double limit_s = limit_ms > 0 ? (double)limit_ms / 1000 : (double)INFINITY;

    if (isfinite(limit_s) && isfinite(job->limit_s) &&
        isfinite(job->attempt_limit_s))
        job->attempt_limit_s =
            fmax(1, job->attempt_limit_s + limit_s - job->limit_s);
    else
        job->attempt_limit_s = limit_s;
    job->is_warned = job->is_warned && limit_s <= job->limit_s;
    job->is_time_80 = job->is_time_80 && limit_s <= job->limit_s;
    job->limit_s = limit_s;
    job->limit_is_default = is_default;
}

static void fold_update(struct job *job, double at_s, const struct detail *d)
{
    if (d->limit_ms >= 0)
        fold_limit(job, d->limit_ms, d->limit_default > 0);
    if (d->priority != INT32_MIN)
        job->priority = d->priority;
    if (d->max_parallel >= 0) {
        job->max_parallel = d->max_parallel;
        job->freed_s = fmax(job->freed_s, fmin(at_s, job->first_claim_s));
    }
}

static void fold_report(struct job *job, const struct detail *d)
{
    job->reported = true;
    job->report_code = d->exit_code;
    job->report_stopped = d->stopped;
    text_copy(job->fault_node, sizeof(job->fault_node), d->fault_node);
    text_copy(job->cause, sizeof(job->cause), d->cause);
    job->needed_bytes = d->needed_bytes;
    job->available_bytes = d->available_bytes;
    /* The report of a preempted worker says how it died, not why it had to
     * stop, unless it had finished. */
    if (!job->requeue_asked || job->limit_hit ||
        (d->exit_code == 0 && d->stopped == 0))
        because(job, d->why);
}

/* `job->state` is already the new state. */
static void apply(struct job_record *rec, const struct store_event *ev,
                  const struct detail *d)
{
    struct job *job = &rec->job;

    switch (ev->ev) {
    case EV_SUBMIT:
        job->uid = ev->uid;
        job->submit_s = ev->at_s;
        break;
    case EV_N:
        break;
    case EV_PREEMPT:
        fold_preempt(job, ev, d);
        break;
    case EV_PRIORITY:
        if (d->priority != INT32_MIN)
            job->priority = d->priority;
        break;
    case EV_UPDATE:
        fold_update(job, ev->at_s, d);
        break;
    case EV_HOLD:
        fold_hold(job, ev, d);
        break;
    case EV_RELEASE:
        fold_release(job, ev);
        break;
    case EV_INTENT:
        fold_begin_intent(rec, ev, d);
        break;
    case EV_UNKNOWN:
    case EV_STALL:
        because(job, d->why);
        break;
    case EV_GRANT:
        fold_grant(job, ev, d);
        break;
    case EV_CLAIM:
        fold_claim(job, ev, d);
        break;
    case EV_RUN:
        fold_run(job, ev->at_s);
        break;
    case EV_REPORT:
        fold_report(job, d);
        break;
    case EV_CANCEL:
        fold_cancel(rec, ev, d);
        break;
    case EV_WARN:
        job->is_warned = true;
        break;
    case EV_TIME_80:
        job->is_time_80 = true;
        break;
    case EV_OPEN:
        fold_begin_open(rec, ev, d);
        break;
    case EV_SAVE_FAILED:
        job->saves_failed = d->saves_failed;
        break;
    case EV_LIMIT:
        job->limit_hit = true;
        because(job, d->why);
        break;
    case EV_REQUEUE:
        fold_requeue(rec, ev, d);
        break;
    case EV_FINISH:
    case EV_FAIL:
    case EV_KILLED:
    case EV_EXPIRE:
    case EV_LOST:
        fold_end(rec, ev, d);
        break;
    }
}

/* The names of an update replace those of the submit; nothing else has changed
 * yet if memory runs out. */
static int take_names(struct job_record *rec, const struct detail *d,
                      struct error *err)
{
    struct alloc_where w = rec->job.where;

    if (names_kept_set(&rec->kept, d->partition, &w.partition, err) < 0 ||
        names_kept_set(&rec->kept, d->account, &w.account, err) < 0)
        return -1;
    rec->job.where = w;
    return 0;
}

/* The fields that the engine writes in every case and depends on. */
static int check_detail(const struct job_record *rec,
                        const struct store_event *ev, const struct detail *d,
                        struct error *err)
{
    int32_t attempt = rec->job.attempt + job_event_begins(ev->ev);

    if (ev->attempt != attempt)
        return error_set(err, ERR_INVAL,
                         "it is of attempt %" PRId32 ", not %" PRId32,
                         ev->attempt, attempt);
    if (ev->ev == EV_INTENT && (d->nodes < 1 || d->gpus < 0))
        return error_set(err, ERR_INVAL, "an intent without its devices");
    if (ev->ev == EV_CLAIM && d->holder[0] == '\0')
        return error_set(err, ERR_INVAL, "a claim without a holder");
    if (ev->ev == EV_OPEN && !rec->job.is_run)
        return error_set(err, ERR_INVAL, "it opens a job that is no run");
    return 0;
}

static void move(struct job_record *rec, const struct store_event *ev,
                 const struct detail *d, enum job_state to)
{
    enum job_state from = rec->job.state;

    if (to != from || job_event_begins(ev->ev))
        rec->job.state_s = ev->at_s;
    if (job_state_is_final(to)) /* there is no next attempt */
        resize_over(&rec->job.resize);
    rec->job.state = to;
    /* The attempt's row keeps the state in which the attempt ended. */
    if ((rec->job.attempt > 0 && isnan(rec->attempt_end_s)) ||
        job_event_begins(ev->ev))
        rec->attempt_state = to == JOB_QUEUED ? from : to;
    apply(rec, ev, d);
}

int eng_fold(struct job_record *rec, const struct store_event *ev,
             struct error *err)
{
    struct detail d = DETAIL_INIT;
    enum job_state to;

    if (job_state_next(rec->job.state, ev->ev, &to, err) < 0)
        return -1;
    if (ev->ev == EV_SUBMIT) {
        if (eng_take_submit(rec, ev->detail, err) < 0)
            return -1;
    } else if (detail_decode(ev->detail, &d, err) < 0 ||
               check_detail(rec, ev, &d, err) < 0 ||
               (ev->ev == EV_UPDATE && take_names(rec, &d, err) < 0)) {
        return -1;
    }
    move(rec, ev, &d, to);
    return 0;
}

int eng_fold_taken(struct job_record *rec, const struct store_event *ev,
                   struct error *err)
{
    static const struct detail nothing = DETAIL_INIT;
    enum job_state to;

    if (job_state_next(rec->job.state, ev->ev, &to, err) < 0)
        return -1;
    move(rec, ev, &nothing, to);
    return 0;
}
