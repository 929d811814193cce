/* commit.c - hand a batch to the store, and complete or undo it.
 *
 * A batch is handed over as a whole, and the disk may take its time: events
 * that are staged meanwhile gather for the next batch, on top of the changes of
 * the batch in progress. Each batch has its own copies of the jobs that it
 * changed first, as they were before it. So when the store fails the batch in
 * progress, both are undone, the later one first: a request on top of a change
 * that did not happen did not happen either.
 *
 * What the store reads is its own copy (the events and their details, copies of
 * the jobs) or is fixed from the submit on (spec, key, directory). While a
 * batch is in progress, no job leaves memory except those that an earlier batch
 * has archived.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/store/archive_list.h"

/* ---- rows --------------------------------------------------------------- */
static const char *or_null(const char *s)
{
    return s && s[0] ? s : NULL;
}

/* A job whose values could not be read keeps those in its row. */
static const char *if_known(const struct entry *en, const char *s)
{
    return en->has_no_submit ? NULL : s;
}

static struct store_job job_row(const struct entry *en)
{
    const struct job *job = &en->job;
    return (struct store_job){
        .id = job->id,
        .name = if_known(en, job->name),
        .user = if_known(en, job->user),
        .kind = if_known(en, job->kind),
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
        .idempotency_key = if_known(en, en->own.key),
        .spec = if_known(en, en->own.spec),
        .dir = if_known(en, job->dir),
    };
}

static struct store_attempt attempt_row(const struct engine *e,
                                        const struct entry *en)
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
        .resized_from =
            isnan(job->resize.checkpoint_s) ? 0 : job->resize.cost_from,
        .checkpoint_s = job->resize.checkpoint_s,
        .allocator_s = job->resize.allocator_s,
        .start_s = job->resize.start_s,
        .cause = or_null(job->cause),
        .needed_bytes = job->needed_bytes,
        .available_bytes = job->available_bytes,
        .gpu_type = or_null(job->on_type),
        .account = eng_account(e->parts.conf, job),
    };
}

/* Reasons that changed without an event are stored along, but not all of a long
 * queue with each batch: a row costs 10 us plus the bytes of its spec. */
enum { REASONS_PER_BATCH = 64 };

/* The jobs that get a row: those that changed, and those whose reason waited
 * longest. ret[n_saved + REASONS_PER_BATCH] */
static size_t pick(struct engine *e, struct entry **ret)
{
    size_t n = 0, n_reasons = 0;
    struct entry *en = e->files.dirty_first;

    for (; n < e->n_saved; n++)
        ret[n] = e->saved[n].entry;
    for (; en && n_reasons < REASONS_PER_BATCH; en = en->filed.dirty_next) {
        if (en->is_saved)
            continue;
        n_reasons++;
        ret[n++] = en;
    }
    return n;
}

/* ---- departure ------------------------------------------------------------
 */
static void events_free(struct store_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)events[i].detail);
    free(events);
}

static void saved_free(struct saved *saved, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(saved[i].copy);
    free(saved);
}

static void flight_clear(struct flight *f)
{
    events_free(f->batch.events, f->batch.n_events);
    saved_free(f->saved, f->n_saved);
    free(f->copies);
    free(f->jobs);
    for (size_t i = 0; i < f->batch.n_attempts; i++)
        free((char *)f->attempts[i].account);
    free(f->attempts);
    eng_leaving_free(f->archived, f->batch.n_archived);
    *f = (struct flight){.is_up = false};
}

/* Reserves the largest possible number of rows. */
static int flight_reserve(struct flight *f, size_t n, struct error *err)
{
    f->copies = malloc(n * sizeof(*f->copies));
    f->jobs = malloc(n * sizeof(*f->jobs));
    f->attempts = malloc(n * sizeof(*f->attempts));
    return f->copies && f->jobs && f->attempts
               ? 0
               : error_set(err, ERR_NOMEM, "out of memory");
}

/* After its attempt has ended, changes of a job no longer concern that attempt.
 * saved: the job as the previous batch left it; NULL: no event changed it. */
static bool has_attempt(const struct entry *en, const struct saved *saved)
{
    const struct entry *before = saved ? saved->copy : NULL;

    if (en->job.attempt == 0 || en->is_corrupt)
        return false;
    if (!saved)
        return job_state_is_live(en->job.state);
    return !before || before->job.attempt != en->job.attempt ||
           isnan(before->attempt_end_s);
}

static void add_rows(struct engine *e, struct entry **picked, size_t n)
{
    struct flight *f = &e->flight;

    for (size_t i = 0; i < n; i++) {
        struct entry *en = picked[i], *copy = &f->copies[i];
        const struct saved *saved = i < e->n_saved ? &e->saved[i] : NULL;
        *copy = *en;
        f->jobs[i] = job_row(copy);
        if (has_attempt(copy, saved)) {
            struct store_attempt row = attempt_row(e, copy);
            /* Reloads free a default account, whatever is in flight. */
            row.account = row.account ? strdup(row.account) : NULL;
            f->attempts[f->batch.n_attempts++] = row;
        }
        en->is_saved = false;
        eng_clear_dirty(e, en);
    }
    f->batch.n_jobs = n;
    f->batch.jobs = f->jobs;
    f->batch.attempts = f->attempts;
}

int eng_depart(struct engine *e, struct error *err)
{
    struct flight *f = &e->flight;
    size_t cap = e->n_saved + REASONS_PER_BATCH;
    struct entry **picked = malloc(cap * sizeof(struct entry *));

    assert(!f->is_up);
    if (!picked || flight_reserve(f, cap, err) < 0) {
        free(picked);
        flight_clear(f);
        eng_undo(e);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    add_rows(e, picked, pick(e, picked));
    free(picked);
    f->batch.events = e->events;
    f->batch.n_events = e->n_events;
    f->batch.archived = f->archived = e->leaving;
    f->batch.n_archived = e->n_leaving;
    e->leaving = NULL;
    e->n_leaving = 0;
    f->saved = e->saved;
    f->n_saved = e->n_saved;
    f->ticket = e->staged;
    f->is_up = true;
    e->events = NULL;
    e->saved = NULL;
    e->n_events = e->cap_events = e->n_saved = e->cap_saved = 0;
    return 0;
}

/* ---- arrival --------------------------------------------------------------
 */
static void drop_handled(struct inbox *in)
{
    size_t n = 0;

    for (size_t i = 0; i < in->n; i++) {
        if (!in->handled[i])
            in->notes[n++] = in->notes[i];
    }
    memset(in->handled, 0, in->n * sizeof(bool));
    in->n = n;
}

/* The callback may stage again, so the batch is removed first. */
void eng_arrive(struct engine *e)
{
    struct flight f = e->flight;

    e->flight = (struct flight){.is_up = false};
    e->durable = f.is_up ? f.ticket : e->staged;
    drop_handled(&e->inbox);
    eng_compact(e);
    eng_archived(e, f.archived, f.batch.n_archived);
    for (size_t i = 0; i < f.batch.n_events; i++) {
        const struct entry *en = eng_find(e, f.batch.events[i].job);
        assert(en);
        eng_costs_note(e, en, &f.batch.events[i]);
        eng_refusals_note(e, en, &f.batch.events[i]);
        eng_models_note(e, en, &f.batch.events[i]);
        if (e->on_event)
            e->on_event(e->event_arg, &f.batch.events[i], &en->job);
    }
    flight_clear(&f);
}

/* ---- undo -----------------------------------------------------------------
 */
/* Values from heartbeats are not part of a batch. */
static void keep_figures(struct job *to, const struct job *from)
{
    to->beat_s = from->beat_s;
    to->iteration = from->iteration;
    to->iterations_total = from->iterations_total;
    to->epoch = from->epoch;
    to->epochs_total = from->epochs_total;
    to->loss = from->loss;
    to->t_iter = from->t_iter;
    to->eval_accuracy = from->eval_accuracy;
    to->tokenised = from->tokenised;
}

/* Nor is its progress: the store may have taken long to fail. */
static void keep_beats(struct entry *to, const struct entry *from)
{
    keep_figures(&to->job, &from->job);
    to->pace_of = from->pace_of;
    to->pace_iteration = from->pace_iteration;
    to->pace_s = from->pace_s;
    to->work = from->work;
    to->saves = from->saves;
    to->moved_s = from->moved_s;
    to->step_s = from->step_s;
    memcpy(to->steps_s, from->steps_s, sizeof(to->steps_s));
    to->n_steps = from->n_steps;
}

static void put_back(struct engine *e, const struct saved *saved, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        const struct saved *s = &saved[i];
        if (!s->copy) {
            eng_remove(e, s->entry);
            continue;
        }
        struct entry *next = s->entry->next_by_key; /* other entries of the
                                                       bucket may have moved */
        int32_t n_over = s->entry->n_tasks_over;    /* or ended */
        struct filed filed = s->entry->filed;
        if (s->entry->job.attempt == s->copy->job.attempt)
            keep_beats(s->copy, s->entry);
        names_kept_drop(&s->entry->kept, s->copy->kept);
        *s->entry = *s->copy;
        s->entry->next_by_key = next;
        s->entry->n_tasks_over = n_over;
        s->entry->is_saved = false;
        s->entry->filed = filed;
        eng_file(e, s->entry);
    }
}

/* The rows of these jobs were not stored, and go with another batch; readers
 * may have seen what is undone. */
static void tell_undone(struct engine *e, const struct flight *f)
{
    for (size_t i = 0; i < f->batch.n_jobs; i++) {
        struct entry *en = eng_find(e, f->copies[i].job.id);
        if (!en)
            continue;
        eng_mark_dirty(e, en);
        if (e->on_wait)
            e->on_wait(e->wait_arg, &en->job);
    }
}

void eng_undo(struct engine *e)
{
    struct flight f = e->flight;

    e->flight = (struct flight){.is_up = false};
    put_back(e, e->saved, e->n_saved);
    put_back(e, f.saved, f.n_saved);
    events_free(e->events, e->n_events);
    saved_free(e->saved, e->n_saved);
    e->events = NULL;
    e->saved = NULL;
    e->n_events = e->cap_events = e->n_saved = e->cap_saved = 0;
    e->wants_depends = e->wants_stop = true;
    if (e->files.early.n > 0) /* a job whose begin time passed may be early
                                 again */
        e->begin_at_s = fmin(e->begin_at_s, eng_now(e) + 1);
    e->undone = e->staged;
    memset(e->inbox.handled, 0, e->inbox.n * sizeof(bool));
    tell_undone(e, &f);
    flight_clear(&f);
}

void eng_commit_clear(struct engine *e)
{
    events_free(e->events, e->n_events);
    saved_free(e->saved, e->n_saved);
    flight_clear(&e->flight);
}
