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
static int give_texts(struct entry *en, struct error *err)
{
    if (!en->own.spec)
        en->own.spec = strdup("{}");
    if (!en->own.key)
        en->own.key = strdup("");
    if (!en->own.spec || !en->own.key)
        return error_set(err, ERR_NOMEM, "out of memory");
    en->job.spec = en->own.spec;
    en->job.key = en->own.key;
    if (!en->job.kind)
        en->job.kind = "command";
    return 0;
}

static void hold(struct engine *e, struct entry *en,
                 const struct store_event *ev, const struct error *why)
{
    struct job *job = &en->job;
    char text[sizeof(why->msg) + 64];

    (void)snprintf(text, sizeof(text), "%sevent %" PRIu64 ": %s", held_corrupt,
                   ev->seq, why->msg);
    text_copy(job->reason, sizeof(job->reason), text);
    job->state = JOB_HELD;
    job->held_by = HELD_CORRUPT;
    job->state_s = ev->at_s;
    job->end_s = NAN;
    job->exit_code = -1;
    eng_mark_dirty(e, en);
}

/* Applies the parts of a later event that are believed. */
static void believe(struct entry *en, const struct store_event *ev)
{
    struct detail d = DETAIL_INIT;
    struct job *job = &en->job;
    enum job_state to;

    if (detail_decode(ev->detail, &d, NULL) < 0)
        d.exit_code = EXIT_NEVER_RAN;
    if (ev->attempt == job->attempt + 1) {
        job->attempt = ev->attempt;
        en->may_live = true;
    }
    if (ev->ev == EV_CANCEL && job->state == JOB_HELD &&
        eng_fold(en, ev, NULL) == 0)
        return;
    if (ev->ev == EV_REQUEUE) {
        en->may_live = false;
    } else if (job_state_next(JOB_RUNNING, ev->ev, &to, NULL) == 0 &&
               job_state_is_final(to)) {
        en->may_live = false;
        if (job_state_is_final(job->state))
            return;
        job->state = to;
        job->state_s = job->end_s = ev->at_s;
        job->exit_code = d.exit_code;
        text_copy(job->reason, sizeof(job->reason), d.why);
    }
}

/* ev is the first damaged event. */
static int set_apart(struct engine *e, struct entry *en,
                     const struct store_event *ev, const struct error *why,
                     struct error *err)
{
    enum job_state was = en->job.state, to;

    en->has_no_submit = en->own.spec == NULL;
    if (give_texts(en, err) < 0)
        return -1;
    e->n_corrupt++;
    en->is_corrupt = true;
    if (job_state_is_final(was)) /* the job had ended by then */
        return 0;
    hold(e, en, ev, why);
    en->may_live = job_state_is_live(was);
    /* Only its detail is wrong; the event itself did happen. */
    if (job_state_next(was, ev->ev, &to, NULL) == 0)
        believe(en, ev);
    return 0;
}

int eng_damaged(struct engine *e, const struct store_event *ev,
                const struct error *why, struct error *err)
{
    struct entry *en = eng_find(e, ev->job);

    if (en && en->is_corrupt) {
        believe(en, ev);
        return 0;
    }
    if (!en) {
        if (ev->job < 1 || ev->job > e->last_id + ENG_ID_STEP_MAX) {
            e->n_stray++; /* no job can have this id */
            return 0;
        }
        if (eng_add_new(e, ev->job, &en, err) < 0)
            return -1;
        /* The first event of a job is its submit, by its user. */
        en->job.uid = ev->attempt == 0 ? ev->uid : -1;
        en->job.submit_s = ev->at_s;
    }
    return set_apart(e, en, ev, why, err);
}

void eng_resume_damaged(struct entry *en)
{
    if (!en->is_corrupt || !en->may_live)
        return;
    en->job.nodes = en->job.nodes > 0 ? en->job.nodes : 1;
    en->job.gpus = en->job.gpus > 0 ? en->job.gpus : 0;
    en->dropped = en->job.attempt;
    en->is_resumed = en->is_unasked = true;
}

int eng_check_whole(const struct entry *en, struct error *err)
{
    const char *why = en->job.reason;
    size_t n = strlen(held_corrupt);

    if (!en->is_corrupt)
        return 0;
    return error_set(err, ERR_STATE,
                     "job %" PRIu64 " is damaged (%s): it can be cancelled; "
                     "mgpu-admin fsck says what is wrong",
                     en->job.id,
                     strncmp(why, held_corrupt, n) == 0 ? why + n : why);
}
