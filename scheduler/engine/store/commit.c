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
static const char *if_known(const struct job_record *rec, const char *s)
{
    return rec->has_no_submit ? NULL : s;
}

static struct store_job job_row(const struct job_record *rec)
{
    const struct job *job = &rec->job;
    return (struct store_job){
        .id = job->id,
        .name = if_known(rec, job->name),
        .user = if_known(rec, job->user),
        .kind = if_known(rec, job->kind),
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
        .idempotency_key = if_known(rec, rec->own.key),
        .spec = if_known(rec, rec->own.spec),
        .dir = if_known(rec, job->dir),
        .parent = job->parent,
    };
}

static struct store_attempt attempt_row(const struct engine *e,
                                        const struct job_record *rec)
{
    const struct job *job = &rec->job;
    return (struct store_attempt){
        .job = job->id,
        .attempt = job->attempt,
        .state = job_state_name(rec->attempt_state),
        .native_id = or_null(job->native_id),
        .place = or_null(job->place),
        .reason = or_null(job->reason),
        .class = rec->own.class,
        .program = rec->own.program,
        .gpus = job->gpus,
        .nodes = job->nodes,
        .exit_code = rec->attempt_exit,
        .signal = rec->attempt_signal,
        .intent_s = job->intent_s,
        .claim_s = job->claim_s,
        .run_s = job->run_s,
        .end_s = rec->attempt_end_s,
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
static size_t pick(struct engine *e, struct job_record **ret)
{
    size_t n = 0, n_reasons = 0;
    struct job_record *rec = e->lists.dirty_first;

    for (; n < e->n_saved; n++)
        ret[n] = e->saved[n].record;
    for (; rec && n_reasons < REASONS_PER_BATCH; rec = rec->places.dirty_next) {
        if (rec->is_saved)
            continue;
        n_reasons++;
        ret[n++] = rec;
    }
    return n;
}

/* ---- send -----------------------------------------------------------------
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

static void batch_clear(struct engine_batch *f)
{
    events_free(f->rows.events, f->rows.n_events);
    saved_free(f->saved, f->n_saved);
    free(f->copies);
    free(f->jobs);
    for (size_t i = 0; i < f->rows.n_attempts; i++)
        free((char *)f->attempts[i].account);
    free(f->attempts);
    eng_leaving_free(f->archived, f->rows.n_archived);
    *f = (struct engine_batch){.is_sent = false};
}

/* Reserves the largest possible number of rows. */
static int batch_reserve(struct engine_batch *f, size_t n, struct error *err)
{
    f->copies = malloc(n * sizeof(*f->copies));
    f->jobs = malloc(n * sizeof(*f->jobs));
    f->attempts = malloc(n * sizeof(*f->attempts));
    return f->copies && f->jobs && f->attempts
               ? 0
               : error_set(err, ERR_NOMEM, "out of memory");
}

/* A run has no attempt in the sense of the table: no devices, nothing to be
 * accounted. After its attempt has ended, changes of a job no longer concern
 * that attempt. saved: the job as the previous batch left it; NULL: no event
 * changed it. */
static bool has_attempt(const struct job_record *rec, const struct saved *saved)
{
    const struct job_record *before = saved ? saved->copy : NULL;

    if (rec->job.attempt == 0 || rec->is_corrupt || rec->job.is_run)
        return false;
    if (!saved)
        return job_state_is_live(rec->job.state);
    return !before || before->job.attempt != rec->job.attempt ||
           isnan(before->attempt_end_s);
}

static void add_rows(struct engine *e, struct job_record **picked, size_t n)
{
    struct engine_batch *f = &e->batch;

    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = picked[i], *copy = &f->copies[i];
        const struct saved *saved = i < e->n_saved ? &e->saved[i] : NULL;
        *copy = *rec;
        f->jobs[i] = job_row(copy);
        if (has_attempt(copy, saved)) {
            struct store_attempt row = attempt_row(e, copy);
            /* Reloads free a default account, whatever is on its way. */
            row.account = row.account ? strdup(row.account) : NULL;
            f->attempts[f->rows.n_attempts++] = row;
        }
        rec->is_saved = false;
        eng_clear_dirty(e, rec);
    }
    f->rows.n_jobs = n;
    f->rows.jobs = f->jobs;
    f->rows.attempts = f->attempts;
}

int eng_commit_send(struct engine *e, struct error *err)
{
    struct engine_batch *f = &e->batch;
    size_t cap = e->n_saved + REASONS_PER_BATCH;
    struct job_record **picked = malloc(cap * sizeof(struct job_record *));

    assert(!f->is_sent);
    if (!picked || batch_reserve(f, cap, err) < 0) {
        free(picked);
        batch_clear(f);
        eng_commit_roll_back(e);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    add_rows(e, picked, pick(e, picked));
    free(picked);
    f->rows.events = e->events;
    f->rows.n_events = e->n_events;
    f->rows.archived = f->archived = e->leaving;
    f->rows.n_archived = e->n_leaving;
    e->leaving = NULL;
    e->n_leaving = 0;
    f->saved = e->saved;
    f->n_saved = e->n_saved;
    f->ticket = e->staged;
    f->is_sent = true;
    e->events = NULL;
    e->saved = NULL;
    e->n_events = e->cap_events = e->n_saved = e->cap_saved = 0;
    return 0;
}

/* ---- land -----------------------------------------------------------------
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
void eng_commit_land(struct engine *e)
{
    struct engine_batch f = e->batch;

    e->batch = (struct engine_batch){.is_sent = false};
    e->durable = f.is_sent ? f.ticket : e->staged;
    drop_handled(&e->inbox);
    eng_compact(e);
    eng_archived(e, f.archived, f.rows.n_archived);
    for (size_t i = 0; i < f.rows.n_events; i++) {
        struct job_record *rec = eng_find(e, f.rows.events[i].job);
        assert(rec);
        eng_costs_note(e, rec, &f.rows.events[i]);
        eng_refusals_note(e, rec, &f.rows.events[i]);
        eng_models_note(e, rec, &f.rows.events[i]);
        eng_fair_note(e, rec, &f.rows.events[i]);
        if (e->on_event)
            e->on_event(e->event_arg, &f.rows.events[i], &rec->job);
    }
    batch_clear(&f);
}

/* ---- roll back
 * -----------------------------------------------------------------
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
    to->eval_loss = from->eval_loss;
    to->eval_accuracy = from->eval_accuracy;
    to->tokenised = from->tokenised;
}

/* Nor is its progress: the store may have taken long to fail. */
static void keep_beats(struct job_record *to, const struct job_record *from)
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
            eng_remove(e, s->record);
            continue;
        }
        struct job_record *next =
            s->record->next_by_key;               /* other records of the
                                                     bucket may have moved */
        int32_t n_over = s->record->n_tasks_over; /* or ended */
        struct list_places places = s->record->places;
        struct fair_charge charge = s->record->charge; /* what is durable */
        if (s->record->job.attempt == s->copy->job.attempt)
            keep_beats(s->copy, s->record);
        names_kept_drop(&s->record->kept, s->copy->kept);
        *s->record = *s->copy;
        s->record->next_by_key = next;
        s->record->n_tasks_over = n_over;
        s->record->is_saved = false;
        s->record->places = places;
        s->record->charge = charge;
        eng_lists_update(e, s->record);
    }
}

/* The rows of these jobs were not stored, and go with another batch; readers
 * may have seen what is undone. */
static void tell_rolled_back(struct engine *e, const struct engine_batch *f)
{
    for (size_t i = 0; i < f->rows.n_jobs; i++) {
        struct job_record *rec = eng_find(e, f->copies[i].job.id);
        if (!rec)
            continue;
        eng_mark_dirty(e, rec);
        if (e->on_wait)
            e->on_wait(e->wait_arg, &rec->job);
    }
}

void eng_commit_roll_back(struct engine *e)
{
    struct engine_batch f = e->batch;

    e->batch = (struct engine_batch){.is_sent = false};
    put_back(e, e->saved, e->n_saved);
    put_back(e, f.saved, f.n_saved);
    events_free(e->events, e->n_events);
    saved_free(e->saved, e->n_saved);
    e->events = NULL;
    e->saved = NULL;
    e->n_events = e->cap_events = e->n_saved = e->cap_saved = 0;
    e->wants_depends = e->wants_stop = true;
    if (e->lists.early.n > 0) /* a job whose begin time passed may be early
                                 again */
        e->begin_at_s = fmin(e->begin_at_s, eng_now(e) + 1);
    e->rolled_back = e->staged;
    memset(e->inbox.handled, 0, e->inbox.n * sizeof(bool));
    tell_rolled_back(e, &f);
    batch_clear(&f);
}

void eng_commit_clear(struct engine *e)
{
    events_free(e->events, e->n_events);
    saved_free(e->saved, e->n_saved);
    batch_clear(&e->batch);
}
