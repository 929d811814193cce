/* corrupt_jobs.c - a job whose events cannot be read is set apart, and the rest
 * go on.
 *
 * A disk, or somebody with a shell, has changed an event: it is of no kind, its
 * detail is no JSON, it cannot follow what came before. What that job was meant
 * to do is not known any more, so nothing is done with it: it is HELD, for a
 * reason that names the event, and all that its user can do is to cancel it.
 * Its events stay as they are, for whoever can make sense of them; once they
 * are mended the job is what it was, for this is decided anew at each start.
 *
 * Of what comes after the damage only so much is believed: that an attempt was
 * begun or is over, that the job has ended. One that has ended is no less over
 * for it. An attempt that may still run is looked for and ended, as one that
 * was taken back is (dispatch.c): nobody could tell it anything, or be told by
 * it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold.h"
#include "scheduler/engine/store/corrupt_jobs.h"

const char eng_held_corrupt[] = "Held(corrupt): ";

/* Enough for all that reads jobs. */
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

    (void)snprintf(text, sizeof(text), "%sevent %" PRIu64 ": %s",
                   eng_held_corrupt, ev->seq, why->msg);
    text_copy(job->reason, sizeof(job->reason), text);
    job->state = JOB_HELD;
    job->held_by = HELD_CORRUPT;
    job->state_s = ev->at_s;
    job->end_s = NAN;
    job->exit_code = -1;
    eng_mark_dirty(e, en);
}

/* What a later event says all the same. */
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

/* ev is the first that is wrong. */
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
    if (job_state_is_final(was)) /* it was over by then */
        return 0;
    hold(e, en, ev, why);
    en->may_live = job_state_is_live(was);
    /* Only what it says is wrong, not that it was. */
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
            e->n_stray++; /* it is of no job that could be named */
            return 0;
        }
        if (eng_add_new(e, ev->job, &en, err) < 0)
            return -1;
        /* The first of a job is its submit, by its user. */
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
    size_t n = strlen(eng_held_corrupt);

    if (!en->is_corrupt)
        return 0;
    return error_set(err, ERR_STATE,
                     "job %" PRIu64 " is damaged (%s): it can be cancelled; "
                     "mgpu-admin fsck says what is wrong",
                     en->job.id,
                     strncmp(why, eng_held_corrupt, n) == 0 ? why + n : why);
}
