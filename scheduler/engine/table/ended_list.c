/* ended_list.c - the list of ended jobs that may leave memory.
 *
 * A job that ended first comes first. The tasks of a sweep enter the list
 * together, in a row, when the last of them has ended. A damaged job never
 * enters it. archive.c takes jobs out of the list.
 */
#include <math.h>

#include "scheduler/engine/engine_internal.h"

void eng_ended_append(struct engine *e, struct job_record *rec)
{
    rec->next_ended = NULL;
    if (e->ended_last)
        e->ended_last->next_ended = rec;
    else
        e->ended_first = rec;
    e->ended_last = rec;
    rec->is_listed = true;
    e->n_listed++;
    e->n_listed_archived += rec->is_archived;
}

static bool is_sound(const struct job_record *rec)
{
    return !rec->is_corrupt && !rec->has_no_submit && !rec->is_listed &&
           isfinite(rec->job.end_s) && rec->job.n_tasks <= SPEC_TASKS_MAX &&
           job_state_is_final(rec->job.state);
}

/* Its tasks are in a row, which the list keeps. */
static void append_sweep(struct engine *e, const struct job *job)
{
    for (int32_t i = 0; i < job->n_tasks; i++) {
        const struct job_record *task = eng_find(e, job->sweep + (uint64_t)i);
        if (!task || !is_sound(task) || task->job.sweep != job->sweep ||
            task->job.n_tasks != job->n_tasks)
            return;
    }
    for (int32_t i = 0; i < job->n_tasks; i++)
        eng_ended_append(e, eng_find(e, job->sweep + (uint64_t)i));
}

void eng_list_ended(struct engine *e, struct job_record *rec)
{
    if (!is_sound(rec))
        return;
    if (rec->job.n_tasks == 0) {
        eng_ended_append(e, rec);
        return;
    }
    struct job_record *first = eng_find(e, rec->job.sweep);
    if (first && ++first->n_tasks_over >= rec->job.n_tasks)
        append_sweep(e, &rec->job);
}
