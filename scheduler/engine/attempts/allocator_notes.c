/* allocator_notes.c - turn the notes of the allocator into events.
 *
 * A note stays in the inbox until its events are durable; after a failed commit
 * the engine builds the batch again from the inbox. The engine drops a note
 * about an attempt that is over, so the same note may come any number of times.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/update.h"

enum { CHUNK = 64 };

static int inbox_reserve(struct inbox *in, struct error *err)
{
    if (in->n + CHUNK <= in->cap)
        return 0;
    size_t cap = in->cap > 0 ? 2 * in->cap : (size_t)2 * CHUNK;
    struct alloc_note *notes = realloc(in->notes, cap * sizeof(*notes));
    if (notes)
        in->notes = notes;
    bool *handled = realloc(in->handled, cap * sizeof(*handled));
    if (handled)
        in->handled = handled;
    if (!notes || !handled)
        return error_set(err, ERR_NOMEM, "out of memory");
    memset(handled + in->n, 0, (cap - in->n) * sizeof(*handled));
    in->cap = cap;
    return 0;
}

int eng_notes_poll(struct engine *e, struct error *err)
{
    struct alloc *a = e->parts.alloc;
    struct inbox *in = &e->inbox;
    size_t n;

    do {
        if (inbox_reserve(in, err) < 0 ||
            a->ops->poll(a, in->notes + in->n, CHUNK, &n, err) < 0)
            return -1;
        memset(in->handled + in->n, 0, n * sizeof(*in->handled));
        in->n += n;
    } while (n == CHUNK);
    return 0;
}

/* Suspended ranks do not work and send no heartbeats: all clocks stop
 * meanwhile. */
static void set_suspended(struct engine *e, struct job_record *rec,
                          bool is_suspended)
{
    static const char reason[] = "Slurm(Suspended)";
    double now_s = eng_now(e);

    if (rec->is_suspended == is_suspended)
        return;
    rec->is_suspended = is_suspended;
    if (is_suspended) {
        rec->suspended_s = now_s;
    } else {
        rec->start_now_s += now_s - rec->suspended_s;
        rec->granted_s += now_s - rec->suspended_s;
        rec->stalled_s = rec->job.beat_s = now_s;
        eng_stall_moved(rec, now_s);
        rec->pace_of = 0; /* the pause must not count as step time */
    }
    if ((is_suspended ? rec->job.reason[0] == '\0'
                      : strcmp(rec->job.reason, reason) == 0) &&
        eng_set_reason(e, rec, is_suspended ? reason : "") && e->on_wait)
        e->on_wait(e->wait_arg, &rec->job);
}

static int granted(struct engine *e, struct job_record *rec,
                   const struct alloc_note *note, struct error *err)
{
    struct detail d = DETAIL_INIT;
    bool is_change = rec->is_suspended != note->is_suspended;

    rec->ask_at_s = (double)__builtin_inff();
    rec->is_heard = true;
    text_copy(d.native_id, sizeof(d.native_id), note->native_id);
    text_copy(d.place, sizeof(d.place), note->place);
    text_copy(d.gpu_type, sizeof(d.gpu_type),
              eng_type_at(e, &rec->job, note->place));
    if (is_change) {
        d.stopped = note->is_suspended;
        text_copy(d.why, sizeof(d.why),
                  note->is_suspended ? "suspended" : "goes on");
    }
    if ((is_change || strcmp(rec->job.native_id, note->native_id) != 0 ||
         strcmp(rec->job.place, note->place) != 0) &&
        eng_stage(e, rec, EV_GRANT, -1, &d, err) < 0)
        return -1;
    set_suspended(e, rec, note->is_suspended);
    return 0;
}

/* The attempt was granted, and is pending again before a worker has claimed it.
 * Its clocks stop, and start with the next grant. If the grant came before a
 * restart of the daemon, the allocator first has to look for the attempt, so
 * the note must say that it is in the queue. */
static bool is_taken_back(const struct job_record *rec,
                          const struct alloc_note *note)
{
    return (rec->is_heard || note->is_in_line) &&
           rec->job.native_id[0] != '\0' && !eng_is_ending(rec);
}

/* Accepted, but not granted yet: sets the reason, without an event. */
static int waits(struct engine *e, struct job_record *rec,
                 const struct alloc_note *note, struct error *err)
{
    struct job *job = &rec->job;
    struct detail d = DETAIL_INIT;
    bool is_open = job->state == JOB_DISPATCHING || job->state == JOB_UNKNOWN;

    text_fit(d.why, sizeof(d.why), note->why.msg);
    if (is_open && is_taken_back(rec, note) &&
        eng_stage(e, rec, EV_GRANT, -1, &d, err) < 0)
        return -1;
    if (!is_open || job->native_id[0] != '\0')
        return 0;
    /* A plan takes it back if its user has spent his GPU-hours meanwhile. */
    e->wants_plan = e->wants_plan || (e->n_spent > 0 && !rec->is_heard);
    rec->ask_at_s = (double)__builtin_inff();
    rec->is_heard = true;
    bool is_held = note->why.code == ERR_LIMIT;
    e->wants_plan = e->wants_plan || is_held != rec->is_held ||
                    note->is_of_size != rec->is_over_size;
    rec->is_held = is_held;
    rec->is_over_size = note->is_of_size;
    text_copy(job->pending_id, sizeof(job->pending_id), note->native_id);
    bool has_moved = job->alloc_start_s < note->expected_s ||
                     job->alloc_start_s > note->expected_s;
    job->alloc_start_s = note->expected_s;
    eng_lists_update(e, rec);
    if (!job->cancel_asked && !job->requeue_asked &&
        (eng_set_reason(e, rec, note->why.msg) || has_moved) && e->on_wait)
        e->on_wait(e->wait_arg, job);
    return 0;
}

/* The allocator named another allocation than the one from which the attempt
 * was claimed. The engine tells it about the claim and ignores the note, which
 * is not about this allocation. An attempt that is being ended may end under
 * any name. */
static bool is_of_another(struct engine *e, struct job_record *rec,
                          const struct alloc_note *note)
{
    const struct job *job = &rec->job;
    if (!job->claim_names_id || note->native_id[0] == '\0' ||
        job->release_asked || strcmp(job->native_id, note->native_id) == 0)
        return false;
    rec->tell_at_s = eng_now(e);
    return true;
}

/* Interval between tries for a limit of a user or an account in the cluster,
 * which ends as other jobs end. Each try is an attempt, and the limit may last
 * for days. */
static const double LIMIT_AGAIN_S = 300;

static bool is_for_now(const struct job_record *rec,
                       const struct alloc_note *note)
{
    enum err_code code = note->why.code;
    return (code == ERR_BUSY || code == ERR_NOMEM) && !eng_is_ending(rec);
}

/* Another size may be accepted: the one before a resize, or a smaller one. */
static bool has_other_size(const struct job_record *rec,
                           const struct alloc_note *note)
{
    return note->why.code != ERR_NOMEM && !eng_is_ending(rec) &&
           eng_may_give_up(rec, note->is_of_size);
}

static int refused_for_now(struct engine *e, struct job_record *rec,
                           const struct alloc_note *note, struct error *err)
{
    struct detail d = DETAIL_INIT;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, "could not be started: ", note->why.msg);
    if (eng_stage(e, rec, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    rec->not_before_s = note->why.code == ERR_NOMEM
                            ? eng_reconcile_at(e)
                            : eng_now(e) + LIMIT_AGAIN_S;
    eng_lists_update(e, rec);
    return 0;
}

/* Somebody gave the attempt another time limit in the scheduler, or the
 * scheduler does not take ours. The job's limit moves by as much: the attempt
 * may have only a part of it. */
static int limited(struct engine *e, struct job_record *rec,
                   const struct alloc_note *note, struct error *err)
{
    const struct job *job = &rec->job;
    struct detail d = DETAIL_INIT;
    bool is_finite = note->limit_s > 0 && isfinite(job->attempt_limit_s);
    double limit_s = is_finite
                         ? job->limit_s + note->limit_s - job->attempt_limit_s
                         : note->limit_s;

    d.limit_ms = note->limit_s > 0 ? (int64_t)ceil(1000 * fmax(1, limit_s)) : 0;
    d.limit_default = note->limit_is_default;
    text_fit(d.why, sizeof(d.why), note->why.msg);
    bool is_same = note->limit_s > 0
                       ? fabs(job->attempt_limit_s - note->limit_s) < 0.5
                       : isinf(job->attempt_limit_s);
    return is_same || eng_is_ending(rec)
               ? 0
               : eng_stage(e, rec, EV_UPDATE, -1, &d, err);
}

/* Somebody changed the priority of the attempt in the scheduler. It may have
 * been its user (scontrol top), so that raises it no further than a user may
 * here. */
static int prioritised(struct engine *e, struct job_record *rec,
                       const struct alloc_note *note, struct error *err)
{
    struct detail d = DETAIL_INIT;
    int32_t was = rec->job.priority;
    int32_t most = PRIORITY_USER > was ? PRIORITY_USER : was;

    d.priority = was + note->priority_by;
    if (d.priority > most)
        d.priority = most;
    if (d.priority < -PRIORITY_MAX)
        d.priority = -PRIORITY_MAX;
    text_fit(d.why, sizeof(d.why), note->why.msg);
    return d.priority == was || eng_is_ending(rec)
               ? 0
               : eng_stage(e, rec, EV_UPDATE, -1, &d, err);
}

static int take(struct engine *e, const struct alloc_note *note,
                struct error *err)
{
    struct job_record *rec = eng_find(e, note->job);

    if (note->kind == ALLOC_INVENTORY) {
        e->wants_plan = true;
        e->n_news++;
    }
    if (!rec || note->attempt != rec->job.attempt ||
        !job_state_is_live(rec->job.state) || is_of_another(e, rec, note))
        return 0;
    switch (note->kind) {
    case ALLOC_GRANTED:
        return granted(e, rec, note, err);
    case ALLOC_EXITED:
    case ALLOC_LOST:
        /* The grant may have come and gone while no daemon ran. */
        if (rec->job.native_id[0] == '\0' && note->native_id[0] != '\0' &&
            granted(e, rec, note, err) < 0)
            return -1;
        __attribute__((fallthrough));
    case ALLOC_REFUSED: {
        if (note->kind == ALLOC_REFUSED && has_other_size(rec, note))
            return eng_refused_size(e, rec, note->why.msg, err);
        if (note->kind == ALLOC_REFUSED && is_for_now(rec, note))
            return refused_for_now(e, rec, note, err);
        struct ending end = {.kind = note->kind,
                             .exit_code = note->exit_code,
                             .signal = note->signal,
                             .by = note->ended_by,
                             .is_forgotten = note->is_forgotten,
                             .cpu_ms = note->cpu_ms,
                             .cores_ms = note->cores_ms,
                             .ended_ms = note->ended_ms,
                             .why = note->why.msg};
        return eng_end(e, rec, &end, err);
    }
    case ALLOC_WAITING:
        return waits(e, rec, note, err);
    case ALLOC_LIMIT:
        return limited(e, rec, note, err);
    case ALLOC_PRIORITY:
        return prioritised(e, rec, note, err);
    case ALLOC_INVENTORY:
        break;
    }
    return 0;
}

/* A note that cannot be handled now (the exit hook failed, out of memory)
 * stays. Later notes about that attempt are then harmless: they find it still
 * live, and are handled in order the next time. */
void eng_notes_take(struct engine *e)
{
    for (size_t i = 0; i < e->inbox.n; i++) {
        if (e->inbox.handled[i])
            continue;
        if (take(e, &e->inbox.notes[i], NULL) == 0)
            e->inbox.handled[i] = true;
        else
            e->retry_at_s = eng_now(e) + 1;
    }
}
