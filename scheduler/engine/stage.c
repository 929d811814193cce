/* stage.c - the one road of every change: stage, then commit or undo.
 *
 * Staging folds at once, so that the next request of the same batch sees
 * what this one did. Tickets are counted per event; one number is enough,
 * because a batch becomes durable, or is undone, as a whole.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/core.h"

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

/* Clocks that start or stop with the event; a replay sets them from the
 * stored times instead. */
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
        en->stalled_s = en->granted_s = NAN;
        en->tell_at_s = INFINITY;
        en->is_heard = true; /* there is nothing to be heard yet */
    } else if (ev == EV_REQUEUE && en->job.requeue_wait_s > 0) {
        en->not_before_s = now_s + en->job.requeue_wait_s;
    } else if (ev == EV_STALL) {
        en->stalled_s = now_s;
    } else if (ev == EV_CLAIM) {
        en->job.beat_s = en->tell_at_s = now_s;
        en->is_heard = true;
    } else if (ev == EV_GRANT) {
        en->granted_s = en->job.native_id[0] ? now_s : (double)NAN;
        en->ask_at_s = INFINITY;
    } else if (ev == EV_CANCEL || ev == EV_LIMIT) {
        en->release_at_s = now_s;
    }
}

/* Can a plan look different after it? */
static bool moves_devices(enum job_event ev)
{
    switch (ev) {
    case EV_INTENT: /* that was the plan */
    case EV_UNKNOWN:
    case EV_CLAIM:
    case EV_RUN:
    case EV_STALL:
    case EV_REPORT:
    case EV_LIMIT:
        return false;
    default:
        return true;
    }
}

/* Owns detail. */
static int push(struct engine *e, struct entry *en, struct store_event ev,
                char *detail, struct error *err)
{
    struct saved s = {.entry = en, .copy = *en, .is_new = ev.ev == EV_SUBMIT};

    ev.detail = detail;
    if (reserve(e, err) < 0 || eng_fold(en, &ev, err) < 0) {
        free(detail);
        return -1;
    }
    if (!en->is_saved) {
        e->saved[e->n_saved++] = s;
        en->is_saved = true;
    }
    set_clocks(e, en, ev.ev);
    e->events[e->n_events++] = ev;
    e->staged++;
    e->is_ranked = false;
    e->wants_depends = e->wants_depends || en->job.n_depends > 0 ||
                       job_state_is_final(en->job.state);
    e->wants_plan = e->wants_plan || moves_devices(ev.ev);
    return 0;
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
    if (d && detail_encode(d, &text, err) < 0)
        return -1;
    return push(e, en, event, text, err);
}

int eng_stage_submit(struct engine *e, struct entry *en, const struct job *job,
                     struct error *err)
{
    char *text;
    struct store_event event = {
        .job = en->job.id,
        .ev = EV_SUBMIT,
        .at_s = eng_wall(e),
        .uid = job->uid,
    };
    if (submit_encode(job, en->own.class, &text, err) < 0)
        return -1;
    return push(e, en, event, text, err);
}

bool eng_set_reason(struct entry *en, const char *reason)
{
    char clean[JOB_REASON_CAP];

    text_copy(clean, sizeof(clean), reason);
    if (strcmp(en->job.reason, clean) == 0)
        return false;
    memcpy(en->job.reason, clean, sizeof(clean));
    en->is_dirty = true;
    return true;
}

/* ---- rows --------------------------------------------------------------- */
static const char *or_null(const char *s)
{
    return s && s[0] ? s : NULL;
}

static struct store_job job_row(const struct entry *en)
{
    const struct job *job = &en->job;
    return (struct store_job){
        .id = job->id,
        .name = job->name,
        .user = job->user,
        .kind = job->kind,
        .uid = job->uid,
        .state = job_state_name(job->state),
        .reason = or_null(job->reason),
        .priority = job->priority,
        .gpus_min = job->gpus_min,
        .gpus_max = job->gpus_max,
        .gpus = job->gpus,
        .attempt = job->attempt,
        .exit_code = job->exit_code,
        .submit_s = job->submit_s,
        .start_s = job->start_s,
        .end_s = job->end_s,
        .idempotency_key = en->own.key,
        .spec = en->own.spec,
        .dir = job->dir,
    };
}

static struct store_attempt attempt_row(const struct entry *en)
{
    const struct job *job = &en->job;
    return (struct store_attempt){
        .job = job->id,
        .attempt = job->attempt,
        .state = job_state_name(en->attempt_state),
        .native_id = or_null(job->native_id),
        .place = or_null(job->place),
        .reason = or_null(job->reason),
        .class = en->own.class,
        .gpus = job->gpus,
        .nodes = job->nodes,
        .exit_code = en->attempt_exit,
        .signal = en->attempt_signal,
        .intent_s = job->intent_s,
        .claim_s = job->claim_s,
        .run_s = job->run_s,
        .end_s = en->attempt_end_s,
    };
}

/* Reasons that changed without an event go along, but not all of a long
 * queue with each batch: a row costs 10 us and its spec's bytes. */
enum { REASONS_PER_BATCH = 64 };

/* Those whose turn it is, by id from where the last batch ended, are marked;
 * returns how many. */
static size_t pick_reasons(struct engine *e)
{
    size_t n = 0, first = 0;

    while (first < e->n_active && e->active[first]->job.id <= e->reasons_to)
        first++;
    for (size_t i = 0; i < e->n_active; i++) {
        struct entry *en = e->active[(first + i) % e->n_active];
        en->is_picked = en->is_dirty && !en->is_saved && n < REASONS_PER_BATCH;
        if (en->is_picked) {
            n++;
            e->reasons_to = en->job.id;
        }
    }
    return n;
}

static bool has_row(const struct entry *en)
{
    return en->is_saved || en->is_picked;
}

static int append(struct engine *e, struct error *err)
{
    size_t n = e->n_saved + pick_reasons(e);
    struct store_job *jobs = calloc(n + 1, sizeof(*jobs));
    struct store_attempt *attempts = calloc(n + 1, sizeof(*attempts));
    struct store_batch batch = {.events = e->events,
                                .n_events = e->n_events,
                                .jobs = jobs,
                                .attempts = attempts};
    int rc = jobs && attempts ? 0 : error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < e->n_active; i++) {
        const struct entry *en = e->active[i];
        if (!has_row(en))
            continue;
        jobs[batch.n_jobs++] = job_row(en);
        if (en->job.attempt > 0 &&
            (en->is_saved || job_state_is_live(en->job.state)))
            attempts[batch.n_attempts++] = attempt_row(en);
    }
    assert(batch.n_jobs <= n);
    if (rc == 0)
        rc = e->parts.store->ops->append(e->parts.store, &batch, err);
    free(jobs);
    free(attempts);
    return rc;
}

/* ---- commit and undo ------------------------------------------------------
 */
static void events_free(struct store_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)events[i].detail);
}

/* What heartbeats said is no part of a batch. */
static void keep_beats(struct job *to, const struct job *from)
{
    to->beat_s = from->beat_s;
    to->iteration = from->iteration;
    to->iterations_total = from->iterations_total;
    to->epoch = from->epoch;
    to->epochs_total = from->epochs_total;
    to->loss = from->loss;
    to->t_iter = from->t_iter;
    to->eval_accuracy = from->eval_accuracy;
}

static void undo(struct engine *e)
{
    for (size_t i = 0; i < e->n_active; i++)
        e->active[i]->is_picked = false;
    for (size_t i = e->n_saved; i-- > 0;) {
        struct saved *s = &e->saved[i];
        if (s->is_new) {
            eng_remove(e, s->entry);
            continue;
        }
        struct entry *next = s->entry->next_by_key; /* others may have moved */
        if (s->entry->job.attempt == s->copy.job.attempt)
            keep_beats(&s->copy.job, &s->entry->job);
        *s->entry = s->copy;
        s->entry->next_by_key = next;
        s->entry->is_saved = false;
    }
    e->n_saved = 0;
    e->is_ranked = false;
    e->wants_depends = true;
    events_free(e->events, e->n_events);
    e->n_events = 0;
    e->undone = e->staged;
    for (size_t i = 0; i < e->inbox.n; i++)
        e->inbox.handled[i] = false;
}

static void settle(struct engine *e)
{
    size_t n = 0;

    e->durable = e->staged;
    for (size_t i = 0; i < e->n_active; i++) {
        struct entry *en = e->active[i];
        if (en->is_saved || en->is_picked)
            en->is_dirty = false;
        en->is_saved = en->is_picked = false;
    }
    e->n_saved = 0;
    for (size_t i = 0; i < e->inbox.n; i++) {
        if (!e->inbox.handled[i])
            e->inbox.notes[n++] = e->inbox.notes[i];
    }
    memset(e->inbox.handled, 0, e->inbox.n * sizeof(bool));
    e->inbox.n = n;
}

/* The callback may stage again, so the batch is taken out first. */
static void deliver(struct engine *e)
{
    struct store_event *events = e->events;
    size_t n = e->n_events;

    e->events = NULL;
    e->n_events = e->cap_events = 0;
    for (size_t i = 0; e->on_event && i < n; i++) {
        const struct entry *en = eng_find(e, events[i].job);
        assert(en);
        e->on_event(e->event_arg, &events[i], &en->job);
    }
    events_free(events, n);
    free(events);
}

int eng_commit(struct engine *e, struct error *err)
{
    if (e->n_events > 0 && append(e, err) < 0) {
        undo(e);
        return -1;
    }
    settle(e);
    eng_compact(e);
    deliver(e);
    return 0;
}
