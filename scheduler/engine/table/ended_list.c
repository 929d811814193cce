/* ended_list.c - the list of ended jobs that may leave memory.
 *
 * A job that ended first comes first. The tasks of a sweep enter the list
 * together, in a row, when the last of them has ended. A damaged job never
 * enters it. archive.c takes jobs out of the list.
 */
#include <math.h>

#include "scheduler/engine/engine_internal.h"

void eng_append_ended(struct engine *e, struct entry *en)
{
    en->next_ended = NULL;
    if (e->ended_last)
        e->ended_last->next_ended = en;
    else
        e->ended_first = en;
    e->ended_last = en;
    en->is_listed = true;
    e->n_listed++;
    e->n_listed_archived += en->is_archived;
}

static bool is_sound(const struct entry *en)
{
    return !en->is_corrupt && !en->has_no_submit && !en->is_listed &&
           isfinite(en->job.end_s) && en->job.n_tasks <= SPEC_TASKS_MAX &&
           job_state_is_final(en->job.state);
}

/* Its tasks are in a row, which the list keeps. */
static void append_sweep(struct engine *e, const struct job *job)
{
    for (int32_t i = 0; i < job->n_tasks; i++) {
        const struct entry *task = eng_find(e, job->sweep + (uint64_t)i);
        if (!task || !is_sound(task) || task->job.sweep != job->sweep ||
            task->job.n_tasks != job->n_tasks)
            return;
    }
    for (int32_t i = 0; i < job->n_tasks; i++)
        eng_append_ended(e, eng_find(e, job->sweep + (uint64_t)i));
}

void eng_list_ended(struct engine *e, struct entry *en)
{
    if (!is_sound(en))
        return;
    if (en->job.n_tasks == 0) {
        eng_append_ended(e, en);
        return;
    }
    struct entry *first = eng_find(e, en->job.sweep);
    if (first && ++first->n_tasks_over >= en->job.n_tasks)
        append_sweep(e, &en->job);
}
