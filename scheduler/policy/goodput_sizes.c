/* goodput_sizes.c - the sizes that a job may have, and what each is worth.
 *
 * The value of g GPUs is w s(g)^p rho. s is the speed-up over one GPU, also of
 * a job that needs several: or a job would be worth less for each GPU that it
 * cannot do without. p < 1 because the first GPUs of a job bring its end nearer
 * than the last. rho is what is left of a change after its cost, see
 * docs/policy.md. It is 1 for a job that waits, so such jobs differ in their
 * weights only: a plan computes the sizes of a class of jobs once, as a ladder.
 * A live job that is paused loses its restart: for it no GPU is worth less than
 * nothing.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/policy/goodput_in_time.h"
#include "scheduler/policy/goodput_plan.h"

static const double RHO_MIN = 0.02;
/* A pause costs no more than so many times the value of the smallest size: a
 * job that has a minute left gives way to one that weighs more than that. */
static const double LOSS_MAX = 3;

static double floor_of(const struct policy_job *job, double conf)
{
    const struct policy_job_goodput *g = &job->goodput;
    double own = fmax(g->min_efficiency, conf);

    return g->goal == POLICY_GOAL_EFFICIENCY
               ? fmax(own, POLICY_GOAL_EFFICIENCY_FLOOR)
               : own;
}

static bool allows(const struct policy_job *job, const struct policy_rate *r)
{
    int64_t gpus = (int64_t)r->nodes * r->per_node;

    return gpus >= job->gpus_min && gpus <= job->gpus_max &&
           r->nodes >= job->nodes_min && r->nodes <= job->nodes_max &&
           (job->per_node == 0 || r->per_node == job->per_node) &&
           gpu_sizes_divide(job->parts, gpus, r->nodes);
}

struct gp_size *gp_sizes_new(struct gp *g, size_t n)
{
    struct gp_size *none = &g->sizes[g->n_sizes];

    assert(g->n_sizes + n < g->cap_sizes);
    g->n_sizes += n + 1;
    *none = (struct gp_size){.gpus = 0};
    return none + 1;
}

/* ---- ladders --------------------------------------------------------------
 */
/* A class that has never run is assumed to use each GPU so well. */
static const double SPEED_GUESS = 0.9;

double gp_sizes_value(const struct gp *g, const struct policy_job *job,
                      double speed, int32_t gpus)
{
    double p =
        job->goodput.goal == POLICY_GOAL_SPEED ? 1 : g->conf.speedup_exponent;
    bool is_known = isfinite(speed) && speed > 0;

    return pow(fmax(is_known ? speed : SPEED_GUESS * gpus, 1), p);
}

static struct gp_size size_of(const struct gp *g, const struct policy_job *job,
                              const struct policy_rate *first,
                              const struct policy_rate *r)
{
    double p =
        job->goodput.goal == POLICY_GOAL_SPEED ? 1 : g->conf.speedup_exponent;
    bool is_known = isfinite(r->per_s) && r->per_s > 0;
    double s = is_known ? r->per_s / first->per_s : 1;
    double hoped = is_known ? r->hoped_per_s / first->per_s : 1;
    int32_t gpus = r->nodes * r->per_node;
    double part = (double)(first->nodes * first->per_node) / gpus;
    double least = gp_sizes_value(
        g, job,
        is_known ? first->per_s / job->goodput.curve->one_per_s : (double)NAN,
        first->nodes * first->per_node);
    double value = least * pow(s, p);

    return (struct gp_size){
        .nodes = r->nodes,
        .per_node = r->per_node,
        .gpus = gpus,
        .is_efficient =
            r == first || s * part >= floor_of(job, g->conf.efficiency_floor),
        .is_idle_use =
            r == first || hoped * part >= floor_of(job, g->conf.idle_floor),
        .value = value,
        .hoped = hoped > s ? least * pow(hoped, p) : value,
        .rate = r,
    };
}

/* No size above `explore` times the largest that the class has run on: such a
 * guess could be far off. */
static bool is_explored(const struct gp *g, const struct policy_job *job,
                        const struct gp_size *s)
{
    return s->gpus <= (int64_t)g->conf.explore * job->goodput.curve->largest;
}

static void build(struct gp *g, const struct policy_job *job,
                  struct gp_ladder *l)
{
    const struct policy_curve *c = job->goodput.curve;
    const struct policy_rate *first = NULL;
    int32_t n_waits = 0;

    *l = (struct gp_ladder){
        .is_used = true, .like = job, .sizes = gp_sizes_new(g, c->n_rates)};
    for (size_t i = 0; i < c->n_rates; i++) {
        if (!allows(job, &c->rates[i]))
            continue;
        first = first ? first : &c->rates[i];
        struct gp_size *s = &l->sizes[l->n_all++];
        *s = size_of(g, job, first, &c->rates[i]);
        if (l->n_all == 1 || is_explored(g, job, s))
            n_waits = l->n_all;
    }
    l->n = job->goodput.goal == POLICY_GOAL_FIT && n_waits > 1 ? 1 : n_waits;
}

static bool is_like(const struct gp_ladder *l, const struct policy_job *job)
{
    const struct policy_job *a = l->like;

    return l->is_used && a->goodput.curve == job->goodput.curve &&
           a->goodput.goal == job->goodput.goal &&
           a->goodput.min_efficiency >= job->goodput.min_efficiency &&
           a->goodput.min_efficiency <= job->goodput.min_efficiency &&
           a->gpus_min == job->gpus_min && a->gpus_max == job->gpus_max &&
           a->nodes_min == job->nodes_min && a->nodes_max == job->nodes_max &&
           a->per_node == job->per_node && a->parts == job->parts;
}

static struct gp_ladder *ladder_of(struct gp *g, const struct policy_job *job)
{
    const uint64_t parts[] = {
        (uint64_t)(uintptr_t)job->goodput.curve,
        (uint64_t)(uint32_t)job->gpus_min << 32 | (uint32_t)job->gpus_max,
        (uint64_t)(uint32_t)job->nodes_min << 32 | (uint32_t)job->nodes_max,
        (uint64_t)(uint32_t)job->per_node << 32 | (uint32_t)job->parts,
        (uint64_t)job->goodput.goal};
    uint64_t h = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        h = ((h ^ parts[i]) * 0x9e3779b97f4a7c15u) ^ (h >> 32);
    struct gp_ladder *l = &g->ladders[(h >> 40) % GP_LADDERS];
    if (!is_like(l, job))
        build(g, job, l);
    return l;
}

/* ---- the sizes of a job ---------------------------------------------------
 */
/* On a shared cluster what the job gives up may be somebody else's before it
 * starts again. */
static bool is_wanted(const struct gp *g, const struct policy_job *job)
{
    const struct policy_view *v = g->p->view;

    for (int32_t k = 0; v->is_shared && k < job->nodes; k++)
        if (v->nodes[job->at[k]].is_wanted)
            return true;
    return false;
}

static bool has_now(const struct policy_job *job, const struct gp_size *s)
{
    return job->gpus == s->gpus && job->nodes == s->nodes;
}

/* Its present size always; no larger one while it must not grow. */
static bool may_become(const struct gp *g, const struct policy_job *job,
                       const struct gp_size *s)
{
    double now_s = g->p->view->now_s;

    return has_now(job, s) ||
           (is_explored(g, job, s) &&
            (s->gpus < job->gpus || now_s >= job->goodput.growable_s ||
             now_s >= job->goodput.idle_growable_s));
}

static bool list_live(struct gp *g, struct gp_job *j, const struct gp_ladder *l)
{
    size_t before = g->n_sizes;
    bool stays = is_wanted(g, j->job);
    double now_s = g->p->view->now_s;

    j->is_held = now_s < j->job->goodput.resizable_s;
    j->is_beyond = j->is_held || now_s < j->job->goodput.growable_s;
    j->is_bound = g->p->view->is_shared || j->is_beyond;
    j->sizes = gp_sizes_new(g, (size_t)l->n_all);
    for (int32_t k = 0; k < l->n_all; k++) {
        if (k > 0 && !may_become(g, j->job, &l->sizes[k]))
            continue;
        if (j->is_held && j->now < 0 && !has_now(j->job, &l->sizes[k]))
            continue;
        if (stays && l->sizes[k].gpus > j->job->gpus)
            break;
        if (has_now(j->job, &l->sizes[k]))
            j->now = j->n;
        j->sizes[j->n++] = l->sizes[k];
    }
    g->n_sizes = j->now < 0 ? before : before + (size_t)j->n + 1;
    return j->now >= 0;
}

bool gp_sizes_list(struct gp *g, struct gp_job *j)
{
    struct gp_ladder *l = ladder_of(g, j->job);

    j->n = 0;
    j->now = -1;
    if (j->job->gpus > 0)
        return list_live(g, j, l);
    j->is_shared = true;
    j->sizes = l->sizes;
    j->n = l->n;
    return j->n > 0;
}

/* The part of what the job does until then that a restart takes: what it cost
 * lately and the hysteresis, over the time that is left, or the horizon. */
static double loss(const struct gp *g, const struct gp_job *j, double left_s)
{
    double most_s =
        isfinite(left_s) ? fmin(left_s, g->conf.horizon_s) : g->conf.horizon_s;

    return (gp_cost_s(j->job) + g->conf.hysteresis_s) / most_s;
}

/* What is left of the value of a change after its cost. */
static double rho(const struct gp *g, const struct gp_job *j, double left_s)
{
    return fmax(RHO_MIN, 1 - loss(g, j, left_s));
}

void gp_sizes_value_changes(const struct gp *g, struct gp_job *j)
{
    double one = j->left_one_s * j->job->goodput.curve->one_per_s;
    struct gp_size *none = &j->sizes[-1];
    double lost = loss(g, j, one / j->sizes[j->now].rate->per_s);

    /* The job has to start once more, with its smallest size at least. */
    none->value = none->hoped = -fmin(lost, LOSS_MAX) * j->sizes[0].value;
    for (int32_t k = 0; k < j->n; k++) {
        struct gp_size *s = &j->sizes[k];
        bool is_more = s->hoped > s->value;
        if (k == j->now)
            continue;
        s->value *= rho(g, j, one / s->rate->per_s);
        s->hoped = is_more ? s->hoped * rho(g, j, one / s->rate->hoped_per_s)
                           : s->value;
    }
}

void gp_sizes_rule_out(struct gp *g, struct gp_job *j, int32_t size)
{
    if (j->is_shared) {
        struct gp_size *own = gp_sizes_new(g, (size_t)j->n);
        memcpy(own, j->sizes, (size_t)j->n * sizeof(*own));
        j->sizes = own;
        j->is_shared = false;
    }
    j->sizes[size].is_idle_use = false;
}
