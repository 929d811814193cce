/* engine_lists.h - the lists of job_lists.c against a pass over all jobs. */
#ifndef MGPU_TESTS_ENGINE_LISTS_H
#define MGPU_TESTS_ENGINE_LISTS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/in_line.h"
#include "scheduler/engine/plan/plan.h"

/* How many there should be in each list, and what is first. */
struct lists_expected {
    size_t moving, runs, line, over, depends, early, queue, later, avoiding,
        went, dirty;
    uint64_t n_state[JOB_STATE_N];
    double next_s; /* of all that time brings */
};

static inline struct lists_expected lists_expect(const struct engine *e)
{
    struct lists_expected x = {.next_s = INFINITY};

    for (size_t i = 0; i < e->n_active; i++) {
        const struct job_record *rec = e->active[i];
        enum job_state s = rec->job.state;
        bool is_later = s == JOB_QUEUED && rec->not_before_s > -INFINITY;
        bool is_run = job_state_is_live(s) && rec->job.is_run;
        x.moving += (job_state_is_live(s) && !is_run) || rec->dropped > 0;
        x.runs += is_run;
        x.line += job_is_in_line(&rec->job) && !rec->is_held;
        x.over += job_state_is_final(s);
        x.depends += rec->job.n_depends > 0;
        x.early += rec->is_early;
        x.queue += s == JOB_QUEUED && !eng_waits(rec);
        x.later += is_later;
        x.avoiding += rec->job.exclude[0] != '\0';
        x.went += eng_reserved_until(rec) > eng_now(e);
        x.dirty += rec->places.is_dirty;
        x.n_state[s]++;
        x.next_s = fmin(x.next_s, is_later ? rec->not_before_s
                                  : is_run ? INFINITY
                                           : eng_timers_next(e, rec));
    }
    return x;
}

static inline const char *lists_check_ids(const struct record_list *l)
{
    for (size_t i = 1; i < l->n; i++)
        if (l->at[i - 1]->job.id >= l->at[i]->job.id)
            return "is listed twice, or not by id";
    return NULL;
}

/* All pending jobs, those in the allocator's line too, have 1 to n in one
 * order: no two have the same position. */
static inline const char *lists_check_positions(struct engine *e)
{
    size_t n = e->lists.queue.n + e->lists.line.n;
    bool *has = calloc(n + 1, sizeof(*has));
    const char *why = has ? NULL : "no memory";

    for (size_t i = 0; i < e->n_active && !why; i++) {
        const struct job_record *rec = e->active[i];
        int32_t at = engine_queue_position(e, rec->job.id);
        bool is_pending = rec->places.waits || rec->places.is_in_line;
        if (at < 0 || (size_t)at > n || (at > 0) != is_pending)
            why = "has a position outside of the queue";
        else if (at > 0 && has[at])
            why = "has the position of another job";
        else
            has[at] = true;
    }
    free(has);
    return why;
}

static inline bool lists_is_copy(const struct waiting *x)
{
    const struct job_record *rec = x->record;
    const struct job *job = &rec->job;
    const struct gpu_sizes sizes = eng_sizes(job);
    return x->id == job->id && x->priority == job->priority &&
           x->gpus_min == sizes.gpus.min && x->gpus_max == sizes.gpus.max &&
           x->nodes_min == sizes.nodes.min && x->nodes_max == sizes.nodes.max &&
           x->per_node == job->per_node && x->parts == job->parts &&
           x->to_gpus == job->resize.gpus && x->to_nodes == job->resize.nodes &&
           memcmp(&x->submit_s, &job->submit_s, sizeof(double)) == 0 &&
           memcmp(&x->limit_s, &job->attempt_limit_s, sizeof(double)) == 0 &&
           x->is_back == job->resize.is_back &&
           x->barred_gpus == job->resize.barred_gpus &&
           x->barred_below == job->resize.barred_below &&
           memcmp(&x->barred_until_s, &job->resize.barred_until_s,
                  sizeof(double)) == 0 &&
           memcmp(&x->not_before_s, &rec->not_before_s, sizeof(double)) == 0 &&
           x->is_exclusive == job->where.exclusive &&
           x->is_dropping == (rec->dropped > 0) &&
           x->has_cap == (job->max_parallel > 0) &&
           x->has_sizes == (sizes.gpus.min < sizes.gpus.max ||
                            sizes.nodes.min < sizes.nodes.max ||
                            job->resize.gpus > 0) &&
           x->has_reservation == rec->places.has_reservation;
}

/* In the policy's order, by what is true now, and under its kind. */
static inline const char *lists_check_queue(struct engine *e)
{
    const struct queue *q = &e->lists.queue;
    size_t n_of_kinds = 0, n_sized = 0, n_resized = 0;

    for (size_t i = 0; i < QUEUE_KINDS; i++)
        n_of_kinds += q->kinds[i].n;
    for (size_t i = 0; i < q->n; i++) {
        const struct waiting *x = q->at[i];
        const struct job *a = i > 0 ? &q->at[i - 1]->record->job : NULL;
        const struct job *b = &x->record->job;
        n_of_kinds -= x->kind >= 0;
        n_sized += x->has_sizes;
        n_resized += x->to_gpus > 0;
        if (b->state != JOB_QUEUED || eng_waits(x->record) ||
            x->record->places.waits != x)
            return "stands in the queue, and does not wait there";
        if (!lists_is_copy(x))
            return "is shown in the queue as it was once";
        if (a &&
            engine_queue_position(e, a->id) >= engine_queue_position(e, b->id))
            return "has another place in the queue";
        bool is_alike = a && a->resize.is_back == b->resize.is_back;
        if (a && !is_alike && b->resize.is_back)
            return "a job that goes first is not the first";
        const struct fair_user *u = i > 0 ? q->at[i - 1]->user : NULL;
        int32_t rank = u ? u->rank : 0, next = x->user ? x->user->rank : 0;
        bool is_equal = is_alike && a->priority == b->priority && rank == next;
        if (is_alike &&
            (a->priority < b->priority ||
             (a->priority == b->priority && rank > next) ||
             (is_equal && a->submit_s > b->submit_s) ||
             (is_equal && a->submit_s >= b->submit_s && a->id > b->id)))
            return "the queue is not in its order";
    }
    if (n_sized != q->n_sized || n_resized != q->n_resized)
        return "sizes are counted wrong";
    return n_of_kinds == 0 ? NULL : "kinds are counted wrong";
}

static inline const char *lists_check_later(const struct engine *e)
{
    const struct record_list *l = &e->lists.later;

    for (size_t i = 0; i < l->n; i++) {
        const struct job_record *rec = l->at[i],
                                *up = l->at[(i + 1) / 2 - (i > 0)];
        if (rec->places.later_at != i + 1)
            return "is not where it is said to be in the heap";
        if (rec->job.state != JOB_QUEUED ||
            memcmp(&rec->places.later_s, &rec->not_before_s, sizeof(double)) !=
                0)
            return "is in the heap at another time";
        if (i > 0 && up->places.later_s > rec->places.later_s)
            return "the heap is none";
    }
    return NULL;
}

static inline const char *lists_check_users(const struct engine *e)
{
    int64_t n = 0, n_all = 0;

    for (size_t i = 0; i < e->lists.n_users; i++)
        n_all += e->lists.users[i].n;
    for (size_t i = 0; i < e->n_active; i++) {
        const struct job *of = &e->active[i]->job;
        int32_t own = 0;
        n += !job_state_is_final(of->state);
        for (size_t k = 0; k < e->n_active; k++)
            own += e->active[k]->job.uid == of->uid &&
                   !job_state_is_final(e->active[k]->job.state);
        if (eng_jobs_of(e, of->uid) != own)
            return "its user has another number of jobs";
    }
    return n == n_all ? NULL : "jobs are counted for nobody";
}

static inline size_t lists_n_dirty(const struct engine *e)
{
    size_t n = 0;
    const struct job_record *rec = e->lists.dirty_first;
    for (; rec && n <= e->n_active; rec = rec->places.dirty_next)
        n++;
    return n;
}

/* Those of long ago may still be there. */
static inline size_t lists_n_went(const struct engine *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->lists.went.n; i++)
        n += eng_reserved_until(e->lists.went.at[i]) > eng_now(e);
    return n;
}

/* Whether any job has gone for this one, which has not had the devices. */
static inline bool lists_has_reservation(const struct engine *e,
                                         const struct job_record *to)
{
    for (size_t i = 0; i < e->n_active; i++) {
        const struct job_record *rec = e->active[i];
        if (rec->job.preempted_for == to->job.id &&
            eng_reserved_until(rec) > eng_now(e) &&
            to->job.priority > rec->job.priority &&
            !(to->job.claim_s >= rec->job.preempt_s))
            return true;
    }
    return false;
}

/* As for a plan that is made now. */
static inline const char *lists_check_owed(struct engine *e)
{
    const char *why = NULL;

    if (!e->parts.conf->preempt.is_on)
        return NULL;
    eng_find_reserved(e);
    for (size_t i = 0; i < e->n_active && !why; i++) {
        const struct job_record *rec = e->active[i];
        if (!job_state_is_final(rec->job.state) &&
            rec->places.has_reservation != lists_has_reservation(e, rec))
            why = "has reserved devices, and is not said to, or is said to";
    }
    why = why ? why : lists_check_ids(&e->lists.reserved);
    return why;
}

/* A user is charged for what his jobs are charged for. */
static inline const char *lists_check_charges(const struct engine *e)
{
    for (size_t k = 0; k < e->fair.n; k++) {
        int32_t gpus = 0;
        for (size_t i = 0; i < e->n_active; i++)
            if (e->active[i]->charge.user == e->fair.at[k])
                gpus += e->active[i]->charge.gpus;
        if (gpus != e->fair.at[k]->gpus)
            return "a user is charged for other GPUs than his jobs";
    }
    return NULL;
}

/* NULL: as they should be. */
static inline const char *lists_check(struct engine *e)
{
    const struct job_lists *f = &e->lists;
    const struct lists_expected x = lists_expect(e);
    double next_s = eng_later_s(e);
    const char *why = NULL;

    for (size_t i = 1; i < e->n_active && !why; i++)
        if (e->active[i - 1]->job.id >= e->active[i]->job.id)
            why = "those that are active are not in order";
    for (size_t i = 0; i < f->moving.n; i++)
        next_s = fmin(next_s, eng_timers_next(e, f->moving.at[i]));
    if (!why && (next_s < x.next_s || next_s > x.next_s))
        why = "a time is missed";
    if (!why && (x.moving != f->moving.n || x.over != f->over.n ||
                 x.line != f->line.n || x.depends != f->depends.n ||
                 x.early != f->early.n || x.queue != f->queue.n ||
                 x.later != f->later.n || x.avoiding != f->avoiding.n ||
                 x.went != lists_n_went(e) || x.dirty != lists_n_dirty(e)))
        why = "a job is in a list where it does not belong, or is missing";
    if (!why && memcmp(x.n_state, f->n_state, sizeof(x.n_state)) != 0)
        why = "the states are counted wrong";
    why = why ? why : lists_check_ids(&f->moving);
    why = why ? why : lists_check_ids(&f->over);
    why = why ? why : lists_check_ids(&f->depends);
    why = why ? why : lists_check_ids(&f->early);
    why = why ? why : lists_check_ids(&f->avoiding);
    why = why ? why : lists_check_ids(&f->went);
    why = why ? why : lists_check_owed(e);
    why = why ? why : lists_check_queue(e);
    why = why ? why : lists_check_positions(e);
    why = why ? why : lists_check_later(e);
    why = why ? why : lists_check_charges(e);
    return why ? why : lists_check_users(e);
}

#endif
