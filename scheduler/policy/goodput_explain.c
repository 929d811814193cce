/* goodput_explain.c - see goodput_explain.h. It makes the plan of goodput.c and
 * reads the sizes instead of the decisions. */
#include "scheduler/policy/goodput_explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"

static struct policy_rate rate_of(const struct gp_size *size)
{
    static const struct policy_rate none = {.per_s = NAN, .hoped_per_s = NAN};

    return size->rate ? *size->rate : none;
}

/* Of the speed-up over the smallest size that the job accepts. */
static double efficiency(const struct gp_job *j, const struct gp_size *size)
{
    const struct gp_size *first = j->n_late > 0 ? j->late : j->sizes;

    return rate_of(size).per_s / rate_of(first).per_s * first->gpus /
           size->gpus;
}

static int32_t largest_late(const struct gp_job *j)
{
    return j->late[j->n_late - 1].gpus;
}

/* Value of each GPU that size `to` has more than size `from`; from -1: none. */
static double gain(const struct gp_job *j, int32_t from, int32_t to)
{
    return j->weight * (j->sizes[to].value - j->sizes[from].value) /
           (j->sizes[to].gpus - j->sizes[from].gpus);
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

static struct goodput_row row_of(const struct gp_job *j, int32_t i)
{
    struct goodput_row row = {.job = j->job->id,
                              .nodes = j->sizes[i].nodes,
                              .per_node = j->sizes[i].per_node,
                              .rate = rate_of(&j->sizes[i]),
                              .value = j->weight * j->sizes[i].value,
                              .gain = gain(j, i - 1, i),
                              .is_now = i == j->now,
                              .turn_s = NAN,
                              .idle_turn_s = NAN};

    row.efficiency = efficiency(j, &j->sizes[i]);
    row.is_late = j->n_late > 0 && j->sizes[i].gpus <= largest_late(j);
    return row;
}

/* The row of a size that is left out. */
static struct goodput_row late_row(const struct gp_job *j,
                                   const struct gp_size *size)
{
    return (struct goodput_row){.job = j->job->id,
                                .nodes = size->nodes,
                                .per_node = size->per_node,
                                .rate = *size->rate,
                                .efficiency = efficiency(j, size),
                                .value = NAN,
                                .gain = NAN,
                                .is_late = true,
                                .turn_s = NAN,
                                .idle_turn_s = NAN};
}

/* ---- the plan, and that of jobs with resizes left --------------------------
 */
/* A plan without its decisions. */
struct choice {
    struct policy_decision *decisions; /* owned */
    struct policy_job *jobs;           /* owned; NULL: those of the caller */
    struct policy_view view;
    struct plan p;
    struct gp g;
    bool has_plan, has_gp;
    size_t next; /* of g.jobs, for take_next() */
};

static void clear(struct choice *c)
{
    if (c->has_gp)
        gp_value_clear(&c->g);
    if (c->has_plan)
        plan_end(&c->p);
    free(c->jobs);
    free(c->decisions);
}

static int choose(struct choice *c, struct error *err)
{
    size_t cap = 2 * c->view.n_jobs + 1;

    c->decisions = calloc(cap, sizeof(*c->decisions));
    if (!c->decisions)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (plan_begin(&c->p, &c->view, c->decisions, cap, err) < 0)
        return -1;
    c->has_plan = c->has_gp = true;
    if (gp_value_collect(&c->g, &c->p, err) < 0 || gp_rigid(&c->g, err) < 0 ||
        gp_hull_choose(&c->g, err) < 0)
        return -1;
    gp_place(&c->g);
    return 0;
}

static bool is_spent(const struct policy_view *v, const struct policy_job *job)
{
    return job->gpus > 0 && job->goodput.curve &&
           v->now_s < job->goodput.growable_s &&
           isfinite(job->goodput.growable_s);
}

/* As if all jobs had resizes left. Without a job that has none, there is no
 * choice. */
static int choose_unspent(const struct policy_view *v, struct choice *c,
                          struct error *err)
{
    bool any = false;

    for (size_t i = 0; i < v->n_jobs; i++)
        any = any || is_spent(v, &v->jobs[i]);
    if (!any)
        return 0;
    c->jobs = malloc((v->n_jobs + 1) * sizeof(*c->jobs));
    if (!c->jobs)
        return error_set(err, ERR_NOMEM, "out of memory");
    memcpy(c->jobs, v->jobs, v->n_jobs * sizeof(*c->jobs));
    for (size_t i = 0; i < v->n_jobs; i++)
        if (is_spent(v, &c->jobs[i]))
            c->jobs[i].goodput.resizable_s = c->jobs[i].goodput.growable_s = 0;
    c->view.jobs = c->jobs;
    return choose(c, err);
}

/* The job at this place of the view; NULL: it takes no part. Ask in order. */
static const struct gp_job *take_next(struct choice *c, size_t order)
{
    if (!c->has_gp || c->next == c->g.n || c->g.jobs[c->next].order != order)
        return NULL;
    const struct gp_job *j = &c->g.jobs[c->next++];
    return j->n > 0 && !j->is_single ? j : NULL;
}

/* ---- tell -----------------------------------------------------------------
 */
struct teller {
    void (*each)(void *arg, const struct goodput_row *row);
    void *arg;
    double price;
};

/* Those of fewer GPUs than `below` that are left out. in io_k  how many of
 * `late` were seen before */
static void tell_late(struct teller *t, const struct gp_job *j, int32_t below,
                      int32_t *io_k)
{
    for (; *io_k < j->n_late && j->late[*io_k].gpus < below; ++*io_k) {
        struct goodput_row row = late_row(j, &j->late[*io_k]);
        if (j->late[*io_k].gpus != j->job->gpus)
            t->each(t->arg, &row);
    }
}

static void tell(struct teller *t, const struct gp_job *j)
{
    int32_t next = next_of(j), n_late = 0;

    for (int32_t i = 0; i < j->n; i++) {
        struct goodput_row row = row_of(j, i);
        tell_late(t, j, j->sizes[i].gpus, &n_late);
        row.is_chosen = i == j->chosen;
        row.is_next = i == next;
        t->each(t->arg, &row);
    }
    if (next >= 0)
        t->price = fmax(t->price, gain(j, j->chosen, next));
}

/* in  then  the job with resizes left */
static bool is_refused(const struct gp_job *now, const struct gp_job *then)
{
    return then && then->now >= 0 && then->chosen > then->now &&
           (!now || now->chosen == now->now);
}

static void tell_refused(struct teller *t, const struct policy_view *v,
                         const struct gp_job *then)
{
    const struct policy_job_goodput *own = &v->jobs[then->order].goodput;
    double zero_s = v->wall_s - v->now_s;
    int32_t n_late = 0;

    for (int32_t i = 0; i < then->n; i++) {
        struct goodput_row row = row_of(then, i);
        tell_late(t, then, then->sizes[i].gpus, &n_late);
        row.is_chosen = i == then->now;
        row.is_refused = i == then->chosen;
        row.turn_s = zero_s + own->growable_s;
        row.idle_turn_s = zero_s + own->idle_growable_s;
        t->each(t->arg, &row);
    }
}

int goodput_explain(const struct policy_view *view,
                    void (*each)(void *arg, const struct goodput_row *row),
                    void *arg, double *ret_price, struct error *err)
{
    struct choice now = {.view = *view}, then = {.view = *view};
    struct teller t = {.each = each, .arg = arg, .price = NAN};
    int rc = choose(&now, err);

    if (rc == 0)
        rc = choose_unspent(view, &then, err);
    for (size_t i = 0; rc == 0 && i < view->n_jobs; i++) {
        const struct gp_job *j = take_next(&now, i), *k = take_next(&then, i);
        if (is_spent(view, &view->jobs[i]) && is_refused(j, k))
            tell_refused(&t, view, k);
        else if (j)
            tell(&t, j);
    }
    clear(&then);
    clear(&now);
    if (rc == 0)
        *ret_price = t.price;
    return rc;
}
