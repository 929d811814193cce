/* corrupt_jobs.c - set jobs apart whose events cannot be read; all others go
 * on.
 *
 * A disk, or a person with a shell, has changed an event: its kind is unknown,
 * its detail is not JSON, or it cannot follow the events before it. The
 * intended state of that job is unknown, so the engine does nothing with it:
 * the job is HELD with a reason that names the event, and its user can only
 * cancel it. Its events stay as they are, for a person to repair; after a
 * repair the job is what it was, because the engine decides this anew at each
 * start.
 *
 * The engine believes only little of what comes after the damage: that an
 * attempt was started or is over, that the job has ended. A job that has ended
 * stays ended. An attempt that may still run is looked for and ended, like one
 * that the engine cancelled while it was pending (dispatch.c): it could neither
 * get messages nor send any.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/store/corrupt_jobs.h"

/* Prefix of the reason of a job that is set apart. */
static const char held_corrupt[] = "Held(corrupt): ";

/* Sets the strings that every reader of jobs expects. */
static int give_texts(struct job_record *rec, struct error *err)
{
    if (!rec->own.spec)
        rec->own.spec = strdup("{}");
    if (!rec->own.key)
        rec->own.key = strdup("");
    if (!rec->own.spec || !rec->own.key)
        return error_set(err, ERR_NOMEM, "out of memory");
    rec->job.spec = rec->own.spec;
    rec->job.key = rec->own.key;
    if (!rec->job.kind)
        rec->job.kind = "command";
    return 0;
}

static void hold(struct engine *e, struct job_record *rec,
                 const struct store_event *ev, const struct error *why)
{
    struct job *job = &rec->job;
    char text[sizeof(why->msg) + 64];

    (void)snprintf(text, sizeof(text), "%sevent %" PRIu64 ": %s", held_corrupt,
                   ev->seq, why->msg);
    text_copy(job->reason, sizeof(job->reason), text);
    job->state = JOB_HELD;
    job->held_by = HELD_CORRUPT;
    job->state_s = ev->at_s;
    job->end_s = NAN;
    job->exit_code = -1;
    eng_mark_dirty(e, rec);
}

/* Applies the parts of a later event that are believed. */
static void believe(struct job_record *rec, const struct store_event *ev)
{
    struct detail d = DETAIL_INIT;
    struct job *job = &rec->job;
    enum job_state to;

    if (detail_decode(ev->detail, &d, NULL) < 0)
        d.exit_code = EXIT_NEVER_RAN;
    if (ev->attempt == job->attempt + 1) {
        job->attempt = ev->attempt;
        rec->may_live = ev->ev != EV_OPEN;
    }
    if (ev->ev == EV_CANCEL && job->state == JOB_HELD &&
        eng_fold(rec, ev, NULL) == 0)
        return;
    if (ev->ev == EV_REQUEUE) {
        rec->may_live = false;
    } else if (job_state_next(JOB_RUNNING, ev->ev, &to, NULL) == 0 &&
               job_state_is_final(to)) {
        rec->may_live = false;
        if (job_state_is_final(job->state))
            return;
        job->state = to;
        job->state_s = job->end_s = ev->at_s;
        job->exit_code = d.exit_code;
        text_copy(job->reason, sizeof(job->reason), d.why);
    }
}

/* ev is the first damaged event. */
static int set_apart(struct engine *e, struct job_record *rec,
                     const struct store_event *ev, const struct error *why,
                     struct error *err)
{
    enum job_state was = rec->job.state, to;

    rec->has_no_submit = rec->own.spec == NULL;
    if (give_texts(rec, err) < 0)
        return -1;
    e->n_corrupt++;
    rec->is_corrupt = true;
    if (job_state_is_final(was)) /* the job had ended by then */
        return 0;
    hold(e, rec, ev, why);
    rec->may_live = job_state_is_live(was) && !rec->job.is_run;
    /* Only its detail is wrong; the event itself did happen. */
    if (job_state_next(was, ev->ev, &to, NULL) == 0)
        believe(rec, ev);
    return 0;
}

int eng_damaged(struct engine *e, const struct store_event *ev,
                const struct error *why, struct error *err)
{
    struct job_record *rec = eng_find(e, ev->job);

    if (rec && rec->is_corrupt) {
        believe(rec, ev);
        return 0;
    }
    if (!rec) {
        if (ev->job < 1 || ev->job > e->last_id + ENG_ID_STEP_MAX) {
            e->n_stray++; /* no job can have this id */
            return 0;
        }
        if (eng_add_new(e, ev->job, &rec, err) < 0)
            return -1;
        /* The first event of a job is its submit, by its user. */
        rec->job.uid = ev->attempt == 0 ? ev->uid : -1;
        rec->job.submit_s = ev->at_s;
    }
    return set_apart(e, rec, ev, why, err);
}

void eng_resume_damaged(struct job_record *rec)
{
    if (!rec->is_corrupt || !rec->may_live)
        return;
    rec->job.nodes = rec->job.nodes > 0 ? rec->job.nodes : 1;
    rec->job.gpus = rec->job.gpus > 0 ? rec->job.gpus : 0;
    rec->dropped = rec->job.attempt;
    rec->is_resumed = rec->is_unasked = true;
}

int eng_check_whole(const struct job_record *rec, struct error *err)
{
    const char *why = rec->job.reason;
    size_t n = strlen(held_corrupt);

    if (!rec->is_corrupt)
        return 0;
    return error_set(err, ERR_STATE,
                     "job %" PRIu64 " is damaged (%s): it can be cancelled; "
                     "mgpu-admin fsck says what is wrong",
                     rec->job.id,
                     strncmp(why, held_corrupt, n) == 0 ? why + n : why);
}
