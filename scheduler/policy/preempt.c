/* preempt.c - choose the jobs to preempt for a pending job.
 *
 * Choosing victims is a knapsack problem; use a greedy heuristic. Sort the
 * preemptible jobs by the work that their preemption loses and take them from
 * the beginning of the row until the request fits. Then drop victims, most
 * expensive first, that are not needed. So no job is preempted without need.
 * The search runs in two orders, smallest loss first and largest job first. The
 * better set is the one that loses less work, then the one with fewer jobs,
 * then the one with fewer GPUs.
 */
#include "scheduler/policy/preempt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/reservations.h"

/* ---- who may go ----------------------------------------------------------
 */
struct victim {
    const struct policy_job *job;
    double lost; /* GPU-seconds */
    bool is_out; /* not needed */
};

struct set {
    struct victim *v; /* owned; the preemptible jobs, in one of the orders */
    size_t n_may, n;  /* the first n are considered */
    double lost;
    int32_t n_jobs, gpus; /* of the chosen victims */
    struct place place;   /* of the job that gets the GPUs */
};

static bool may_go(const struct plan *p, const struct policy_job *job,
                   const struct policy_job *who)
{
    const struct policy_view *v = p->view;

    return job->may_go && reservations_has_devices(job) &&
           !p->leaves[job - v->jobs] && !job->is_leaving &&
           job->priority < who->priority &&
           v->now_s >= job->start_s + v->preempt.min_runtime_s &&
           v->now_s >= job->preempted_s + POLICY_PREEMPT_AGAIN_S;
}

/* Whether one of its nodes is useful. */
static bool is_near(const struct plan *p, const struct policy_job *job,
                    const struct policy_job *who)
{
    for (int32_t k = 0; k < job->nodes; k++) {
        const struct policy_node *node = &p->nodes[job->at[k]];
        if (node->is_up && place_may_use(plan_reach(p, who), node))
            return true;
    }
    return false;
}

/* The tie-break in both orders: the youngest attempt first. */
static int by_rest(const struct policy_job *a, const struct policy_job *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority ? -1 : 1;
    if (a->start_s < b->start_s || a->start_s > b->start_s)
        return a->start_s > b->start_s ? -1 : 1;
    return (a->id < b->id) - (a->id > b->id);
}

static int by_loss(const void *x, const void *y)
{
    const struct victim *a = x, *b = y;
    if (a->lost < b->lost || a->lost > b->lost)
        return a->lost < b->lost ? -1 : 1;
    return by_rest(a->job, b->job);
}

static int by_size(const void *x, const void *y)
{
    const struct victim *a = x, *b = y;
    if (a->lost < b->lost || a->lost > b->lost)
        return a->lost < b->lost ? -1 : 1;
    if (a->job->gpus != b->job->gpus)
        return a->job->gpus > b->job->gpus ? -1 : 1;
    return by_rest(a->job, b->job);
}

/* On p->trial, the nodes that are left for the job. */
static bool fits_with(const struct plan *p, const struct policy_job *who,
                      struct set *s, size_t n)
{
    (void)reservations_place(p, p->soon);
    for (size_t i = 0; i < n; i++)
        reservations_add(p->trial, s->v[i].job, 1);
    return place_find(p->trial, p->view->n_nodes, who, &s->place);
}

/* Takes the shortest prefix of the row that suffices, then only the victims
 * that are needed. The whole row must be enough. */
static void choose(const struct plan *p, const struct policy_job *who,
                   struct set *s)
{
    size_t lo = 0, hi = s->n_may;

    while (lo + 1 < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (fits_with(p, who, s, mid))
            hi = mid;
        else
            lo = mid;
    }
    s->n = hi;
    s->lost = 0;
    s->n_jobs = s->gpus = 0;
    (void)fits_with(p, who, s, hi);
    for (size_t i = hi; i-- > 0;) {
        struct victim *v = &s->v[i];
        reservations_add(p->trial, v->job, -1);
        v->is_out = place_find(p->trial, p->view->n_nodes, who, &s->place);
        if (v->is_out)
            continue;
        reservations_add(p->trial, v->job, 1);
        s->lost += v->lost;
        s->n_jobs++;
        s->gpus += v->job->gpus;
    }
    (void)place_find(p->trial, p->view->n_nodes, who, &s->place);
}

static bool is_better(const struct set *a, const struct set *b)
{
    if (a->lost < b->lost || a->lost > b->lost)
        return a->lost < b->lost;
    if (a->n_jobs != b->n_jobs)
        return a->n_jobs < b->n_jobs;
    return a->gpus < b->gpus;
}

/* False: even all preemptible jobs together are not enough; or out of memory,
 * and the next plan tries again. own ret->v */
static bool find_set(const struct plan *p, const struct policy_job *who,
                     struct set *ret)
{
    size_t n = p->view->n_jobs;
    struct set small = {.v = malloc((n + 1) * sizeof(*small.v))};
    struct set large = {.v = malloc((n + 1) * sizeof(*large.v))};

    for (size_t i = 0; small.v && large.v && i < n; i++) {
        const struct policy_job *job = &p->view->jobs[i];
        if (may_go(p, job, who) && is_near(p, job, who))
            small.v[small.n_may++] = (struct victim){
                .job = job,
                .lost = job->lost_s * (job->gpus > 0 ? job->gpus : 1)};
    }
    if (small.n_may == 0 || !fits_with(p, who, &small, small.n_may)) {
        free(small.v);
        free(large.v);
        return false;
    }
    large.n_may = small.n_may;
    memcpy(large.v, small.v, small.n_may * sizeof(*small.v));
    qsort(small.v, small.n_may, sizeof(*small.v), by_loss);
    qsort(large.v, large.n_may, sizeof(*large.v), by_size);
    choose(p, who, &small);
    choose(p, who, &large);
    bool is_large = is_better(&large, &small);
    *ret = is_large ? large : small;
    free(is_large ? small.v : large.v);
    return true;
}

/* ---- the decisions ----------------------------------------------------------
 */
static void let_go(struct plan *p, const struct policy_job *job,
                   const struct policy_job *who)
{
    struct policy_decision *w = &p->decisions[p->n++];

    *w = (struct policy_decision){.act = POLICY_PREEMPT,
                                  .id = job->id,
                                  .for_id = who->id,
                                  .start_s = NAN};
    (void)snprintf(w->reason, sizeof(w->reason),
                   "Preempted: for job %" PRIu64 ", priority %" PRId32
                   " over %" PRId32,
                   who->id, who->priority, job->priority);
    p->leaves[job - p->view->jobs] = true;
    p->n_leaving++;
}

enum { NAMED_MAX = 4 };

/* The victims of this and of earlier plans: "jobs 3, 5 and 2 more". */
struct leaving {
    char names[64];
    int32_t n;
    double at_s; /* when the last victim has left */
};

static void note_leaving(struct leaving *l, const struct policy_job *job,
                         double at_s)
{
    size_t len = strlen(l->names);

    if (l->n++ < NAMED_MAX)
        (void)snprintf(l->names + len, sizeof(l->names) - len, "%s%" PRIu64,
                       len > 0 ? ", " : "", job->id);
    l->at_s = fmax(l->at_s, at_s);
}

static struct leaving leaving_for(const struct plan *p,
                                  const struct policy_job *who,
                                  const struct set *s)
{
    struct leaving l = {.at_s = p->view->now_s};

    for (size_t i = 0; i < p->view->n_jobs; i++) {
        const struct policy_job *job = &p->view->jobs[i];
        if (job->is_leaving && job->leaves_for == who->id)
            note_leaving(&l, job, job->leaves_s);
    }
    for (size_t i = 0; s && i < s->n; i++)
        if (!s->v[i].is_out)
            note_leaving(&l, s->v[i].job,
                         p->view->now_s + s->v[i].job->grace_s);
    return l;
}

/* Makes the job wait for the GPUs of its victims. If the victims leave for
 * other reasons, the reason is the one it would have without preemption. */
static void say_reserved(struct plan *p, const struct policy_job *job,
                         const struct leaving *l, double at_s)
{
    char more[32] = "";

    plan_lacks_gpus(p, job, at_s);
    struct policy_decision *w = &p->decisions[p->n - 1];
    if (l->n > NAMED_MAX)
        (void)snprintf(more, sizeof(more), " and %" PRId32 " more",
                       l->n - NAMED_MAX);
    if (l->n > 0) {
        char text[sizeof(w->reason) + sizeof(l->names) + sizeof(more)];
        (void)snprintf(text, sizeof(text),
                       "WaitingForPreemption: needs %" PRId32
                       ", released by job%s %s%s",
                       job->gpus_min, l->n > 1 ? "s" : "", l->names, more);
        text[sizeof(w->reason) - 1] = '\0';
        memcpy(w->reason, text, sizeof(w->reason));
    } else if (job->has_reservation)
        (void)snprintf(w->reason, sizeof(w->reason),
                       "WaitingForPreemption: needs %" PRId32
                       ", which have been released",
                       job->gpus_min);
}

static void leave(struct plan *p, const struct set *s, int32_t sign)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->v[i].is_out)
            reservations_leaves(p, s->v[i].job, sign);
}

/* Records the reservation and the victims if all jobs with a reservation then
 * have a place. With more GPUs free on some nodes, best fit may move the older
 * reservations, and a job that has just started may be placed late and land
 * there. */
static bool settle(struct plan *p, const struct plan_reservation *o,
                   const struct set *s)
{
    p->reservations[p->n_reservations++] = *o;
    leave(p, s, 1);
    if (reservations_fit(p))
        return true;
    leave(p, s, -1);
    p->n_reservations--;
    return false;
}

/* out  ret_set  the victims, if there are any: free ret_set->v */
static bool decide(struct plan *p, const struct policy_job *job,
                   struct set *ret_set)
{
    struct plan_reservation o = {.job = job};

    *ret_set = (struct set){.v = NULL};
    (void)reservations_place(p, p->soon);
    if (place_find(p->trial, p->view->n_nodes, job, &o.place))
        return settle(p, &o, ret_set);
    if (!find_set(p, job, ret_set))
        return false;
    o.place = ret_set->place;
    if (settle(p, &o, ret_set))
        return true;
    free(ret_set->v);
    return false;
}

static void say(struct plan *p, struct plan_reservation *o, const struct set *s,
                const struct policy_job *delayed, double delayed_at_s)
{
    struct leaving l = leaving_for(p, o->job, s);

    o->at_s = l.n > 0 ? l.at_s : p->view->now_s + p->view->preempt.grace_s;
    if (delayed && l.n == 0 && !o->job->has_reservation)
        plan_reserved(p, o->job, delayed, delayed_at_s);
    else
        say_reserved(p, o->job, &l, o->at_s);
    if (o->is_stuck)
        return;
    struct policy_decision *w = &p->decisions[p->n - 1];
    w->start_s = o->at_s;
    w->has_reservation = 1;
    w->nodes = o->place.nodes;
    w->gpus_per_node = o->place.per_node;
    w->classes = o->place.classes;
}

bool preempt_for(struct plan *p, const struct policy_job *job,
                 const struct policy_job *delayed, double at_s)
{
    struct plan_reservation *o;
    struct set s;

    if (!p->soon)
        return false;
    if ((o = reservations_find(p, job))) {
        say(p, o, NULL, delayed, at_s);
        return true;
    }
    if (reservations_stuck_before(p, job) || !decide(p, job, &s))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!s.v[i].is_out)
            let_go(p, s.v[i].job, job);
    say(p, &p->reservations[p->n_reservations - 1], &s, delayed, at_s);
    p->reservations_state++;
    free(s.v);
    return true;
}
