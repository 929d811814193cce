/* planner.c - state of a plan in progress: free GPUs, decisions and reasons.
 *
 * Caches the search results per shape (planner.h) and writes the reason of each
 * pending job. The reason tokens are those of mgpu-stat(1).
 */
#include "scheduler/policy/planner.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/policy/reservations.h"

enum {
    CAP = sizeof(((struct policy_decision *)NULL)->reason),
    SHAPES_MAX = 512, /* 90 KB; a collision only costs time */
};

/* What the plan knows about all jobs with the same request. */
struct plan_shape {
    bool is_used;
    int32_t gpus_min, gpus_max, nodes_min, nodes_max, per_node, parts;
    int32_t is_exclusive;
    uint64_t classes, classes_ever;
    const uint64_t *sets; /* borrowed from the view, which uses one array for
                             all jobs */
    size_t n_sets;

    int32_t ever[2];       /* by with_down; -1: not computed */
    uint64_t found_state;  /* plan.state for which the next fields hold */
    uint64_t worded_state; /* plan.state of the reason; 0: none yet */
    bool fits;
    uint64_t lacks_until; /* !fits: valid while it equals plan.undone */
    struct place place;
    struct plan_delay delay;
    char lacks[CAP]; /* the reason */
};

/* Parts of a machine that lacks CPUs for all of its GPUs compete with each
 * other. Otherwise parts compete only if one job wants the machine
 * exclusively. */
static void find_near(struct plan *p)
{
    const struct policy_view *v = p->view;

    for (size_t i = 0; i < v->n_nodes; i++) {
        const struct policy_node *first = &v->nodes[i];
        uint64_t all = 0;
        int64_t gpus = 0;
        if (first->part > 0 || first->n_parts < 2)
            continue;
        for (int32_t k = 0; k < first->n_parts; k++) {
            all |= UINT64_C(1) << (unsigned)first[k].class_id;
            gpus += first[k].gpus_total;
        }
        for (int32_t k = 0; k < first->n_parts; k++) {
            int32_t c = first[k].class_id;
            p->has_parts = true;
            p->near_alone[c] |= all;
            p->near[c] |= first->shared_total < gpus ? all : 0;
        }
    }
}

uint64_t plan_reach(const struct plan *p, const struct policy_job *job)
{
    const uint64_t *near = job->is_exclusive ? p->near_alone : p->near;
    uint64_t reach = job->classes;

    for (int32_t c = 0; p->has_parts && c < POLICY_CLASSES; c++)
        if (job->classes >> (unsigned)c & 1)
            reach |= near[c];
    return reach;
}

int plan_begin(struct plan *p, const struct policy_view *view,
               struct policy_decision *decisions, size_t cap, struct error *err)
{
    if (policy_check_view(view, cap, err) < 0)
        return -1;
    *p = (struct plan){.view = view,
                       .decisions = decisions,
                       .cap = cap,
                       .n_shapes = 1,
                       .state = 1,
                       .last_state = 1};
    size_t n = view->n_nodes > 0 ? view->n_nodes : 1;
    while (p->n_shapes < SHAPES_MAX && p->n_shapes < view->n_jobs)
        p->n_shapes *= 2;
    p->nodes = malloc(n * sizeof(*p->nodes));
    p->at = malloc(n * sizeof(*p->at));
    p->shapes = p->last_shape = calloc(p->n_shapes, sizeof(*p->shapes));
    if (!p->nodes || !p->at || !p->shapes) {
        plan_end(p);
        return error_set(err, ERR_NOMEM, "out of memory");
    }
    if (view->n_nodes > 0)
        memcpy(p->nodes, view->nodes, view->n_nodes * sizeof(*p->nodes));
    find_near(p);
    if (view->preempt.is_on && reservations_begin(p, err) < 0) {
        plan_end(p);
        return -1;
    }
    return 0;
}

void plan_end(struct plan *p)
{
    free(p->nodes);
    free(p->at);
    free(p->shapes);
    reservations_end(p);
    p->nodes = NULL;
    p->at = NULL;
    p->shapes = NULL;
}

/* ---- shapes ----------------------------------------------------------------
 */
static size_t hash(const struct policy_job *job)
{
    const uint64_t parts[] = {
        (uint64_t)(uint32_t)job->gpus_min << 32 | (uint32_t)job->gpus_max,
        (uint64_t)(uint32_t)job->nodes_min << 32 | (uint32_t)job->nodes_max,
        job->classes,
        job->classes_ever ^ (uint64_t)job->is_exclusive,
        (uint64_t)(uintptr_t)job->sets + job->n_sets,
        (uint64_t)(uint32_t)job->per_node << 32 | (uint32_t)job->parts};
    uint64_t h = 0;

    /* Fibonacci hashing; the high bits depend on all bits below them. */
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        h = ((h ^ parts[i]) * 0x9e3779b97f4a7c15u) ^ (h >> 32);
    return (size_t)(h >> 40);
}

static bool has_shape(const struct plan_shape *s, const struct policy_job *job)
{
    return s->is_used && s->gpus_min == job->gpus_min &&
           s->gpus_max == job->gpus_max && s->nodes_min == job->nodes_min &&
           s->nodes_max == job->nodes_max && s->per_node == job->per_node &&
           s->parts == job->parts && s->is_exclusive == job->is_exclusive &&
           s->classes == job->classes && s->classes_ever == job->classes_ever &&
           s->sets == job->sets && s->n_sets == job->n_sets;
}

static struct plan_shape *shape_of(struct plan *p, const struct policy_job *job)
{
    /* Callers ask several times in a row about one job. */
    if (has_shape(p->last_shape, job))
        return p->last_shape;
    struct plan_shape *s = &p->shapes[hash(job) & (p->n_shapes - 1)];
    p->last_shape = s;
    if (!has_shape(s, job))
        *s = (struct plan_shape){.is_used = true,
                                 .gpus_min = job->gpus_min,
                                 .gpus_max = job->gpus_max,
                                 .nodes_min = job->nodes_min,
                                 .nodes_max = job->nodes_max,
                                 .per_node = job->per_node,
                                 .parts = job->parts,
                                 .is_exclusive = job->is_exclusive,
                                 .classes = job->classes,
                                 .classes_ever = job->classes_ever,
                                 .sets = job->sets,
                                 .n_sets = job->n_sets,
                                 .ever = {-1, -1}};
    return s;
}

bool plan_ever(struct plan *p, const struct policy_job *job, bool with_down)
{
    int32_t *ever = &shape_of(p, job)->ever[with_down];

    if (*ever < 0)
        *ever = place_ever(p->nodes, p->view->n_nodes, job, with_down);
    return *ever != 0;
}

bool plan_find(struct plan *p, const struct policy_job *job, struct place *ret)
{
    struct plan_shape *s = shape_of(p, job);
    bool lacks = s->found_state > 0 && !s->fits && s->lacks_until == p->undone;

    if (s->found_state != p->state && !lacks) {
        s->fits = place_find(p->nodes, p->view->n_nodes, job, &s->place);
        s->found_state = p->state;
        s->lacks_until = p->undone;
        if (!s->fits)
            p->lacked_in = p->state;
    }
    if (s->fits)
        *ret = s->place;
    return s->fits;
}

struct plan_delay *plan_delay(struct plan *p, const struct policy_job *job)
{
    return &shape_of(p, job)->delay;
}

/* ---- starts ----------------------------------------------------------------
 */
/* The GPUs at p->at are taken. */
static const struct plan_reservation *started(struct plan *p,
                                              const struct policy_job *job,
                                              struct place place)
{
    const struct plan_reservation *reservation;

    if ((reservation = reservations_take(p, job, place))) {
        place_add(p->nodes, p->at, place, 1);
        return reservation;
    }
    p->before = p->state;
    p->state = ++p->last_state;
    p->decisions[p->n++] = (struct policy_decision){
        .act = POLICY_START,
        .id = job->id,
        .nodes = place.nodes,
        .gpus_per_node = place.per_node,
        .classes = place.classes,
        .start_s = p->view->now_s,
    };
    return NULL;
}

const struct plan_reservation *plan_start(struct plan *p,
                                          const struct policy_job *job,
                                          struct place place)
{
    place_take(p->nodes, p->view->n_nodes, place, p->at);
    return started(p, job, place);
}

const struct plan_reservation *plan_start_at(struct plan *p,
                                             const struct policy_job *job,
                                             struct place place,
                                             const int32_t *at)
{
    if (place.nodes > 0)
        memcpy(p->at, at, (size_t)place.nodes * sizeof(*at));
    place_add(p->nodes, p->at, place, -1);
    return started(p, job, place);
}

/* Its own GPUs are not free yet: they only make room. */
static void not_yet(struct plan *p, const struct policy_job *job,
                    const struct policy_node *before)
{
    for (int32_t k = 0; k < job->nodes; k++) {
        struct policy_node *node = &p->nodes[job->at[k]];
        struct policy_node *first = node - node->part;
        int32_t n = node->n_parts > 1 ? node->n_parts : 1;
        for (int32_t i = 0; i < n; i++) {
            const struct policy_node *was = &before[&first[i] - p->nodes];
            if (first[i].gpus_free > was->gpus_free)
                first[i].gpus_free = was->gpus_free;
            if (first[i].shared_free > was->shared_free)
                first[i].shared_free = was->shared_free;
        }
    }
}

bool plan_hold(struct plan *p, const struct policy_job *job)
{
    size_t n = p->view->n_nodes;
    struct policy_node *before = malloc((n + 1) * sizeof(*before));
    struct place place;

    if (!before || !job->at || job->nodes < 1) {
        free(before);
        return false;
    }
    if (n > 0)
        memcpy(before, p->nodes, n * sizeof(*before));
    place_add(p->nodes, job->at,
              place_of(job, job->nodes, job->gpus / job->nodes), 1);
    bool fits = place_find(p->nodes, n, job, &place);
    if (fits) {
        place_take(p->nodes, n, place, p->at);
        not_yet(p, job, before);
        p->state = ++p->last_state;
    } else if (n > 0) {
        memcpy(p->nodes, before, n * sizeof(*before));
    }
    free(before);
    return fits;
}

void plan_unstart(struct plan *p, struct place place)
{
    place_add(p->nodes, p->at, place, 1);
    reservations_untake(p, place);
    p->n--;
    if (p->lacked_in == p->state)
        p->undone++;
    p->state = p->before;
}

/* ---- reasons ---------------------------------------------------------------
 */

static char *wait(struct plan *p, const struct policy_job *job, double start_s)
{
    struct policy_decision *w = &p->decisions[p->n++];

    /* Do not clear the whole decision: the reason, most of it, is written next.
     */
    w->act = POLICY_WAIT;
    w->id = job->id;
    w->nodes = w->gpus_per_node = 0;
    w->classes = 0;
    w->start_s = start_s;
    w->lacks = w->has_reservation = 0;
    w->for_id = 0;
    return w->reason;
}

/* Totals of the nodes that the job may use, now or later. */
struct totals {
    int32_t total, free, most_total, most_free, n_nodes, n_down, n_empty;
};

static struct totals count(const struct policy_node *nodes, size_t n_nodes,
                           const struct policy_job *job)
{
    struct totals t = {0};
    int32_t room = 0; /* for GPUs of the other parts of the machine */
    bool is_counted = false;
    for (size_t i = 0; i < n_nodes; i++) {
        const struct policy_node *node = &nodes[i];
        is_counted = is_counted && node->part > 0;
        if (node->part == 0)
            room = node->shared_free;
        if (!place_may_use(job->classes_ever, node))
            continue;
        int32_t n = is_counted ? 0 : 1; /* a machine counts once */
        is_counted = true;
        t.n_nodes += n;
        t.total += node->gpus_total;
        if (node->gpus_total > t.most_total)
            t.most_total = node->gpus_total;
        if (!node->is_up || !place_may_use(job->classes, node)) {
            t.n_down += n;
            continue;
        }
        t.n_empty += place_is_empty(node) ? n : 0;
        int32_t free = place_free(node);
        if (free > t.most_free)
            t.most_free = free;
        free = node->n_parts > 1 && room < free ? room : free;
        room -= free;
        t.free += free;
    }
    return t;
}

enum { NODES_CAP = 48 };

/* "1 node", "2..4 empty nodes of 4 each" */
static const char *nodes_of(const struct policy_job *job, const char *what,
                            char ret[NODES_CAP])
{
    char from[16] = "", each[24] = "";
    if (job->per_node > 0)
        (void)snprintf(each, sizeof(each), " of %" PRId32 " each",
                       job->per_node);
    if (job->nodes_min < job->nodes_max)
        (void)snprintf(from, sizeof(from), "%" PRId32 "..", job->nodes_min);
    (void)snprintf(ret, NODES_CAP, "%s%" PRId32 " %snode%s%s", from,
                   job->nodes_max, what, job->nodes_max == 1 ? "" : "s", each);
    return ret;
}

void plan_never_fits(struct plan *p, const struct policy_job *job)
{
    struct totals t = count(p->nodes, p->view->n_nodes, job);
    char on[NODES_CAP];
    (void)snprintf(wait(p, job, NAN), CAP,
                   "NeverFits: needs %" PRId32 " on %s, there are %" PRId32
                   " on %" PRId32 ", at most %" PRId32 " on one",
                   job->gpus_min, nodes_of(job, "", on), t.total, t.n_nodes,
                   t.most_total);
}

static void word_fragmented(const struct policy_job *job,
                            const struct totals *t, char *ret)
{
    char on[NODES_CAP];

    (void)snprintf(ret, CAP,
                   "Fragmented: needs %" PRId32 " on %s, %" PRId32
                   " free, at most %" PRId32 " on one node",
                   job->gpus_min, nodes_of(job, "", on), t->free, t->most_free);
}

bool plan_say_fragmented(const struct policy_node *nodes, size_t n,
                         const struct policy_job *job, char *ret)
{
    struct totals t = count(nodes, n, job);
    struct place place;

    if (job->is_exclusive || job->gpus_min < 1 || t.free < job->gpus_min ||
        place_find(nodes, n, job, &place) || !place_ever(nodes, n, job, false))
        return false;
    word_fragmented(job, &t, ret);
    return true;
}

static void word_lack(struct plan *p, const struct policy_job *job, bool lacks,
                      char *ret)
{
    struct totals t = count(p->nodes, p->view->n_nodes, job);
    char on[NODES_CAP];

    if (!lacks)
        (void)snprintf(ret, CAP,
                       "WaitingForGpus: needs %" PRId32 ", %" PRId32
                       " free (%" PRId32
                       " node%s %s down, drained or reserved)",
                       job->gpus_min, t.free, t.n_down,
                       t.n_down == 1 ? "" : "s", t.n_down == 1 ? "is" : "are");
    else if (job->is_exclusive)
        (void)snprintf(ret, CAP,
                       "WaitingForGpus: needs %" PRId32 " on %s, %" PRId32
                       " are empty",
                       job->gpus_min, nodes_of(job, "empty ", on), t.n_empty);
    else if (t.free < job->gpus_min)
        (void)snprintf(ret, CAP,
                       "WaitingForGpus: needs %" PRId32 ", %" PRId32 " free",
                       job->gpus_min, t.free);
    else
        word_fragmented(job, &t, ret);
}

void plan_lacks_gpus(struct plan *p, const struct policy_job *job,
                     double start_s)
{
    struct plan_shape *s = shape_of(p, job);
    bool lacks = plan_ever(p, job, false);

    if (s->worded_state != p->state) {
        word_lack(p, job, lacks, s->lacks);
        s->worded_state = p->state;
    }
    memcpy(wait(p, job, start_s), s->lacks, CAP);
    p->decisions[p->n - 1].lacks = lacks;
}

void plan_behind(struct plan *p, const struct policy_job *job,
                 const struct policy_job *head, int32_t ahead)
{
    (void)snprintf(wait(p, job, NAN), CAP,
                   "Priority: %" PRId32 " ahead, first job %" PRIu64, ahead,
                   head->id);
}

/* Print a point in time, not a duration, because users read the reason long
 * after the plan. Many jobs name the same head, so the text is cached. */
static void word_reserved(struct plan *p, const struct policy_job *head,
                          double start_s)
{
    int n = snprintf(p->reserved, sizeof(p->reserved),
                     "Reserved: would delay job %" PRIu64, head->id);
    double in_s = isfinite(start_s) ? fmax(0, start_s - p->view->now_s) : 0;
    time_t at = (time_t)(p->view->wall_s + in_s);
    struct tm tm;

    if (isfinite(start_s) && gmtime_r(&at, &tm))
        (void)strftime(p->reserved + n, sizeof(p->reserved) - (size_t)n,
                       ", which starts by %Y-%m-%dT%H:%M:%SZ", &tm);
    p->reserved_for = head->id;
    p->reserved_s = start_s;
}

/* Two unknown times (NAN) are equal. */
static bool is_same_time(double a, double b)
{
    return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : a <= b && a >= b;
}

void plan_reserved(struct plan *p, const struct policy_job *job,
                   const struct policy_job *head, double start_s)
{
    bool is_same =
        p->reserved_for == head->id && is_same_time(p->reserved_s, start_s);

    if (!is_same)
        word_reserved(p, head, start_s);
    memcpy(wait(p, job, NAN), p->reserved, CAP);
}
