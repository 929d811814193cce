/* goodput_hull.c - choose the sizes: the upper hull of each job's values, one
 * heap, the best gain per GPU first; then a repair for what is left over. If
 * priority is an order, there is a heap for each priority, the highest first.
 *
 * On the hulls the greedy choice is the optimum of the relaxed problem, so what
 * is lost is at most one step. A step that does not fit ends its job's hull;
 * the repair then looks at all sizes, also those below the hull, and at those
 * below the efficiency floor.
 */
#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/goodput_in_time.h"
#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"

struct step {
    double gain; /* per GPU */
    size_t i;    /* the job */
    int32_t to;  /* the size */
};

struct heap {
    struct step *at; /* owned */
    size_t n;
};

/* More gain first, then the job that came first. */
static bool is_before(const struct step *a, const struct step *b)
{
    if (a->gain < b->gain || a->gain > b->gain)
        return a->gain > b->gain;
    return a->i < b->i;
}

static void sift(struct heap *h, size_t k)
{
    struct step s = h->at[k];

    for (size_t c = 2 * k + 1; c < h->n; c = 2 * k + 1) {
        if (c + 1 < h->n && is_before(&h->at[c + 1], &h->at[c]))
            c++;
        if (!is_before(&h->at[c], &s))
            break;
        h->at[k] = h->at[c];
        k = c;
    }
    h->at[k] = s;
}

static void make_heap(struct heap *h)
{
    for (size_t k = h->n / 2; k-- > 0;)
        sift(h, k);
}

/* The top becomes the next step of its job; to -1: it has none. */
static void replace_top(struct heap *h, double gain, int32_t to)
{
    if (to < 0)
        h->at[0] = h->at[--h->n];
    else
        h->at[0] = (struct step){gain, h->at[0].i, to};
    if (h->n > 0)
        sift(h, 0);
}

/* By how many GPUs the job becomes larger than it is now. */
static int32_t growth(const struct gp_job *j, int32_t from, int32_t to)
{
    if (!j->is_bound || to <= j->now)
        return 0;
    return j->sizes[to].gpus - j->sizes[from > j->now ? from : j->now].gpus;
}

/* What a job of one size waits for is not idle. */
static bool may_grow(const struct gp *g, const struct gp_job *j, int32_t grows)
{
    return grows == 0 || (grows <= g->grow_gpus && !(j->is_beyond && g->head));
}

/* The size that the step leads to; -1: it is not to be taken. What jobs of
 * lower priority keep is for a job's smallest size, and not for more. */
static int32_t may_become(const struct gp *g, const struct gp_job *j,
                          int32_t to, int32_t left)
{
    int32_t least = j->chosen < 0 ? j->sizes[0].gpus : 0;
    int32_t more = j->sizes[to].gpus - j->sizes[j->chosen].gpus;
    int32_t kept = g->kept_gpus < left - least ? g->kept_gpus : left - least;

    /* While jobs of lower priority keep theirs, no later step is sure to have
     * room for its smallest size. */
    if (more > left)
        return g->kept_gpus > 0 && j->chosen < 0 && least <= left ? 0 : -1;
    if (more == least || more <= left - kept)
        return to;
    return j->chosen < 0 ? 0 : -1;
}

/* The next size of the upper hull from `from` on: the best gain per GPU, of
 * equal ones the largest. -1: none is worth more. out ret_gain of weight 1 */
static int32_t search_hull(const struct gp_job *j, int32_t from,
                           double *ret_gain)
{
    int32_t best = -1;
    /* A job that must not grow is not to shrink because of that. */
    int32_t end = j->is_bound && from < j->now ? j->now + 1 : j->n;

    *ret_gain = 0;
    for (int32_t k = from + 1; k < end; k++) {
        int32_t more = j->sizes[k].gpus - j->sizes[from].gpus;
        if (!j->sizes[k].is_efficient || more <= 0)
            continue;
        double gain = (j->sizes[k].value - j->sizes[from].value) / more;
        if (gain > 0 && gain >= *ret_gain) {
            *ret_gain = gain;
            best = k;
        }
    }
    return best;
}

static int32_t next_on_hull(const struct gp_job *j, int32_t from,
                            double *ret_gain)
{
    struct gp_size *note = &j->sizes[from];

    if (!note->has_next) {
        note->next = search_hull(j, from, &note->next_gain);
        note->has_next = true;
    }
    *ret_gain = j->weight * note->next_gain;
    return note->next;
}

void gp_hull(const struct gp_job *job, int32_t from, bool *on)
{
    double gain;

    for (int32_t k = 0; k < job->n; k++)
        on[k] = k == from;
    while ((from = next_on_hull(job, from, &gain)) >= 0)
        on[from] = true;
}

/* The best gain among all sizes that `left` GPUs are enough for. */
static int32_t next_repair(const struct gp *g, const struct gp_job *j,
                           bool is_idle, int32_t left, double *ret_gain)
{
    int32_t best = -1, has = j->sizes[j->chosen].gpus;
    double now = j->sizes[j->chosen].hoped;

    *ret_gain = 0;
    for (int32_t k = j->chosen + 1; k < j->n; k++) {
        int32_t more = j->sizes[k].gpus - has;
        if (more > left)
            break; /* so are all that follow */
        bool is_use =
            is_idle ? j->sizes[k].is_idle_use : j->sizes[k].is_efficient;
        if (!is_use || more <= 0 || !may_grow(g, j, growth(j, j->chosen, k)))
            continue;
        double gain = j->weight * (j->sizes[k].hoped - now) / more;
        if (gain > *ret_gain) {
            *ret_gain = gain;
            best = k;
        }
    }
    return best;
}

static int32_t least_of(const struct gp_job *j)
{
    return gp_keeps(j) || (j->now < 0 && j->sizes[0].gpus == 0) ? 0 : -1;
}

static bool is_open(const struct gp_job *j)
{
    return !j->is_forced && !j->is_barred;
}

/* It has a range, and waits for more than there is. */
static bool is_late(const struct gp *g, const struct gp_job *j, int32_t left)
{
    const struct policy_job_goodput *own = &j->job->goodput;
    double one_s = own->one_s > 0 ? own->one_s : j->left_one_s;

    return j->now < 0 && !j->is_single && is_open(j) &&
           j->sizes[0].gpus > left &&
           gp_rigid_is_late(g, j->job, one_s,
                            j->sizes[0].rate->per_s / own->curve->one_per_s,
                            j->sizes[0].gpus);
}

/* Jobs that are short of time could come without end, and keep one with a large
 * minimum waiting. The one that is worth most competes with those that began
 * after it was submitted. */
static int32_t give_late(struct gp *g, int32_t left)
{
    struct gp_job *best = NULL;
    double gain, best_gain = 0;

    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        if (is_late(g, j, left) && next_on_hull(j, -1, &gain) >= 0 &&
            gain > best_gain) {
            best = j;
            best_gain = gain;
        }
    }
    return best
               ? gp_in_time_give(g, best, best->sizes[0].gpus - left, best_gain)
               : 0;
}

/* What jobs keep in any case and what was promised, and jobs that need no GPU.
 */
static int32_t give_least(struct gp *g)
{
    int32_t left = g->gpus;
    bool any_needed = false;

    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        any_needed = any_needed || j->is_needed;
        j->chosen = least_of(j);
        left -= gp_keeps(j) ? j->sizes[0].gpus : 0;
    }
    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        if (!j->is_forced || j->sizes[0].gpus > left)
            continue;
        j->chosen = 0;
        left -= j->sizes[0].gpus;
    }
    if (g->head && gp_rigid_head_fits(g, &left)) {
        g->head->is_forced = true;
        g->head->chosen = 0;
        left -= g->head->sizes[0].gpus;
    }
    return any_needed ? left + give_late(g, left) : left;
}

/* Its steps depend on what other jobs take: the shortcut below leaves it to the
 * heap. */
static bool is_free(const struct gp_job *j)
{
    return is_open(j) && !j->is_bound;
}

/* Until no step gains `least`. */
static int32_t take_steps(struct gp *g, struct heap *h, int32_t left,
                          double least, double *ret_last)
{
    make_heap(h);
    while (h->n > 0 && left > 0 && h->at[0].gain >= least) {
        struct step s = h->at[0];
        struct gp_job *j = &g->jobs[s.i];
        int32_t next = may_become(g, j, s.to, left), to = -1;
        int32_t grows = next < 0 ? 0 : growth(j, j->chosen, next);
        double gain = 0;
        if (next >= 0 && may_grow(g, j, grows)) {
            left -= j->sizes[next].gpus - j->sizes[j->chosen].gpus;
            j->chosen = next;
            g->grow_gpus -= grows;
            *ret_last = s.gain;
            to = next_on_hull(j, j->chosen, &gain);
        }
        replace_top(h, gain, to);
    }
    return left;
}

/* ---- a shortcut -----------------------------------------------------------
 *
 * All steps above the price of the last one are taken in the end, in whatever
 * order. So with many jobs a sample tells roughly what the price will be, and
 * the steps well above it are taken without a heap. The result is the same: if
 * they are more than the GPUs, the shortcut is not taken.
 */
enum { SAMPLE = 16, MANY = 32 * SAMPLE };
static const double MARGIN = 1.15;

/* 0: not known */
static double sample_price(struct gp *g, struct heap *h, int32_t left)
{
    double gain, last = 0;
    int32_t to;

    if (g->to - g->from < MANY || g->kept_gpus > 0 || g->is_plain ||
        g->p->view->is_shared)
        return 0;
    for (size_t i = g->from; i < g->to; i += SAMPLE)
        if (is_free(&g->jobs[i]) &&
            (to = next_on_hull(&g->jobs[i], g->jobs[i].chosen, &gain)) >= 0)
            h->at[h->n++] = (struct step){gain, i, to};
    bool is_scarce = take_steps(g, h, left / SAMPLE, 0, &last) == 0;
    h->n = 0;
    for (size_t i = g->from; i < g->to; i += SAMPLE)
        if (is_free(&g->jobs[i]))
            g->jobs[i].chosen = least_of(&g->jobs[i]);
    return is_scarce ? last : 0;
}

/* GPUs of the steps of a job that gain more, if each one is taken. */
static int32_t steps_above(const struct gp_job *j, double price)
{
    double gain;
    int32_t at = j->chosen, to;

    while ((to = next_on_hull(j, at, &gain)) >= 0 && gain > price)
        at = to;
    return j->sizes[at].gpus - j->sizes[j->chosen].gpus;
}

/* Takes all steps that gain more, but for those that are left to the heap,
 * which must have room for them. Negative: there are not so many GPUs. */
static int32_t take_above(struct gp *g, double price, int32_t left)
{
    int32_t for_heap = 0;
    double gain;
    int32_t to;

    for (size_t i = g->from; i < g->to && left >= for_heap; i++) {
        struct gp_job *j = &g->jobs[i];
        if (is_open(j) && j->is_bound)
            for_heap += steps_above(j, price);
        while (is_free(j) && (to = next_on_hull(j, j->chosen, &gain)) >= 0 &&
               gain > price) {
            left -= j->sizes[to].gpus - j->sizes[j->chosen].gpus;
            j->chosen = to;
        }
    }
    return left < for_heap ? -1 : left;
}

/* The next steps of all jobs that gain less than `below` and at least `from`.
 */
static void push_steps(const struct gp *g, struct heap *h, double from,
                       double below)
{
    double gain;
    int32_t to;

    for (size_t i = g->from; i < g->to; i++)
        if (is_open(&g->jobs[i]) &&
            (to = next_on_hull(&g->jobs[i], g->jobs[i].chosen, &gain)) >= 0 &&
            gain >= from && gain < below)
            h->at[h->n++] = (struct step){gain, i, to};
}

static int32_t greedy(struct gp *g, struct heap *h, int32_t left)
{
    double price = sample_price(g, h, left), last = 0;
    int32_t most = left;

    if (price > 0 && (left = take_above(g, price * MARGIN, most)) < 0) {
        for (size_t i = g->from; i < g->to; i++)
            if (is_free(&g->jobs[i]))
                g->jobs[i].chosen = least_of(&g->jobs[i]);
        left = most;
        price = 0;
    }
    push_steps(g, h, price / MARGIN, INFINITY);
    left = take_steps(g, h, left, price / MARGIN, &last);
    h->n = 0;
    if (left > 0 && price > 0) {
        push_steps(g, h, 0, price / MARGIN);
        left = take_steps(g, h, left, 0, &last);
    }
    h->n = 0;
    return left;
}

/* The gain of a job never grows while GPUs become fewer, so the top of the heap
 * is looked at again when it is its turn. */
static int32_t repair(struct gp *g, struct heap *h, bool is_idle, int32_t left)
{
    double gain;
    int32_t to;

    for (size_t i = g->from; left > 0 && i < g->to; i++)
        if (is_open(&g->jobs[i]) &&
            (to = next_repair(g, &g->jobs[i], is_idle, left, &gain)) >= 0)
            h->at[h->n++] = (struct step){gain, i, to};
    make_heap(h);
    while (h->n > 0 && left > 0) {
        struct step s = h->at[0];
        struct gp_job *j = &g->jobs[s.i];
        int32_t more = j->sizes[s.to].gpus - j->sizes[j->chosen].gpus;
        int32_t grows = growth(j, j->chosen, s.to);
        if (more <= left && may_grow(g, j, grows)) {
            j->chosen = s.to;
            left -= more;
            g->grow_gpus -= grows;
        }
        to = next_repair(g, j, is_idle, left, &gain);
        replace_top(h, gain, to);
    }
    h->n = 0;
    return left;
}

/* ---- the order of priorities ----------------------------------------------
 */
static int32_t kept_by(const struct gp_job *j)
{
    return j->now >= 0 && !gp_keeps(j) && is_open(j) ? j->sizes[0].gpus : 0;
}

/* Jobs of equal priority are neighbours in the view, but for those that go
 * before all. So the first ones take what they use well, and others what is
 * left; but a live job is not paused for the growth of another. */
static int32_t greedy_in_order(struct gp *g, struct heap *h, int32_t left)
{
    bool is_order = g->conf.priority == POLICY_PRIORITY_STRICT;

    for (size_t i = 0; i < g->n; i++)
        g->kept_gpus += is_order ? kept_by(&g->jobs[i]) : 0;
    for (g->from = 0; g->from < g->n && left > 0; g->from = g->to) {
        int32_t priority = g->jobs[g->from].job->priority;
        for (g->to = g->from;
             g->to < g->n &&
             (!is_order || g->jobs[g->to].job->priority == priority);
             g->to++)
            g->kept_gpus -= is_order ? kept_by(&g->jobs[g->to]) : 0;
        left = greedy(g, h, left);
        /* A step that does not fit leaves GPUs that its job uses well in
         * part. */
        if (g->to < g->n && left > g->kept_gpus)
            left = g->kept_gpus + repair(g, h, false, left - g->kept_gpus);
    }
    return left;
}

int gp_hull_choose(struct gp *g, struct error *err)
{
    struct heap h = {.at = malloc((g->n + 1) * sizeof(*h.at))};

    if (!h.at)
        return error_set(err, ERR_NOMEM, "out of memory");
    int32_t left = give_least(g);
    left = greedy_in_order(g, &h, left);
    g->from = 0;
    g->to = g->n;
    (void)repair(g, &h, true, left);
    free(h.at);
    return 0;
}
