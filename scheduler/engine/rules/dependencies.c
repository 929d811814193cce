/* dependencies.c - keep jobs pending until their dependencies are satisfied.
 *
 * The dependencies of a job are fixed by its submit, and each names an earlier
 * job: there are no cycles. The engine looks only at the states of those jobs,
 * and at whether they were ever claimed, so a replay decides the same. If a
 * dependency can never be satisfied, the engine holds the job: its user may
 * cancel it, or release it and let it start without the dependency. Jobs that
 * depend on its success are held with it, and so on down the chain. When the
 * job is pending again, the chain is released link by link: no person placed
 * these holds, so the engine removes them as it placed them.
 *
 * Only claims and ends of jobs can change a dependency, so the engine checks
 * the dependent jobs after one of these, not in each step. Within one pass it
 * computes the state of a sweep once, however many jobs depend on it:
 * otherwise, a sweep that depends on another, both with the maximum of tasks,
 * would look at 16 million. A pass runs in the order of ids, and a dependency
 * has a lower id than its job: what the pass changes does not affect what it
 * has found.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/engine/store/archive_list.h"

/* The job that a dependency names; for a whole sweep, its first task. */
static const struct job *named(const struct engine *e, const struct depend *d)
{
    return d->task < 0 ? engine_job(e, d->job)
                       : engine_task(e, d->job, (uint64_t)d->task);
}

/* The error does not distinguish jobs of other users from jobs that do not
 * exist. */
int eng_check_depends(struct engine *e, const struct job *job,
                      struct error *err)
{
    if (eng_recall_depends(e, job, err) < 0)
        return -1;
    for (size_t i = 0; i < job->n_depends; i++) {
        const struct depend *d = &job->depends[i];
        const struct job *other = named(e, d);
        char text[DEPEND_TEXT_CAP];
        if (!other || !engine_may(e, other, job->uid))
            return error_set(err, ERR_INVAL,
                             "depends_on: you have no job %s [E022]",
                             strchr(depend_show(d, text), ':') + 1);
    }
    return 0;
}

/* Only a person can let it start, if anybody can. A job that a user holds will
 * be released, and a job that was refused will be corrected, so these do not
 * count. */
static bool is_stuck(const struct job *job)
{
    return job->state == JOB_HELD &&
           (job->held_by == HELD_DEPENDENCY || job->held_by == HELD_CORRUPT);
}

static enum depend_fate fate_of(const struct depend *d, const struct job *job)
{
    return d->kind == DEPEND_OK && is_stuck(job)
               ? DEPEND_NEVER
               : depend_fate(d->kind, job->state, job->first_claimed > 0);
}

/* A sweep counts as one job: it has begun when all its tasks have, it has
 * COMPLETED when all tasks have, and not before the last of them has ended.
 * Once a task has failed, the sweep cannot complete any more. */
static enum depend_fate fate_of_sweep(const struct engine *e,
                                      const struct depend *d, int32_t n_tasks,
                                      const struct job **io)
{
    const struct job *waits = NULL, *failed = NULL, *stuck = NULL;
    for (int32_t i = 0; i < n_tasks; i++) {
        const struct job *task = engine_job(e, d->job + (uint64_t)i);
        if (!task || fate_of(d, task) == DEPEND_WAITS)
            waits = waits ? waits : task;
        else if (!job_state_is_final(task->state))
            stuck = !stuck && fate_of(d, task) == DEPEND_NEVER ? task : stuck;
        else if (task->state != JOB_COMPLETED)
            failed = failed ? failed : task;
    }
    failed = failed ? failed : stuck;
    if (failed)
        *io = failed;
    if (failed && d->kind == DEPEND_OK)
        return DEPEND_NEVER;
    if (waits) {
        *io = waits;
        return DEPEND_WAITS;
    }
    return depend_fate(d->kind, failed ? failed->state : JOB_COMPLETED, true);
}

/* Whether the dependency is on a whole sweep. */
static bool is_whole(const struct depend *d, const struct job *other)
{
    return d->task < 0 && other->sweep == d->job;
}

enum depend_fate engine_depend_fate(const struct engine *e,
                                    const struct depend *d,
                                    const struct job **ret)
{
    const struct job *other = named(e, d);
    *ret = other;
    if (other && is_whole(d, other))
        return fate_of_sweep(e, d, other->n_tasks, ret);
    return other ? fate_of(d, other) : DEPEND_NEVER;
}

/* When the job did what the dependency asks for, since 1970: it ended, or
 * began.
 */
static double met_by(const struct depend *d, const struct job *job)
{
    return d->kind == DEPEND_BEGUN ? fmin(job->first_claim_s, job->end_s)
                                   : job->end_s;
}

/* The last task decides. */
static double met_by_sweep(const struct engine *e, const struct depend *d,
                           const struct job *first)
{
    double s = -INFINITY;

    for (int32_t i = 0; i < first->n_tasks; i++) {
        const struct job *task = engine_job(e, first->sweep + (uint64_t)i);
        s = task ? fmax(s, met_by(d, task)) : s;
    }
    return s;
}

/* As engine_depend_fate(), with the memo of a pass. */
static enum depend_fate find_fate(struct engine *e, const struct depend *d,
                                  const struct job **ret)
{
    const struct job *other = named(e, d);

    if (!other || !is_whole(d, other))
        return engine_depend_fate(e, d, ret);
    struct fates *known = &eng_find(e, d->job)->fates;
    if (known->round != e->fates_round)
        *known = (struct fates){.round = e->fates_round};
    if (!known->of[d->kind]) {
        known->fate[d->kind] = engine_depend_fate(e, d, ret);
        known->of[d->kind] = *ret;
        known->met_s[d->kind] = known->fate[d->kind] == DEPEND_MET
                                    ? met_by_sweep(e, d, other)
                                    : (double)NAN;
    }
    *ret = known->of[d->kind];
    return known->fate[d->kind];
}

/* When the last of the job's dependencies was met, since 1970; it is the same
 * after a restart of the daemon. */
static double find_met(struct engine *e, const struct job *job)
{
    double s = -INFINITY;

    for (size_t i = 0; i < job->n_depends; i++) {
        const struct depend *d = &job->depends[i];
        const struct job *ignored, *other = named(e, d);
        if (!other || find_fate(e, d, &ignored) != DEPEND_MET)
            continue;
        s = fmax(s, is_whole(d, other)
                        ? eng_find(e, d->job)->fates.met_s[d->kind]
                        : met_by(d, other));
    }
    return s;
}

void eng_fates_anew(struct engine *e)
{
    e->fates_round++;
}

/* The first dependency that can never be satisfied, else the first that is
 * open. */
static enum depend_fate look(struct engine *e, const struct job *job,
                             const struct depend **ret, size_t *ret_n)
{
    enum depend_fate all = DEPEND_MET;

    *ret_n = 0;
    for (size_t i = 0; i < job->n_depends && all != DEPEND_NEVER; i++) {
        const struct job *other;
        enum depend_fate one = find_fate(e, &job->depends[i], &other);
        *ret_n += one == DEPEND_WAITS;
        if (one == DEPEND_NEVER || (one == DEPEND_WAITS && all == DEPEND_MET)) {
            all = one;
            *ret = &job->depends[i];
        }
    }
    return all;
}

static const char in_vain[] = "DependencyNeverSatisfied: ";
static const char behind[] = ", held behind ";

/* The origin of a chain of holds, in the words of the first hold: "afterok:3,
 * which is FAILED". NULL: the hold is not for a dependency. */
static const char *root_of(const struct job *other)
{
    const char *why = other->reason, *after;

    if (!is_stuck(other) || strncmp(why, in_vain, strlen(in_vain)) != 0)
        return NULL;
    after = strstr(why, behind);
    return after ? after + strlen(behind) : why + strlen(in_vain);
}

static int hold(struct engine *e, struct job_record *rec,
                const struct depend *d, struct error *err)
{
    const struct job *other;
    struct detail detail = DETAIL_INIT;
    char text[DEPEND_TEXT_CAP], which[48] = "which";

    (void)find_fate(e, d, &other);
    const char *root = other ? root_of(other) : NULL;
    if (other && is_whole(d, other) && d->kind == DEPEND_OK)
        (void)snprintf(which, sizeof(which), "task %" PRIu64 "_%" PRId32,
                       other->sweep, other->number);
    text_copy(detail.held, sizeof(detail.held), job_held_name(HELD_DEPENDENCY));
    if (root)
        (void)snprintf(detail.why, sizeof(detail.why), "%s%s%s%s", in_vain,
                       depend_show(d, text), behind, root);
    else
        (void)snprintf(detail.why, sizeof(detail.why), "%s%s, %s is %s",
                       in_vain, depend_show(d, text), which,
                       other ? job_state_name(other->state) : "not there");
    return eng_stage(e, rec, EV_HOLD, -1, &detail, err);
}

static void wait_for(struct engine *e, struct job_record *rec,
                     const struct depend *d, size_t n)
{
    char reason[JOB_REASON_CAP], text[DEPEND_TEXT_CAP], more[40] = "";

    if (n > 1)
        (void)snprintf(more, sizeof(more), " and %zu more", n - 1);
    (void)snprintf(reason, sizeof(reason), "Dependency: waits for %s%s",
                   depend_show(d, text), more);
    rec->is_waiting = true;
    rec->job.start_estimate_s = (double)__builtin_nan("");
    (void)eng_set_reason(e, rec, reason);
}

static int look_at(struct engine *e, struct job_record *rec, struct error *err)
{
    const struct depend *d = NULL;
    size_t n = 0;
    bool was = rec->is_waiting;
    bool is_held =
        rec->job.state == JOB_HELD && rec->job.held_by == HELD_DEPENDENCY;

    rec->is_waiting = false;
    if (job_state_is_live(rec->job.state) && isnan(rec->met_s) &&
        !rec->job.depends_waived && eng_recall_depends(e, &rec->job, NULL) == 0)
        rec->met_s = find_met(e, &rec->job); /* the daemon is new */
    if ((rec->job.state != JOB_QUEUED && !is_held) || rec->job.depends_waived)
        return 0;
    if (eng_recall_depends(e, &rec->job, NULL) < 0) {
        rec->is_waiting = !is_held; /* the store will report its error */
        return -1;
    }
    enum depend_fate fate = look(e, &rec->job, &d, &n);
    if (is_held && fate != DEPEND_NEVER &&
        eng_stage(e, rec, EV_RELEASE, -1, NULL, err) < 0)
        return -1;
    switch (fate) {
    case DEPEND_NEVER:
        return is_held ? 0 : hold(e, rec, d, err);
    case DEPEND_WAITS:
        wait_for(e, rec, d, n);
        break;
    case DEPEND_MET:
        rec->met_s = find_met(e, &rec->job);
        if (was) {
            (void)eng_set_reason(e, rec, "");
            e->wants_plan = true; /* a claim alone requests no plan */
            if (rec->is_early)
                e->begin_at_s = -INFINITY;
        }
        break;
    }
    return 0;
}

int eng_depends_one(struct engine *e, struct job_record *rec, struct error *err)
{
    int rc = look_at(e, rec, err);
    eng_lists_update(e, rec);
    return rc;
}

/* Out of memory, or the store fails: the engine looks again. */
void eng_depends(struct engine *e)
{
    const struct record_list *list = &e->lists.depends;

    if (!e->wants_depends)
        return;
    e->wants_depends = false;
    eng_fates_anew(e);
    for (size_t i = 0; i < list->n; i++) {
        if (eng_depends_one(e, list->at[i], NULL) < 0) {
            e->wants_depends = true;
            e->retry_at_s = eng_now(e) + 1;
        }
    }
}
