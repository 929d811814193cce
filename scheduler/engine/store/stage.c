/* stage.c - stage an event: the only way to change a job. Commit or undo
 * follows (commit.c).
 *
 * Staging folds at once, so that the next request of the same batch sees the
 * change. Tickets are counted per event; one number is enough, because a batch
 * becomes durable, or is undone, as a whole.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"

static int reserve(struct engine *e, struct error *err)
{
    if (e->n_events == e->cap_events) {
        size_t cap = e->cap_events > 0 ? 2 * e->cap_events : 64;
        struct store_event *p = realloc(e->events, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "out of memory");
        e->events = p;
        e->cap_events = cap;
    }
    if (e->n_saved == e->cap_saved) {
        size_t cap = e->cap_saved > 0 ? 2 * e->cap_saved : 16;
        struct saved *p = realloc(e->saved, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "out of memory");
        e->saved = p;
        e->cap_saved = cap;
    }
    return 0;
}

/* Starts or stops the clocks that belong to the event; a replay sets them from
 * the stored times instead. */
static void set_clocks(const struct engine *e, struct job_record *rec,
                       enum job_event ev)
{
    double now_s = eng_now(e);

    if (isnan(rec->job.start_s))
        rec->start_now_s = NAN;
    else if (isnan(rec->start_now_s))
        rec->start_now_s = now_s;
    if (ev == EV_INTENT) {
        rec->ask_at_s = now_s;
        rec->release_at_s = now_s;
        rec->give_up = NULL;
        rec->asked_before = rec->is_resumed = rec->is_held = false;
        rec->is_over_size = false;
        rec->is_suspended = rec->is_by_wall = rec->is_from_claim = false;
        rec->stalled_s = rec->granted_s = rec->end_asked_s = NAN;
        rec->moved_s = rec->step_s = NAN;
        rec->saves = false;
        rec->n_steps = 0;
        rec->is_stuck = false;
        rec->tell_at_s = rec->warn_at_s = rec->limit_at_s = INFINITY;
        rec->is_heard = true; /* a new attempt cannot have ended unseen */
    } else if (ev == EV_REQUEUE && rec->job.requeue_wait_s > 0) {
        rec->not_before_s = now_s + rec->job.requeue_wait_s;
    } else if (ev == EV_WARN) {
        rec->warn_at_s = now_s;
    } else if (ev == EV_UPDATE && rec->job.native_id[0]) {
        rec->limit_at_s = now_s;
    } else if (ev == EV_STALL) {
        rec->stalled_s = now_s;
    } else if (ev == EV_CLAIM) {
        rec->job.beat_s = rec->tell_at_s = now_s;
        rec->is_heard = true;
        if (rec->is_from_claim)
            rec->start_now_s = now_s;
        rec->is_from_claim = false;
    } else if (ev == EV_OPEN) {
        rec->job.beat_s = now_s;
    } else if (ev == EV_GRANT) {
        rec->granted_s = rec->job.native_id[0] ? now_s : (double)NAN;
        rec->is_from_claim = rec->is_from_claim && rec->job.native_id[0];
        rec->ask_at_s = INFINITY;
    } else if (ev == EV_CANCEL || ev == EV_LIMIT ||
               (ev == EV_PREEMPT && rec->job.requeue_asked)) {
        rec->release_at_s = now_s;
        rec->end_asked_s = isnan(rec->end_asked_s) ? now_s : rec->end_asked_s;
        if (rec->job.is_preempted)
            rec->preempted_s = now_s;
    }
}

/* Whether a plan can differ after the event. */
static bool moves_devices(enum job_event ev)
{
    switch (ev) {
    case EV_INTENT: /* the plan itself caused it */
    case EV_UNKNOWN:
    case EV_CLAIM:
    case EV_RUN:
    case EV_STALL:
    case EV_REPORT:
    case EV_LIMIT:
    case EV_PREEMPT:
    case EV_WARN:
    case EV_TIME_80:
    case EV_SAVE_FAILED:
    case EV_OPEN:
        return false;
    default:
        return true;
    }
}

/* Whether the job, or others of its sweep, may have to be cancelled after
 * it. */
static bool may_stop(const struct job_record *rec, enum job_event ev)
{
    return rec->job.stop_on_fail && ev != EV_SUBMIT &&
           !job_state_is_live(rec->job.state);
}

/* Saves the record as it was before the batch; a new record has no earlier
 * state. */
static int save(struct job_record *rec, bool has_past, struct saved *ret,
                struct error *err)
{
    *ret = (struct saved){.record = rec};
    if (!has_past)
        return 0;
    ret->copy = malloc(sizeof(*ret->copy));
    if (!ret->copy)
        return error_set(err, ERR_NOMEM, "out of memory");
    *ret->copy = *rec;
    return 0;
}

/* own  takes detail */
static int push(struct engine *e, struct job_record *rec, struct store_event ev,
                char *detail, struct error *err)
{
    bool is_new = ev.ev == EV_SUBMIT, is_first = !rec->is_saved;
    struct saved s = {.record = NULL};

    ev.detail = detail;
    if (reserve(e, err) < 0 || save(rec, is_first && !is_new, &s, err) < 0 ||
        (is_new ? eng_fold_taken(rec, &ev, err) : eng_fold(rec, &ev, err)) <
            0) {
        free(s.copy);
        free(detail);
        return -1;
    }
    if (is_new)
        rec->ticket = e->staged + 1;
    rec->changed = e->staged + 1;
    if (is_first) {
        e->saved[e->n_saved++] = s;
        rec->is_saved = true;
    }
    set_clocks(e, rec, ev.ev);
    e->events[e->n_events++] = ev;
    e->staged++;
    eng_lists_update(e, rec);
    e->wants_stop = e->wants_stop || may_stop(rec, ev.ev);
    if (rec->is_early)
        e->begin_at_s = -INFINITY;
    e->wants_depends = e->wants_depends || rec->job.n_depends > 0 ||
                       ev.ev == EV_CLAIM || ev.ev == EV_OPEN ||
                       job_state_is_final(rec->job.state);
    e->wants_plan = e->wants_plan || moves_devices(ev.ev) ||
                    (ev.ev == EV_PREEMPT && rec->job.state == JOB_QUEUED);
    return 0;
}

static bool is_end(enum job_event ev)
{
    return ev == EV_FINISH || ev == EV_FAIL || ev == EV_KILLED ||
           ev == EV_EXPIRE || ev == EV_LOST;
}

/* Progress from heartbeats is not stored otherwise, and an ended job gets no
 * more heartbeats. */
static void add_progress(const struct job *job, struct detail *d)
{
    d->iteration = job->iteration;
    d->iterations_total = job->iterations_total;
    d->epoch = job->epoch;
    d->epochs_total = job->epochs_total;
    d->loss = job->loss;
    d->t_iter = job->t_iter;
    d->eval_loss = job->eval_loss;
    d->eval_accuracy = job->eval_accuracy;
}

int eng_stage(struct engine *e, struct job_record *rec, enum job_event ev,
              int64_t uid, const struct detail *d, struct error *err)
{
    char *text = NULL;
    struct store_event event = {
        .job = rec->job.id,
        .attempt = rec->job.attempt + job_event_begins(ev),
        .ev = ev,
        .at_s = eng_wall(e),
        .uid = uid,
    };
    struct detail said = DETAIL_INIT;
    if (d)
        said = *d;
    if (is_end(ev))
        add_progress(&rec->job, &said);
    if (detail_encode(&said, &text, err) < 0)
        return -1;
    return push(e, rec, event, text, err);
}

int eng_stage_submit(struct engine *e, struct job_record *rec, char *text,
                     struct error *err)
{
    const struct store_event event = {
        .job = rec->job.id,
        .ev = EV_SUBMIT,
        .at_s = eng_wall(e),
        .uid = rec->job.uid,
    };
    return push(e, rec, event, text, err);
}

void eng_stage_undo(struct engine *e, size_t n)
{
    while (e->n_saved > 0 && e->n_events > n) {
        struct saved *s = &e->saved[--e->n_saved];
        assert(!s->copy);
        eng_remove(e, s->record);
        /* Its submit, and possibly a limit and a hold. */
        do {
            e->n_events--;
            e->staged--;
            free((char *)e->events[e->n_events].detail);
        } while (e->events[e->n_events].ev != EV_SUBMIT);
    }
}
