/* backfill.c - EASY backfill: priority order, with a reservation for the first
 * job that does not fit.
 *
 * The first job that does not fit now, the head, gets a reservation: the
 * earliest time at which enough GPUs of a shape that it accepts are free, if
 * every running job ends at its time limit. A later job starts if it fits now
 * and either ends, by its own limit, before that time, or leaves the nodes of
 * the reservation free at that time. So the head never waits longer than it
 * would in strict order, and short jobs fill the holes.
 *
 * - The shadow is kept per node. A single count of free GPUs would starve wide
 *   jobs on a fragmented cluster.
 * - The reservation assumes that a running job without a limit never releases
 *   its GPUs. If the head depends on such a job, its start time is unknown.
 *   Later jobs with a limit still start, because their end is certain and the
 *   start of the head is not. Later jobs without a limit start only beside the
 *   nodes of the head.
 * - A head that would not fit on the nodes that are up, even if they were
 *   empty, gets no reservation: it is unknown when a node comes back.
 * - Only limits count as ends, never estimates, because a limit is enforced.
 * - A job that shares no node with any pending job before it gets a reservation
 *   as well. There are as many heads as queues with disjoint sets of nodes.
 * - With preemption (preempt.h), the job that receives the released GPUs is not
 *   a head: the plan itself reserves its place. For a head that follows it,
 *   these GPUs are taken.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/planner.h"
#include "scheduler/policy/policy.h"
#include "scheduler/policy/preempt.h"
#include "scheduler/policy/reservations.h"

/* When GPUs are released, and on which nodes. */
struct ending {
    double end_s;
    const struct policy_job *job;
    struct place place;
    const int32_t *at; /* borrowed; NULL: not known */
};

/* A job with a reservation. The classes within reach of two heads are
 * disjoint. */
struct head {
    const struct policy_job *job;
    double at_s;              /* INFINITY: unknown */
    struct policy_node *then; /* owned; GPUs free at that time */
};

struct backfill {
    struct plan plan;
    struct ending *ends; /* owned; running jobs, and jobs that this plan
                            started */
    size_t n_ends;
    int32_t *ats; /* owned; nodes of the jobs that this plan started */
    size_t n_ats, cap_ats;

    struct head heads[POLICY_CLASSES];
    size_t n_heads;
    uint64_t waited_for; /* classes that a pending job waits for */
};

static int by_end(const void *a, const void *b)
{
    const struct ending *x = a, *y = b;
    if (x->end_s < y->end_s || x->end_s > y->end_s)
        return x->end_s < y->end_s ? -1 : 1;
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* A running job with an unknown placement releases nothing, unless only one
 * node can hold it. */
static void add_running(struct backfill *b, const struct policy_job *job)
{
    static const int32_t only[1] = {0};
    const struct policy_view *v = b->plan.view;
    double start_s = isnan(job->start_s) ? v->now_s : job->start_s;

    if ((job->gpus < 1 && !job->is_exclusive) || job->nodes < 1)
        return;
    double end_s = start_s + job->limit_s;
    if (policy_is_resizing(job) && job->leaves_s < end_s)
        end_s = job->leaves_s;
    b->ends[b->n_ends++] = (struct ending){
        .end_s = fmax(end_s, v->now_s),
        .job = job,
        .place = place_of(job, job->nodes, job->gpus / job->nodes),
        .at = job->at           ? job->at
              : v->n_nodes == 1 ? only
                                : NULL,
    };
}

/* The plan has just started this job. Each of its nodes provided at least one
 * GPU, so ats[], which has room for every GPU, has room for its nodes. Without
 * room, the job counts as one that releases nothing. */
static void add_started(struct backfill *b, const struct policy_job *job,
                        struct place place)
{
    if ((place.per_node == 0 && !place.is_whole) ||
        b->n_ats + (size_t)place.nodes > b->cap_ats)
        return;
    int32_t *at = &b->ats[b->n_ats];
    memcpy(at, b->plan.at, (size_t)place.nodes * sizeof(*at));
    b->n_ats += (size_t)place.nodes;
    b->ends[b->n_ends++] = (struct ending){
        .end_s = b->plan.view->now_s + job->limit_s,
        .job = job,
        .place = place,
        .at = at,
    };
}

/* Skip jobs that were told to leave: the picture includes their GPUs from the
 * start. */
static void give_back(const struct plan *p, struct policy_node *nodes,
                      const struct ending *end)
{
    if (!end->at || (p->soon && p->leaves[end->job - p->view->jobs]))
        return;
    place_add(nodes, end->at, end->place, 1);
    for (int32_t k = 0; k < end->place.nodes; k++) {
        struct policy_node *node = &nodes[end->at[k]];
        struct policy_node *first = node - node->part;
        int32_t n = node->n_parts > 1 ? node->n_parts : 1;
        for (int32_t i = 0; i < n; i++)
            if (first[i].gpus_free > first[i].gpus_total)
                first[i].gpus_free = first[i].gpus_total;
    }
}

/* err  ERR_NOMEM */
static int reserve(struct backfill *b, const struct policy_job *job,
                   const struct head **ret, struct error *err)
{
    size_t n = b->plan.view->n_nodes;
    struct head *head = &b->heads[b->n_heads];
    struct place place;
    bool fits = false;

    *head = (struct head){.job = job, .at_s = INFINITY};
    head->then = malloc((n + 1) * sizeof(*head->then));
    if (!head->then)
        return error_set(err, ERR_NOMEM, "out of memory");
    b->n_heads++;
    reservations_picture(&b->plan, head->then);
    qsort(b->ends, b->n_ends, sizeof(*b->ends), by_end);
    for (size_t i = 0; i < b->n_ends && !fits;) {
        double t = b->ends[i].end_s;
        while (i < b->n_ends && b->ends[i].end_s <= t)
            give_back(&b->plan, head->then, &b->ends[i++]);
        fits = place_find(head->then, n, job, &place);
        if (fits)
            head->at_s = t;
    }
    *ret = head;
    return 0;
}

static bool meets(const struct backfill *b, const struct head *head,
                  const struct policy_job *job)
{
    return (plan_reach(&b->plan, head->job) & plan_reach(&b->plan, job)) != 0;
}

/* Whether the head still starts at its time if the job runs at p->at. */
static bool leaves_place(const struct backfill *b, const struct head *head,
                         const struct policy_job *job, struct place place)
{
    const struct plan *p = &b->plan;
    struct place head_place;
    double end_s = p->view->now_s + job->limit_s;

    if (isfinite(end_s) && end_s <= head->at_s)
        return true;
    place_add(head->then, p->at, place, -1);
    if (place_find(head->then, p->view->n_nodes, head->job, &head_place))
        return true;
    place_add(head->then, p->at, place, 1);
    return false;
}

/* Undo what leaves_place() took for the heads before the one that is
 * delayed. */
static void take_back(struct backfill *b, size_t n_heads,
                      const struct policy_job *job, struct place place)
{
    double end_s = b->plan.view->now_s + job->limit_s;

    for (size_t i = 0; i < n_heads; i++) {
        struct head *head = &b->heads[i];
        bool was_short = isfinite(end_s) && end_s <= head->at_s;
        if (meets(b, head, job) && !was_short)
            place_add(head->then, b->plan.at, place, 1);
    }
}

/* Starts the job if every head within reach still starts at its time. Tries
 * both pictures: what is free now, and what is free at the time of the head.
 * Returns NULL, or the job that the start would delay.
 * out  ret_reservation  the same job if GPUs are reserved for it by preemption;
 * or NULL ret_at_s  start time of that job */
static const struct policy_job *start_beside(
    struct backfill *b, const struct policy_job *job, struct place place,
    const struct plan_reservation **ret_reservation, double *ret_at_s)
{
    struct plan *p = &b->plan;
    struct policy_job there = *job;

    there.classes = place.classes; /* heads that wait for other nodes do not
                                      matter */
    const struct plan_reservation *reservation = plan_start(p, &there, place);

    *ret_reservation = reservation;
    if (reservation) {
        *ret_at_s = reservation->at_s;
        return reservation->job;
    }
    for (size_t i = 0; i < b->n_heads; i++) {
        if (!meets(b, &b->heads[i], &there) ||
            leaves_place(b, &b->heads[i], job, place))
            continue;
        take_back(b, i, &there, place);
        plan_unstart(p, place);
        *ret_at_s = b->heads[i].at_s;
        return b->heads[i].job;
    }
    add_started(b, job, place);
    return NULL;
}

/* Bit per head: the job would end before the start of that head. */
static uint64_t short_for(const struct backfill *b,
                          const struct policy_job *job)
{
    double end_s = b->plan.view->now_s + job->limit_s;
    uint64_t is_short = 0;

    for (size_t i = 0; isfinite(end_s) && i < b->n_heads; i++)
        is_short |= (uint64_t)(end_s <= b->heads[i].at_s) << i;
    return is_short;
}

/* start_beside(), with a memo per shape. A job of a shape that was rejected is
 * not tried again unless it ends before other start times. A start, another
 * head, or a change of the preemption reservations invalidates the memo. A job
 * with a reservation of its own has no shape in common with others. */
static const struct policy_job *try_beside(struct backfill *b,
                                           const struct policy_job *job,
                                           const struct policy_job *as,
                                           struct place place, double *ret_at_s)
{
    struct plan *p = &b->plan;
    struct plan_delay now = {.state = p->state,
                             .reservations_state = p->reservations_state,
                             .n_heads = b->n_heads,
                             .is_short = short_for(b, job)};
    const struct plan_delay *was = plan_delay(p, as);

    if (!job->has_reservation && was->state == now.state &&
        was->reservations_state == now.reservations_state &&
        was->n_heads == now.n_heads && was->is_short == now.is_short) {
        *ret_at_s =
            was->reservation ? was->reservation->at_s : b->heads[was->by].at_s;
        return was->reservation ? was->reservation->job : b->heads[was->by].job;
    }
    const struct policy_job *delayed =
        start_beside(b, job, place, &now.reservation, ret_at_s);
    if (!job->has_reservation && delayed) {
        while (!now.reservation && b->heads[now.by].job != delayed)
            now.by++;
        *plan_delay(p, as) = now;
    }
    return delayed;
}

/* Tries one set of nodes after the other; true if the job starts.
 * out  ret_delayed  NULL: the job fits on no set now; else the job that it
 *      would delay on the last set on which it fits, and the start time of that
 *      job */
static bool start_somewhere(struct backfill *b, const struct policy_job *job,
                            const struct policy_job **ret_delayed,
                            double *ret_at_s)
{
    size_t n_sets = job->n_sets > 0 ? job->n_sets : 1;
    struct place place;

    *ret_delayed = NULL;
    for (size_t i = 0; i < n_sets; i++) {
        struct policy_job there;
        const struct policy_job *as = job;
        if (job->n_sets > 0) {
            there = *job;
            there.sets = &job->sets[i];
            there.n_sets = 1;
            as = &there;
        }
        if (!plan_find(&b->plan, as, &place))
            continue;
        *ret_delayed = try_beside(b, job, as, place, ret_at_s);
        if (!*ret_delayed)
            return true;
    }
    return false;
}

static int consider(struct backfill *b, const struct policy_job *job,
                    struct error *err)
{
    struct plan *p = &b->plan;
    bool is_first = (b->waited_for & plan_reach(p, job)) == 0;
    const struct policy_job *delayed = NULL;
    const struct head *head = NULL;
    double at_s = NAN; /* if `delayed` is set */

    if (!plan_ever(p, job, true)) {
        plan_never_fits(p, job);
        return 0;
    }
    if (start_somewhere(b, job, &delayed, &at_s))
        return 0;
    if (!delayed && !plan_ever(p, job, false)) {
        plan_lacks_gpus(p, job, NAN);
        return 0;
    }
    if (is_first && preempt_for(p, job, delayed, at_s))
        return 0; /* the plan reserves its place */
    if (delayed) {
        plan_reserved(p, job, delayed, at_s);
        b->waited_for |= plan_reach(p, job);
        return 0;
    }
    if (is_first && reserve(b, job, &head, err) < 0)
        return -1;
    plan_lacks_gpus(p, job,
                    head && isfinite(head->at_s) ? head->at_s : (double)NAN);
    b->waited_for |= plan_reach(p, job);
    return 0;
}

/* A job that leaves for another size goes before the jobs behind it: the GPUs
 * of that size are set aside, or it is a head. */
static int consider_resizing(struct backfill *b, const struct policy_job *job,
                             struct error *err)
{
    struct plan *p = &b->plan;
    const struct head *head;

    if (plan_hold(p, job) || (b->waited_for & plan_reach(p, job)) != 0)
        return 0;
    if (reserve(b, job, &head, err) < 0)
        return -1;
    b->waited_for |= plan_reach(p, job);
    return 0;
}

static int prepare(struct backfill *b, struct error *err)
{
    const struct policy_view *v = b->plan.view;
    size_t n_free = 0;

    for (size_t i = 0; i < v->n_nodes; i++)
        n_free += (size_t)v->nodes[i].gpus_free;
    b->ends = malloc((v->n_jobs + 1) * sizeof(*b->ends));
    b->cap_ats = n_free + 1;
    b->ats = malloc(b->cap_ats * sizeof(*b->ats));
    if (!b->ends || !b->ats)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < v->n_jobs; i++) {
        if (job_state_is_live(v->jobs[i].state))
            add_running(b, &v->jobs[i]);
    }
    return 0;
}

static int backfill_plan(const struct policy_view *view,
                         struct policy_decision *decisions, size_t cap,
                         size_t *ret_n, struct error *err)
{
    struct backfill b = {.n_heads = 0};

    if (plan_begin(&b.plan, view, decisions, cap, err) < 0)
        return -1;
    int rc = prepare(&b, err);
    for (size_t i = 0; rc == 0 && i < view->n_jobs; i++) {
        if (view->jobs[i].state == JOB_QUEUED)
            rc = consider(&b, &view->jobs[i], err);
        else if (policy_is_resizing(&view->jobs[i]))
            rc = consider_resizing(&b, &view->jobs[i], err);
    }
    if (rc == 0)
        *ret_n = b.plan.n;
    free(b.ends);
    free(b.ats);
    for (size_t i = 0; i < b.n_heads; i++)
        free(b.heads[i].then);
    plan_end(&b.plan);
    return rc;
}

const struct policy policy_backfill = {
    .name = "backfill",
    .summary = "by priority and arrival; later jobs fill gaps where they delay "
               "no reservation",
    .plan = backfill_plan,
};
