/* backfill.c - in order, and around the first that waits (EASY backfill).
 *
 * The first job that does not fit now, the head, gets a reservation: the
 * earliest time at which enough GPUs of a shape it accepts are free, if
 * every running job ends at its time limit. A later job starts when it fits
 * now and either ends, by its own limit, before that time, or leaves the
 * head its place at that time. So the head never waits longer than it would
 * in strict order, and short jobs fill the holes.
 *
 * - The shadow is per node, not one number: counting only GPUs starves wide
 *   jobs on a fragmented cluster.
 * - A running job without a limit never gives its GPUs back, as far as the
 *   reservation knows. When the head depends on such a job its time is
 *   unknown: later jobs with a limit still start (their end is certain, the
 *   head's start is not), those without one only beside the head's place.
 * - A head that would not fit on the nodes that are up, even if empty, gets
 *   no reservation: nobody knows when a node comes back.
 * - Only limits count as ends, never estimates: a limit is enforced.
 * - A job that can use none of the nodes that any job before it waits for has
 *   a reservation, too: there are as many heads as lines that do not touch.
 * - Where devices are taken back (preempt.h), who gets them is no head: its
 *   place is kept by the plan. For a head that follows it they are gone.
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

/* When, and on which nodes, GPUs come free. */
struct ending {
    double end_s;
    const struct policy_job *job;
    struct place place;
    const int32_t *at; /* borrowed; NULL: not known */
};

/* A job with a reservation. Heads' classes, as far as they reach, do not
 * meet. */
struct head {
    const struct policy_job *job;
    double at_s;              /* INFINITY: not known */
    struct policy_node *then; /* owned; what is free at that time */
};

struct backfill {
    struct plan plan;
    struct ending *ends; /* owned; running jobs, and those started here */
    size_t n_ends;
    int32_t *ats; /* owned; the nodes of those started here */
    size_t n_ats, cap_ats;

    struct head heads[POLICY_CLASSES];
    size_t n_heads;
    uint64_t waited_for; /* classes that some job waits for */
};

static int by_end(const void *a, const void *b)
{
    const struct ending *x = a, *y = b;
    if (x->end_s < y->end_s || x->end_s > y->end_s)
        return x->end_s < y->end_s ? -1 : 1;
    return (x->job->id > y->job->id) - (x->job->id < y->job->id);
}

/* One whose place is not known gives nothing back, unless there is only one
 * node that it can be on. */
static void add_running(struct backfill *b, const struct policy_job *job)
{
    static const int32_t only[1] = {0};
    const struct policy_view *v = b->plan.view;
    double start_s = isnan(job->start_s) ? v->now_s : job->start_s;

    if ((job->gpus < 1 && !job->is_exclusive) || job->nodes < 1)
        return;
    b->ends[b->n_ends++] = (struct ending){
        .end_s = fmax(start_s + job->limit_s, v->now_s),
        .job = job,
        .place = place_of(job, job->nodes, job->gpus / job->nodes),
        .at = job->at           ? job->at
              : v->n_nodes == 1 ? only
                                : NULL,
    };
}

/* The plan has just started it. Each of its nodes gave at least one GPU, so
 * ats[], which has room for every GPU, has room for them; if not, there is
 * nothing to give back. */
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

/* What those leave who are told to is in the picture from the first. */
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
    owed_picture(&b->plan, head->then);
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

/* Whether the head would still start at its time with the job at p->at. */
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

/* What leaves_place() took for heads before the one that is in the way. */
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

/* Starts the job if every head that it meets would still start at its time:
 * tried on both pictures, what is free now and what is free then. NULL, or
 * the job that it would delay.
 * out  ret_owed  the same, if it is one that is owed devices; or NULL
 *      ret_at_s  when that one is to start */
static const struct policy_job *start_beside(struct backfill *b,
                                             const struct policy_job *job,
                                             struct place place,
                                             const struct plan_owed **ret_owed,
                                             double *ret_at_s)
{
    struct plan *p = &b->plan;
    struct policy_job there = *job;

    there.classes = place.classes; /* who waits for others is not met */
    const struct plan_owed *owed = plan_start(p, &there, place);

    *ret_owed = owed;
    if (owed) {
        *ret_at_s = owed->at_s;
        return owed->job;
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

/* By head: the job would have ended by then. */
static uint64_t short_for(const struct backfill *b,
                          const struct policy_job *job)
{
    double end_s = b->plan.view->now_s + job->limit_s;
    uint64_t is_short = 0;

    for (size_t i = 0; isfinite(end_s) && i < b->n_heads; i++)
        is_short |= (uint64_t)(end_s <= b->heads[i].at_s) << i;
    return is_short;
}

/* start_beside(), which is not gone through again for a job of a shape that it
 * did not start, unless that ends before other times. A start, a head more, or
 * another who is owed devices changes what it goes by. Who is owed some himself
 * is like nobody else. */
static const struct policy_job *try_beside(struct backfill *b,
                                           const struct policy_job *job,
                                           const struct policy_job *as,
                                           struct place place, double *ret_at_s)
{
    struct plan *p = &b->plan;
    struct plan_delay now = {.state = p->state,
                             .owed_state = p->owed_state,
                             .n_heads = b->n_heads,
                             .is_short = short_for(b, job)};
    const struct plan_delay *was = plan_delay(p, as);

    if (!job->is_owed && was->state == now.state &&
        was->owed_state == now.owed_state && was->n_heads == now.n_heads &&
        was->is_short == now.is_short) {
        *ret_at_s = was->owed ? was->owed->at_s : b->heads[was->by].at_s;
        return was->owed ? was->owed->job : b->heads[was->by].job;
    }
    const struct policy_job *delayed =
        start_beside(b, job, place, &now.owed, ret_at_s);
    if (!job->is_owed && delayed) {
        while (!now.owed && b->heads[now.by].job != delayed)
            now.by++;
        *plan_delay(p, as) = now;
    }
    return delayed;
}

/* On one set of nodes after the other; true when it starts.
 * out  ret_delayed  NULL: it fits on none now; else whom it would delay on the
 *      last on which it does, and when that one is to start */
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
    double at_s = NAN; /* when `delayed` is */

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
        return 0; /* its place is kept */
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
                         struct policy_wish *wishes, size_t cap, size_t *ret_n,
                         struct error *err)
{
    struct backfill b = {.n_heads = 0};

    if (plan_begin(&b.plan, view, wishes, cap, err) < 0)
        return -1;
    int rc = prepare(&b, err);
    for (size_t i = 0; rc == 0 && i < view->n_jobs; i++) {
        if (view->jobs[i].state == JOB_QUEUED)
            rc = consider(&b, &view->jobs[i], err);
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
    .summary = "by priority and arrival; later jobs fill holes where they "
               "delay nobody's reservation",
    .plan = backfill_plan,
};
