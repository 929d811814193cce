/* goodput_value.c - which jobs share the GPUs, and what each size is worth.
 *
 * The value of g GPUs is w s(g)^p rho. w grows with the rank of the job: the
 * job with most work left has rank 1. s is the speed-up over the smallest size,
 * and p < 1 because the first GPUs of a job bring its end nearer than the last.
 * rho is what is left of a change after its cost, see docs/policy.md.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/policy/goodput_plan.h"

static const double RHO_MIN = 0.02;

static double floor_of(const struct policy_job *job, double conf)
{
    const struct policy_job_goodput *g = &job->goodput;
    double own = fmax(g->min_efficiency, conf);

    return g->goal == POLICY_GOAL_EFFICIENCY
               ? fmax(own, POLICY_GOAL_EFFICIENCY_FLOOR)
               : own;
}

/* ---- who takes part -------------------------------------------------------
 */
static bool is_on_nodes_up(const struct policy_view *v,
                           const struct policy_job *job)
{
    for (int32_t k = 0; k < job->nodes; k++)
        if (!v->nodes[job->at[k]].is_up)
            return false;
    return true;
}

/* A live job whose size the policy may change now. */
static bool may_change(const struct gp *g, const struct policy_view *v,
                       const struct policy_job *job)
{
    return job->goodput.curve && job->goodput.goal != POLICY_GOAL_FIT &&
           job->may_resize && !job->is_leaving && job->at && job->gpus > 0 &&
           is_on_nodes_up(v, job) && g->conf.max_resizes_per_hour > 0 &&
           v->now_s >= job->start_s + g->conf.min_runtime_s &&
           v->now_s >= job->goodput.resizable_s;
}

static bool allows(const struct policy_job *job, const struct policy_rate *r)
{
    int64_t gpus = (int64_t)r->nodes * r->per_node;

    return gpus >= job->gpus_min && gpus <= job->gpus_max &&
           r->nodes >= job->nodes_min && r->nodes <= job->nodes_max &&
           (job->per_node == 0 || r->per_node == job->per_node) &&
           gpu_sizes_divide(job->parts, gpus, r->nodes);
}

static bool has_now(const struct policy_job *job, const struct policy_rate *r)
{
    return job->gpus == r->nodes * r->per_node && job->nodes == r->nodes;
}

/* ---- values ---------------------------------------------------------------
 */
/* What is left of the value of a change after its cost. */
static double rho(const struct gp *g, const struct gp_job *j, double left_s)
{
    const struct policy_job *job = j->job;
    double cost_s = isnan(job->cost_s) ? POLICY_COST_S : job->cost_s;
    double most_s =
        isfinite(left_s) ? fmin(left_s, g->conf.horizon_s) : g->conf.horizon_s;

    return fmax(RHO_MIN, 1 - (cost_s + g->conf.hysteresis_s) / most_s);
}

static double worth(const struct gp *g, const struct gp_job *j, double speedup,
                    double left_s, bool is_now)
{
    double p = j->job->goodput.goal == POLICY_GOAL_SPEED
                   ? 1
                   : g->conf.speedup_exponent;
    double v = j->weight * pow(speedup, p);

    return is_now || j->now < 0 ? v : v * rho(g, j, left_s);
}

static void value_size(const struct gp *g, const struct gp_job *j,
                       const struct policy_rate *first,
                       const struct policy_rate *r, struct gp_size *ret)
{
    double one_s = j->left_one_s * j->job->goodput.curve->one_per_s;
    bool is_known = isfinite(r->per_s) && r->per_s > 0;
    double s = is_known ? r->per_s / first->per_s : 1;
    double hoped = is_known ? r->hoped_per_s / first->per_s : 1;
    int32_t gpus = r->nodes * r->per_node;
    double part = (double)(first->nodes * first->per_node) / gpus;
    bool is_now = j->now >= 0 && &j->sizes[j->now] == ret;

    double value = worth(g, j, s, one_s / r->per_s, is_now);
    *ret = (struct gp_size){
        .nodes = r->nodes,
        .per_node = r->per_node,
        .gpus = gpus,
        .is_efficient = r == first ||
                        s * part >= floor_of(j->job, g->conf.efficiency_floor),
        .is_idle_use =
            r == first || hoped * part >= floor_of(j->job, g->conf.idle_floor),
        .value = value,
        .hoped = hoped > s ? worth(g, j, hoped, one_s / r->hoped_per_s, is_now)
                           : value,
    };
}

/* No size above `explore` times the largest that the class has run on: such a
 * guess could be far off. Nor a larger one while the job must not grow. */
static bool may_choose(const struct gp *g, const struct policy_job *job,
                       const struct policy_rate *r)
{
    int64_t most = (int64_t)g->conf.explore * job->goodput.curve->largest;

    int64_t gpus = (int64_t)r->nodes * r->per_node;

    if (has_now(job, r))
        return true;
    return gpus <= most && (job->gpus == 0 || gpus < job->gpus ||
                            g->p->view->now_s >= job->goodput.growable_s);
}

static const struct policy_rate *next_rate(const struct gp *g,
                                           const struct gp_job *j, size_t *i)
{
    const struct policy_curve *c = j->job->goodput.curve;

    for (; *i < c->n_rates; (*i)++)
        if (allows(j->job, &c->rates[*i]) &&
            (j->n == 0 || may_choose(g, j->job, &c->rates[*i])))
            return &c->rates[(*i)++];
    return NULL;
}

/* Lists the sizes; the weights are not known yet. False: the curve has none for
 * the job, or not its present one. */
static bool list_sizes(struct gp *g, struct gp_job *j)
{
    const struct policy_rate *r;
    size_t i = 0;
    bool is_fit = j->job->goodput.goal == POLICY_GOAL_FIT;

    j->sizes = &g->sizes[g->n_sizes];
    j->n = 0;
    j->now = -1;
    while ((r = next_rate(g, j, &i)) &&
           !(is_fit && j->n == 1 && !j->job->gpus)) {
        if (j->job->gpus > 0 && has_now(j->job, r))
            j->now = j->n;
        j->sizes[j->n++] = (struct gp_size){.nodes = r->nodes,
                                            .per_node = r->per_node,
                                            .gpus = r->nodes * r->per_node};
    }
    if (j->n == 0 || (j->job->gpus > 0 && j->now < 0))
        return false;
    g->n_sizes += (size_t)j->n;
    return true;
}

static void value_job(struct gp *g, struct gp_job *j)
{
    const struct policy_rate *r, *first = NULL;
    size_t i = 0;

    if (j->is_single) {
        j->sizes[0].value = j->sizes[0].hoped = j->weight;
        j->sizes[0].is_efficient = j->sizes[0].is_idle_use = true;
        return;
    }
    int32_t n = j->n, k = 0;
    for (j->n = 0; k < n && (r = next_rate(g, j, &i)); k++) {
        first = first ? first : r;
        value_size(g, j, first, r, &j->sizes[k]);
        j->n = k + 1;
    }
    j->n = n;
}

/* ---- weights --------------------------------------------------------------
 */
static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool is_known(double s)
{
    return isfinite(s) && s > 0;
}

/* The median of the known lengths: of the queued jobs if there is one; NAN:
 * none is known. */
static double median(const struct policy_view *v, double *scratch)
{
    size_t n = 0;

    for (int any = 0; n == 0 && any < 2; any++)
        for (size_t i = 0; i < v->n_jobs; i++)
            if ((any || v->jobs[i].state == JOB_QUEUED) &&
                is_known(v->jobs[i].goodput.left_one_s))
                scratch[n++] = v->jobs[i].goodput.left_one_s;
    if (n == 0)
        return NAN;
    qsort(scratch, n, sizeof(*scratch), by_number);
    return (scratch[(n - 1) / 2] + scratch[n / 2]) / 2;
}

struct ranked {
    double left_s;
    size_t order;
};

/* Most work first; of equal jobs the last one, which so weighs least. */
static int by_left(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->left_s < y->left_s || x->left_s > y->left_s)
        return x->left_s > y->left_s ? -1 : 1;
    return (x->order < y->order) - (x->order > y->order);
}

static double weight(const struct gp *g, const struct policy_view *v,
                     const struct policy_job *job, size_t rank)
{
    double share = job->goodput.share > 0 ? job->goodput.share : 1;
    double w = pow((double)rank, g->conf.length_weight) * share *
               exp2(job->priority / 50.0);
    double slowdown = is_known(job->goodput.one_s)
                          ? (v->now_s - job->submit_s) / job->goodput.one_s
                          : 0;

    return g->conf.aging > 0
               ? w * (1 + pow(fmax(slowdown, 0) / g->conf.aging, 2))
               : w;
}

/* All jobs of the view have a rank. */
static int rank_all(struct gp *g, const struct policy_view *v,
                    struct error *err)
{
    struct ranked *r = calloc(v->n_jobs + 1, sizeof(*r));
    double *scratch = calloc(v->n_jobs + 1, sizeof(*scratch));
    double *weights = calloc(v->n_jobs + 1, sizeof(*weights));
    int rc = r && scratch && weights
                 ? 0
                 : error_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0) {
        double middle_s = median(v, scratch);
        for (size_t i = 0; i < v->n_jobs; i++) {
            double s = v->jobs[i].goodput.left_one_s;
            s = is_known(s) ? s : middle_s;
            r[i] = (struct ranked){isnan(s) ? 0 : s, i};
        }
        qsort(r, v->n_jobs, sizeof(*r), by_left);
        for (size_t i = 0; i < v->n_jobs; i++) {
            scratch[r[i].order] = r[i].left_s;
            weights[r[i].order] = weight(g, v, &v->jobs[r[i].order], i + 1);
        }
        for (size_t i = 0; i < g->n; i++) {
            double s = scratch[g->jobs[i].order];
            g->jobs[i].left_one_s = s > 0 ? s : (double)INFINITY;
            g->jobs[i].weight = weights[g->jobs[i].order];
        }
    }
    free(r);
    free(scratch);
    free(weights);
    return rc;
}

/* ---- collect --------------------------------------------------------------
 */
/* One size: the smallest that empty nodes have room for. */
static bool list_one(struct gp *g, struct gp_job *j)
{
    const struct policy_view *v = g->p->view;
    struct place place;

    if (!plan_ever(g->p, j->job, false) ||
        !place_empty(v->nodes, v->n_nodes, j->job, &place))
        return false;
    j->sizes = &g->sizes[g->n_sizes++];
    j->sizes[0] = (struct gp_size){.nodes = place.nodes,
                                   .per_node = place.per_node,
                                   .gpus = place.nodes * place.per_node};
    j->n = 1;
    j->now = -1;
    j->is_single = true;
    return true;
}

static bool takes_part(struct gp *g, const struct policy_view *v, size_t i,
                       struct gp_job *ret)
{
    const struct policy_job *job = &v->jobs[i];

    *ret = (struct gp_job){.job = job, .order = i, .chosen = -1};
    if (job->state != JOB_QUEUED)
        return may_change(g, v, job) && list_sizes(g, ret);
    ret->is_forced = job->to_gpus > 0 || job->is_owed;
    return (!ret->is_forced && job->goodput.curve && list_sizes(g, ret)) ||
           list_one(g, ret);
}

static int allocate(struct gp *g, const struct policy_view *v,
                    struct error *err)
{
    size_t n_sizes = v->n_jobs + 1;

    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].goodput.curve)
            n_sizes += v->jobs[i].goodput.curve->n_rates;
    g->jobs = calloc(v->n_jobs + 1, sizeof(*g->jobs));
    g->sizes = malloc(n_sizes * sizeof(*g->sizes));
    g->at = malloc((v->n_nodes + 1) * sizeof(*g->at));
    g->line = malloc((v->n_jobs + 1) * sizeof(*g->line));
    if (!g->jobs || !g->sizes || !g->at || !g->line)
        return error_set(err, ERR_NOMEM, "out of memory");
    return picture_init(&g->now, v->nodes, v->n_nodes, err) < 0 ||
                   picture_init(&g->soon, v->nodes, v->n_nodes, err) < 0
               ? -1
               : picture_init(&g->free, v->nodes, v->n_nodes, err);
}

int gp_collect(struct gp *g, struct plan *p, struct error *err)
{
    const struct policy_view *v = p->view;

    *g =
        (struct gp){.p = p,
                    .conf = v->goodput.interval_s > 0 ? v->goodput
                                                      : policy_goodput_default};
    if (allocate(g, v, err) < 0)
        return -1;
    for (size_t i = 0; i < v->n_nodes; i++)
        g->gpus += v->nodes[i].is_up ? place_free(&v->nodes[i]) : 0;
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (takes_part(g, v, i, &g->jobs[g->n]))
            g->gpus += g->jobs[g->n++].job->gpus;
        else if (gp_leaves(job)) /* it may come back with a new size */
            g->gpus += job->gpus - job->to_gpus;
    }
    g->gpus = g->gpus > 0 ? g->gpus : 0;
    if (rank_all(g, v, err) < 0)
        return -1;
    for (size_t i = 0; i < g->n; i++)
        value_job(g, &g->jobs[i]);
    return 0;
}

void gp_clear(struct gp *g)
{
    free(g->jobs);
    free(g->sizes);
    picture_clear(&g->now);
    picture_clear(&g->soon);
    picture_clear(&g->free);
    free(g->at);
    free(g->line);
}
