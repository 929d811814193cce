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
static void set_clocks(const struct engine *e, struct entry *en,
                       enum job_event ev)
{
    double now_s = eng_now(e);

    if (isnan(en->job.start_s))
        en->start_now_s = NAN;
    else if (isnan(en->start_now_s))
        en->start_now_s = now_s;
    if (ev == EV_INTENT) {
        en->ask_at_s = now_s;
        en->release_at_s = now_s;
        en->give_up = NULL;
        en->asked_before = en->is_resumed = en->is_held = false;
        en->is_over_size = false;
        en->is_suspended = en->is_by_wall = en->is_from_claim = false;
        en->stalled_s = en->granted_s = en->told_s = NAN;
        en->moved_s = en->step_s = NAN;
        en->saves = false;
        en->n_steps = 0;
        en->is_stuck = false;
        en->tell_at_s = en->warn_at_s = en->limit_at_s = INFINITY;
        en->is_heard = true; /* a new attempt cannot have ended unseen */
    } else if (ev == EV_REQUEUE && en->job.requeue_wait_s > 0) {
        en->not_before_s = now_s + en->job.requeue_wait_s;
    } else if (ev == EV_WARN) {
        en->warn_at_s = now_s;
    } else if (ev == EV_UPDATE && en->job.native_id[0]) {
        en->limit_at_s = now_s;
    } else if (ev == EV_STALL) {
        en->stalled_s = now_s;
    } else if (ev == EV_CLAIM) {
        en->job.beat_s = en->tell_at_s = now_s;
        en->is_heard = true;
        if (en->is_from_claim)
            en->start_now_s = now_s;
        en->is_from_claim = false;
    } else if (ev == EV_GRANT) {
        en->granted_s = en->job.native_id[0] ? now_s : (double)NAN;
        en->is_from_claim = en->is_from_claim && en->job.native_id[0];
        en->ask_at_s = INFINITY;
    } else if (ev == EV_CANCEL || ev == EV_LIMIT ||
               (ev == EV_PREEMPT && en->job.requeue_asked)) {
        en->release_at_s = now_s;
        en->told_s = isnan(en->told_s) ? now_s : en->told_s;
        if (en->job.is_preempted)
            en->preempted_s = now_s;
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
        return false;
    default:
        return true;
    }
}

/* Whether the job, or others of its sweep, may have to be cancelled after
 * it. */
static bool may_stop(const struct entry *en, enum job_event ev)
{
    return en->job.stop_on_fail && ev != EV_SUBMIT &&
           !job_state_is_live(en->job.state);
}

/* Saves the entry as it was before the batch; a new entry has no earlier
 * state. */
static int save(struct entry *en, bool has_past, struct saved *ret,
                struct error *err)
{
    *ret = (struct saved){.entry = en};
    if (!has_past)
        return 0;
    ret->copy = malloc(sizeof(*ret->copy));
    if (!ret->copy)
        return error_set(err, ERR_NOMEM, "out of memory");
    *ret->copy = *en;
    return 0;
}

/* own  takes detail */
static int push(struct engine *e, struct entry *en, struct store_event ev,
                char *detail, struct error *err)
{
    bool is_new = ev.ev == EV_SUBMIT, is_first = !en->is_saved;
    struct saved s = {.entry = NULL};

    ev.detail = detail;
    if (reserve(e, err) < 0 || save(en, is_first && !is_new, &s, err) < 0 ||
        (is_new ? eng_fold_taken(en, &ev, err) : eng_fold(en, &ev, err)) < 0) {
        free(s.copy);
        free(detail);
        return -1;
    }
    if (is_new)
        en->ticket = e->staged + 1;
    en->changed = e->staged + 1;
    if (is_first) {
        e->saved[e->n_saved++] = s;
        en->is_saved = true;
    }
    set_clocks(e, en, ev.ev);
    e->events[e->n_events++] = ev;
    e->staged++;
    eng_file(e, en);
    e->wants_stop = e->wants_stop || may_stop(en, ev.ev);
    if (en->is_early)
        e->begin_at_s = -INFINITY;
    e->wants_depends = e->wants_depends || en->job.n_depends > 0 ||
                       ev.ev == EV_CLAIM || job_state_is_final(en->job.state);
    e->wants_plan = e->wants_plan || moves_devices(ev.ev) ||
                    (ev.ev == EV_PREEMPT && en->job.state == JOB_QUEUED);
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
    d->eval_accuracy = job->eval_accuracy;
}

int eng_stage(struct engine *e, struct entry *en, enum job_event ev,
              int64_t uid, const struct detail *d, struct error *err)
{
    char *text = NULL;
    struct store_event event = {
        .job = en->job.id,
        .attempt = en->job.attempt + (ev == EV_INTENT),
        .ev = ev,
        .at_s = eng_wall(e),
        .uid = uid,
    };
    struct detail said = DETAIL_INIT;
    if (d)
        said = *d;
    if (is_end(ev))
        add_progress(&en->job, &said);
    if (detail_encode(&said, &text, err) < 0)
        return -1;
    return push(e, en, event, text, err);
}

int eng_stage_submit(struct engine *e, struct entry *en, char *text,
                     struct error *err)
{
    const struct store_event event = {
        .job = en->job.id,
        .ev = EV_SUBMIT,
        .at_s = eng_wall(e),
        .uid = en->job.uid,
    };
    return push(e, en, event, text, err);
}

void eng_unstage(struct engine *e, size_t n)
{
    while (e->n_saved > 0 && e->n_events > n) {
        struct saved *s = &e->saved[--e->n_saved];
        assert(!s->copy);
        eng_remove(e, s->entry);
        /* Its submit, and possibly a limit and a hold. */
        do {
            e->n_events--;
            e->staged--;
            free((char *)e->events[e->n_events].detail);
        } while (e->events[e->n_events].ev != EV_SUBMIT);
    }
}
