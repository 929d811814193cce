/* goodput_hull.c - choose the sizes: the upper hull of each job's values, one
 * heap, the best gain per GPU first; then a repair for what is left over.
 *
 * On the hulls the greedy choice is the optimum of the relaxed problem, so what
 * is lost is at most one step. A step that does not fit ends its job's hull;
 * the repair then looks at all sizes, also those below the hull, and at those
 * below the efficiency floor.
 */
#include <stdlib.h>

#include "scheduler/policy/goodput_plan.h"

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

static void push(struct heap *h, struct step s)
{
    size_t k = h->n++;

    while (k > 0 && is_before(&s, &h->at[(k - 1) / 2])) {
        h->at[k] = h->at[(k - 1) / 2];
        k = (k - 1) / 2;
    }
    h->at[k] = s;
}

static struct step pop(struct heap *h)
{
    struct step top = h->at[0], last = h->at[--h->n];
    size_t k = 0;

    for (size_t c = 1; c < h->n; c = 2 * k + 1) {
        if (c + 1 < h->n && is_before(&h->at[c + 1], &h->at[c]))
            c++;
        if (!is_before(&h->at[c], &last))
            break;
        h->at[k] = h->at[c];
        k = c;
    }
    h->at[k] = last;
    return top;
}

static int32_t gpus_at(const struct gp_job *j, int32_t size)
{
    return size < 0 ? 0 : j->sizes[size].gpus;
}

static double value_at(const struct gp_job *j, int32_t size)
{
    return size < 0 ? 0 : j->sizes[size].value;
}

/* The next size of the upper hull from `from` on: the best gain per GPU, of
 * equal ones the largest. -1: none is worth more. out ret_gain */
static int32_t next_on_hull(const struct gp_job *j, int32_t from,
                            double *ret_gain)
{
    int32_t best = -1;

    *ret_gain = 0;
    for (int32_t k = from + 1; k < j->n; k++) {
        int32_t more = j->sizes[k].gpus - gpus_at(j, from);
        if (!j->sizes[k].is_efficient || more <= 0)
            continue;
        double gain = (j->sizes[k].value - value_at(j, from)) / more;
        if (gain > 0 && gain >= *ret_gain) {
            *ret_gain = gain;
            best = k;
        }
    }
    return best;
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
static int32_t next_repair(const struct gp_job *j, int32_t left,
                           double *ret_gain)
{
    int32_t best = -1, has = gpus_at(j, j->chosen);
    double now = j->chosen < 0 ? 0 : j->sizes[j->chosen].hoped;

    *ret_gain = 0;
    for (int32_t k = j->chosen + 1; k < j->n; k++) {
        int32_t more = j->sizes[k].gpus - has;
        if (!j->sizes[k].is_idle_use || more <= 0 || more > left)
            continue;
        double gain = (j->sizes[k].hoped - now) / more;
        if (gain > *ret_gain) {
            *ret_gain = gain;
            best = k;
        }
    }
    return best;
}

/* What was promised, and jobs that need no GPU. */
static int32_t give_least(struct gp *g)
{
    int32_t left = g->gpus;

    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        j->chosen = j->now < 0 && j->sizes[0].gpus == 0 ? 0 : -1;
    }
    if (g->head && gp_head_fits(g, left))
        g->head->is_forced = true;
    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        if (!j->is_forced || j->sizes[0].gpus > left)
            continue;
        j->chosen = 0;
        left -= j->sizes[0].gpus;
    }
    return left;
}

static int32_t greedy(struct gp *g, struct heap *h, int32_t left)
{
    double gain;
    int32_t to;

    for (size_t i = 0; i < g->n; i++)
        if (!g->jobs[i].is_forced && !g->jobs[i].is_barred &&
            (to = next_on_hull(&g->jobs[i], g->jobs[i].chosen, &gain)) >= 0)
            push(h, (struct step){gain, i, to});
    while (h->n > 0 && left > 0) {
        struct step s = pop(h);
        struct gp_job *j = &g->jobs[s.i];
        int32_t more = j->sizes[s.to].gpus - gpus_at(j, j->chosen);
        if (more > left)
            continue;
        j->chosen = s.to;
        left -= more;
        if ((to = next_on_hull(j, j->chosen, &gain)) >= 0)
            push(h, (struct step){gain, s.i, to});
    }
    h->n = 0;
    return left;
}

/* The gain of a job never grows while GPUs become fewer, so the top of the heap
 * is looked at again when it is its turn. */
static void repair(struct gp *g, struct heap *h, int32_t left)
{
    double gain;
    int32_t to;

    for (size_t i = 0; left > 0 && i < g->n; i++)
        if (!g->jobs[i].is_forced && !g->jobs[i].is_barred &&
            (to = next_repair(&g->jobs[i], left, &gain)) >= 0)
            push(h, (struct step){gain, i, to});
    while (h->n > 0 && left > 0) {
        struct step s = pop(h);
        struct gp_job *j = &g->jobs[s.i];
        int32_t more = j->sizes[s.to].gpus - gpus_at(j, j->chosen);
        if (more <= left) {
            j->chosen = s.to;
            left -= more;
        }
        if ((to = next_repair(j, left, &gain)) >= 0)
            push(h, (struct step){gain, s.i, to});
    }
    h->n = 0;
}

int gp_choose(struct gp *g, struct error *err)
{
    struct heap h = {.at = malloc((g->n + 1) * sizeof(*h.at))};

    if (!h.at)
        return error_set(err, ERR_NOMEM, "out of memory");
    int32_t left = give_least(g);
    if (left > 0)
        left = greedy(g, &h, left);
    repair(g, &h, left);
    free(h.at);
    return 0;
}
