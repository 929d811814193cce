/* goodput_explain.c - see goodput_explain.h. It makes the plan of goodput.c and
 * reads the sizes instead of the wishes. */
#include "scheduler/policy/goodput_explain.h"

#include <math.h>
#include <stdlib.h>

#include "scheduler/policy/goodput_plan.h"

static struct policy_rate rate_of(const struct gp_job *j, int32_t i)
{
    static const struct policy_rate none = {.per_s = NAN, .hoped_per_s = NAN};

    return j->sizes[i].rate ? *j->sizes[i].rate : none;
}

/* Value of each GPU that size `to` has more than size `from`; from -1: none. */
static double gain(const struct gp_job *j, int32_t from, int32_t to)
{
    double value = from < 0 ? 0 : j->sizes[from].value;
    int32_t gpus = from < 0 ? 0 : j->sizes[from].gpus;

    return j->weight * (j->sizes[to].value - value) /
           (j->sizes[to].gpus - gpus);
}

/* The size above the chosen one that is worth most for each further GPU; -1:
 * none is worth anything. */
static int32_t next_of(const struct gp_job *j)
{
    int32_t best = -1;
    double best_gain = 0;

    for (int32_t i = j->chosen + 1; i < j->n; i++) {
        double x = gain(j, j->chosen, i);
        if (j->sizes[i].is_idle_use && x > best_gain) {
            best = i;
            best_gain = x;
        }
    }
    return best;
}

static void tell(const struct gp_job *j,
                 void (*each)(void *arg, const struct goodput_row *row),
                 void *arg, double *io_price)
{
    int32_t next = next_of(j);
    double smallest = j->n > 0 ? rate_of(j, 0).per_s : (double)NAN;

    for (int32_t i = 0; i < j->n; i++) {
        struct goodput_row row = {.job = j->job->id,
                                  .nodes = j->sizes[i].nodes,
                                  .per_node = j->sizes[i].per_node,
                                  .rate = rate_of(j, i),
                                  .value = j->weight * j->sizes[i].value,
                                  .gain = gain(j, i - 1, i),
                                  .is_now = i == j->now,
                                  .is_chosen = i == j->chosen,
                                  .is_next = i == next};
        row.efficiency =
            row.rate.per_s / smallest * j->sizes[0].gpus / j->sizes[i].gpus;
        each(arg, &row);
    }
    if (next >= 0)
        *io_price = fmax(*io_price, gain(j, j->chosen, next));
}

int goodput_explain(const struct policy_view *view,
                    void (*each)(void *arg, const struct goodput_row *row),
                    void *arg, double *ret_price, struct error *err)
{
    size_t cap = 2 * view->n_jobs + 1;
    struct policy_wish *wishes = calloc(cap, sizeof(*wishes));
    double price = NAN;
    struct plan p;
    struct gp g;

    if (!wishes)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (plan_begin(&p, view, wishes, cap, err) < 0) {
        free(wishes);
        return -1;
    }
    int rc = gp_collect(&g, &p, err);
    if (rc == 0)
        rc = gp_rigid(&g, err);
    if (rc == 0)
        rc = gp_choose(&g, err);
    if (rc == 0)
        gp_place(&g);
    for (size_t i = 0; rc == 0 && i < g.n; i++)
        if (g.jobs[i].n > 0 && !g.jobs[i].is_single)
            tell(&g.jobs[i], each, arg, &price);
    gp_clear(&g);
    plan_end(&p);
    free(wishes);
    if (rc == 0)
        *ret_price = price;
    return rc;
}
