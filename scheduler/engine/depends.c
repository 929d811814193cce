/* depends.c - jobs that wait for the end of others.
 *
 * Whom a job waits for is fixed by its submit, and each of them was there
 * before it: there are no circles to look for. What is looked at is the
 * others' states alone, so a replay finds what was true before. A job for
 * which what it waits for can never come is held, not lost: its user may
 * cancel it, or release it and let it start without.
 *
 * Only ends of jobs change anything here, so the queue is gone through after
 * one of them, not with each step.
 */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/engine/core.h"

/* Jobs of others are not told apart from those that do not exist. */
int eng_check_depends(const struct engine *e, const struct job *job,
                      struct error *err)
{
    for (size_t i = 0; i < job->n_depends; i++) {
        const struct entry *other = eng_find(e, job->depends[i].job);
        if (!other || !engine_may(e, &other->job, job->uid))
            return error_set(err, ERR_INVAL,
                             "depends_on: you have no job %" PRIu64 " [E022]",
                             job->depends[i].job);
    }
    return 0;
}

static enum depend_fate fate_of(const struct engine *e, const struct depend *d)
{
    const struct entry *other = eng_find(e, d->job);
    return other ? depend_fate(d->kind, other->job.state) : DEPEND_NEVER;
}

/* The first in vain, else the first that is waited for. */
static enum depend_fate look(const struct engine *e, const struct job *job,
                             const struct depend **ret, size_t *ret_n)
{
    enum depend_fate all = DEPEND_MET;

    *ret_n = 0;
    for (size_t i = 0; i < job->n_depends && all != DEPEND_NEVER; i++) {
        enum depend_fate one = fate_of(e, &job->depends[i]);
        *ret_n += one == DEPEND_WAITS;
        if (one == DEPEND_NEVER || (one == DEPEND_WAITS && all == DEPEND_MET)) {
            all = one;
            *ret = &job->depends[i];
        }
    }
    return all;
}

static int hold(struct engine *e, struct entry *en, const struct depend *d)
{
    const struct entry *other = eng_find(e, d->job);
    struct detail detail = DETAIL_INIT;
    char text[DEPEND_TEXT_CAP];

    text_copy(detail.held, sizeof(detail.held), job_held_name(HELD_DEPENDENCY));
    (void)snprintf(detail.why, sizeof(detail.why),
                   "DependencyNeverSatisfied: %s, which is %s",
                   depend_show(d, text),
                   other ? job_state_name(other->job.state) : "not there");
    return eng_stage(e, en, EV_HOLD, -1, &detail, NULL);
}

static void wait_for(struct entry *en, const struct depend *d, size_t n)
{
    char reason[JOB_REASON_CAP], text[DEPEND_TEXT_CAP], more[40] = "";

    if (n > 1)
        (void)snprintf(more, sizeof(more), " and %zu more", n - 1);
    (void)snprintf(reason, sizeof(reason), "Dependency: waits for %s%s",
                   depend_show(d, text), more);
    en->is_waiting = true;
    en->job.start_estimate_s = (double)__builtin_nan("");
    (void)eng_set_reason(en, reason);
}

static int one(struct engine *e, struct entry *en)
{
    const struct depend *d = NULL;
    size_t n = 0;
    bool was = en->is_waiting;

    en->is_waiting = false;
    if (en->job.state != JOB_QUEUED || en->job.depends_waived)
        return 0;
    switch (look(e, &en->job, &d, &n)) {
    case DEPEND_NEVER:
        return hold(e, en, d);
    case DEPEND_WAITS:
        wait_for(en, d, n);
        break;
    case DEPEND_MET:
        if (was)
            (void)eng_set_reason(en, "");
        break;
    }
    return 0;
}

/* Out of memory: looked at again. */
void eng_depends(struct engine *e)
{
    if (!e->wants_depends)
        return;
    e->wants_depends = false;
    e->is_ranked = false;
    for (size_t i = 0; i < e->n_active; i++) {
        if (e->active[i]->job.n_depends > 0 && one(e, e->active[i]) < 0) {
            e->wants_depends = true;
            e->retry_at_s = eng_now(e) + 1;
        }
    }
}
