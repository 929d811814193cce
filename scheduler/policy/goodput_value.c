/* goodput_value.c - which jobs share the GPUs, and how much each weighs.
 *
 * The value of g GPUs is w s(g)^p rho. The weight w grows with the rank of the
 * job: the job with most work left has rank 1. goodput_sizes.c has the rest.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/goodput_in_time.h"
#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"

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

/* Whether its resizes of an hour allow a change: to give GPUs up, or to grow
 * onto free ones. */
static bool has_turn(const struct policy_view *v, const struct policy_job *job)
{
    return v->now_s >= job->goodput.resizable_s ||
           v->now_s >= job->goodput.idle_growable_s;
}

/* A live job whose size the policy may change now. */
static bool may_change(const struct gp *g, const struct policy_view *v,
                       const struct policy_job *job)
{
    return job->goodput.curve && job->goodput.goal != POLICY_GOAL_FIT &&
           job->may_resize && !job->is_leaving && job->at && job->gpus > 0 &&
           is_on_nodes_up(v, job) && g->conf.max_resizes_per_hour > 0 &&
           v->now_s >= job->start_s + g->conf.min_runtime_s &&
           v->now_s >= job->goodput.paid_s && has_turn(v, job);
}

/* ---- weights --------------------------------------------------------------
 */
static bool is_known(double s)
{
    return isfinite(s) && s > 0;
}

struct ranked {
    double left_s;
    size_t order;
};

/* Most work first; of equal jobs the last one, which so weighs least. A radix
 * sort, for there may be 10,000 jobs: times are positive numbers, which are
 * ordered as their bits are. */
enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
static uint64_t key_of(const struct ranked *r)
{
    uint64_t bits;

    memcpy(&bits, &r->left_s, sizeof(bits));
    return ~bits;
}

static void sort_digit(const struct ranked *from, struct ranked *to, size_t n,
                       unsigned shift)
{
    size_t at[DIGITS] = {0}, sum = 0;

    for (size_t i = 0; i < n; i++)
        at[key_of(&from[i]) >> shift & (DIGITS - 1)]++;
    for (size_t k = 0; k < DIGITS; k++) {
        size_t here = at[k];
        at[k] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++)
        to[at[key_of(&from[i]) >> shift & (DIGITS - 1)]++] = from[i];
}

/* in io in reverse order of the view; scratch [n] */
static void sort_ranked(struct ranked *io, size_t n, struct ranked *scratch)
{
    struct ranked *from = io, *to = scratch;

    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
        struct ranked *was = from;
        sort_digit(from, to, n, shift);
        from = to;
        to = was;
    }
    /* After six digits the result is back in io. */
}

/* in count    see goodput_groups.c
 *    guess_s  of the whole job on one GPU, where nothing tells it: or it would
 *             not age, and starve behind those that do. 0: it does not age */
static double weight(const struct gp *g, const struct policy_job *job,
                     size_t rank, double count, double guess_s)
{
    double share = job->goodput.share > 0 ? job->goodput.share : 1;
    double w = pow((double)rank, g->conf.length_weight) * share *
               exp2(job->priority / 50.0) / count;
    double one_s = is_known(job->goodput.one_s) ? job->goodput.one_s : guess_s;
    double slowdown = one_s > 0 ? gp_waited_s(g, job) / (one_s * count) : 0;

    return g->conf.aging > 0
               ? w * (1 + pow(fmax(slowdown, 0) / g->conf.aging, 2))
               : w;
}

/* ---- probes ---------------------------------------------------------------
 *
 * Nothing tells which rank the jobs of a class deserve that has never run. So
 * one job of it, the first or the one that runs, ranks as if it were about to
 * end. It starts at once with its smallest size, and once that is measured it
 * and all others of the class have the rank of what they have left to do.
 */
static bool is_new(const struct policy_job *job)
{
    return job->goodput.curve && job->goodput.curve->largest == 0 &&
           !is_known(job->goodput.left_one_s);
}

/* Where the class of a job is in the table, or would be. */
static size_t slot_of(const struct policy_view *v, const size_t *table,
                      size_t n_slots, size_t i)
{
    const struct policy_curve *c = v->jobs[i].goodput.curve;
    size_t k = ((uint64_t)(uintptr_t)c * 0x9e3779b97f4a7c15u >> 20) % n_slots;

    while (table[k] > 0 && v->jobs[table[k] - 1].goodput.curve != c)
        k = (k + 1) % n_slots;
    return k;
}

/* Marks the probe of each class. out is [n_jobs] */
static int find_probes(const struct policy_view *v, bool *is, struct error *err)
{
    size_t n_slots = 1, *table; /* of a job's index + 1; 0: empty */

    for (size_t i = 0; i < v->n_jobs; i++)
        n_slots += is_new(&v->jobs[i]) ? 2 : 0;
    table = calloc(n_slots, sizeof(*table));
    if (!table)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; n_slots > 1 && i < v->n_jobs; i++) {
        if (!is_new(&v->jobs[i]))
            continue;
        size_t *first = &table[slot_of(v, table, n_slots, i)];
        if (*first == 0 ||
            (v->jobs[i].gpus > 0 && v->jobs[*first - 1].gpus == 0))
            *first = i + 1;
    }
    for (size_t k = 0; k < n_slots; k++)
        if (table[k] > 0)
            is[table[k] - 1] = true;
    free(table);
    return 0;
}

/* Less than any job has left. */
static const double PROBE_S = 1e-3;

/* What the job has left. */
static double left_of(const struct policy_job *job)
{
    const struct policy_job_goodput *g = &job->goodput;

    return is_known(g->left_one_s) ? g->left_one_s
           : is_known(g->guess_s)  ? g->guess_s
                                   : POLICY_UNTOLD_S;
}

/* Sorts the jobs. The length of a job must not depend on who else is there: one
 * that is paused for its rank would change its rank by that. A length counts
 * as often as the job (goodput_groups.c).
 * out r [n_jobs]; scratch likewise */
static void sort(const struct policy_view *v, const bool *is_probe,
                 const double *count, struct ranked *r, struct ranked *scratch)
{
    for (size_t i = v->n_jobs, k = 0; i-- > 0; k++) {
        double left_s = left_of(&v->jobs[i]) * count[i];
        r[k] = (struct ranked){is_probe[i] ? PROBE_S : left_s, i};
    }
    sort_ranked(r, v->n_jobs, scratch);
}

/* How long a job of unknown length takes: as it is told, and a probe, which is
 * measured soon, an interval. 0: its length is known in part. */
static double guess_of(const struct gp *g, const struct policy_job *job,
                       bool is_told, double told_s)
{
    if (is_known(job->goodput.left_one_s))
        return 0;
    return is_told ? told_s : g->conf.interval_s;
}

/* All jobs of the view have a rank, from 1. The jobs themselves are visited in
 * the order of the view, for they are large: by rank each would miss the
 * caches. */
static void weigh(struct gp *g, const bool *is_probe, const double *count,
                  const size_t *rank)
{
    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        bool is_told = !is_probe[j->order];
        double left_s = left_of(j->job);
        j->left_one_s = is_told ? left_s : (double)INFINITY;
        j->weight = weight(g, j->job, rank[j->order], count[j->order],
                           guess_of(g, j->job, is_told, left_s));
    }
}

static int rank_all(struct gp *g, const struct policy_view *v,
                    struct error *err)
{
    struct ranked *r = malloc((v->n_jobs + 1) * sizeof(*r));
    struct ranked *scratch = malloc((v->n_jobs + 1) * sizeof(*r));
    size_t *rank = calloc(v->n_jobs + 1, sizeof(*rank));
    bool *is_probe = calloc(v->n_jobs + 1, sizeof(*is_probe));
    double *count = malloc((v->n_jobs + 1) * sizeof(*count));
    int rc = r && scratch && rank && is_probe && count
                 ? find_probes(v, is_probe, err)
                 : error_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0)
        rc = gp_groups_count(v, count, err);
    if (rc == 0) {
        sort(v, is_probe, count, r, scratch);
        for (size_t i = 0; i < v->n_jobs; i++)
            rank[r[i].order] = i + 1;
        weigh(g, is_probe, count, rank);
    }
    free(r);
    free(scratch);
    free(is_probe);
    free(count);
    free(rank);
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
    j->sizes = gp_sizes_new(g, 1);
    j->sizes[0] = (struct gp_size){.nodes = place.nodes,
                                   .per_node = place.per_node,
                                   .gpus = place.nodes * place.per_node};
    j->n = 1;
    j->now = -1;
    j->sizes[0].value = j->sizes[0].hoped = 1;
    j->sizes[0].is_efficient = j->sizes[0].is_idle_use = true;
    j->is_single = true;
    return true;
}

static bool list_sizes(struct gp *g, struct gp_job *j)
{
    bool any = gp_sizes_list(g, j);

    if (any)
        gp_in_time(g, j);
    return any;
}

static bool takes_part(struct gp *g, const struct policy_view *v, size_t i,
                       struct gp_job *ret)
{
    const struct policy_job *job = &v->jobs[i];

    *ret = (struct gp_job){.job = job, .order = i, .chosen = -1};
    if (job->state != JOB_QUEUED)
        return may_change(g, v, job) && list_sizes(g, ret);
    ret->is_forced = job->to_gpus > 0 || job->has_reservation;
    if (!ret->is_forced && v->now_s < job->goodput.startable_s)
        return false;
    if (!ret->is_forced && job->goodput.curve && list_sizes(g, ret))
        return true;
    if (!list_one(g, ret))
        return false;
    gp_rigid_compete(g, ret);
    return true;
}

static int allocate(struct gp *g, const struct policy_view *v,
                    struct error *err)
{
    /* A job adds a ladder at most, and sizes of its own, twice if some are left
     * out. What is not used is not touched. */
    g->cap_sizes = 2 * v->n_jobs + 1;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].goodput.curve)
            g->cap_sizes += 3 * (v->jobs[i].goodput.curve->n_rates + 1);
    g->jobs = malloc((v->n_jobs + 1) * sizeof(*g->jobs));
    g->sizes = malloc(g->cap_sizes * sizeof(*g->sizes));
    g->ladders = calloc(GP_LADDERS, sizeof(*g->ladders));
    g->closed = malloc((v->n_nodes + 1) * sizeof(*g->closed));
    g->kept_at = malloc((v->n_nodes + 1) * sizeof(*g->kept_at));
    g->leaving = malloc((v->n_jobs + 1) * sizeof(*g->leaving));
    g->at = malloc((v->n_nodes + 1) * sizeof(*g->at));
    g->movers = malloc((v->n_jobs + 1) * sizeof(*g->movers));
    g->gains = malloc((v->n_jobs + 1) * sizeof(*g->gains));
    g->line = malloc((v->n_jobs + 1) * sizeof(*g->line));
    if (!g->jobs || !g->sizes || !g->ladders || !g->at || !g->closed ||
        !g->kept_at || !g->leaving || !g->movers || !g->gains || !g->line)
        return error_set(err, ERR_NOMEM, "out of memory");
    return picture_init(&g->now, v->nodes, v->n_nodes, err) < 0 ||
                   picture_init(&g->soon, v->nodes, v->n_nodes, err) < 0
               ? -1
               : picture_init(&g->free, v->nodes, v->n_nodes, err);
}

/* That of the last job, but for those that go before all. */
static int32_t least_priority(const struct policy_view *v)
{
    int32_t least = v->n_jobs > 0 ? v->jobs[v->n_jobs - 1].priority : 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (!job->has_reservation && !job->is_back)
            break;
        least = job->priority < least ? job->priority : least;
    }
    return least;
}

static double jobs_per_gpu(const struct policy_view *v)
{
    double gpus = 0;

    for (size_t i = 0; i < v->n_nodes; i++)
        gpus += v->nodes[i].is_up ? v->nodes[i].gpus_total : 0;
    return gpus > 0 && gp_groups_matter(v) ? (double)v->n_jobs / gpus : 0;
}

int gp_value_collect(struct gp *g, struct plan *p, struct error *err)
{
    const struct policy_view *v = p->view;

    *g =
        (struct gp){.p = p,
                    .conf = v->goodput.interval_s > 0 ? v->goodput
                                                      : policy_goodput_default};
    if (allocate(g, v, err) < 0)
        return -1;
    for (size_t i = 0; i < v->n_nodes; i++) {
        const struct policy_node *node = &v->nodes[i];
        g->gpus += node->is_up ? place_free(node) : 0;
        g->grow_gpus += node->is_up && !node->is_wanted ? place_free(node) : 0;
    }
    g->jobs_per_gpu = jobs_per_gpu(v);
    g->least_priority = least_priority(v);
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (gp_leaves(job) || policy_is_resizing(job))
            g->leaving[g->n_leaving++] = i;
        if (takes_part(g, v, i, &g->jobs[g->n]))
            g->gpus += g->jobs[g->n++].job->gpus;
        else if (gp_leaves(job)) /* it may come back with a new size */
            g->gpus += job->gpus - job->to_gpus;
    }
    if (g->lacks_memory)
        return error_set(err, ERR_NOMEM, "out of memory");
    g->gpus = g->gpus > 0 ? g->gpus : 0;
    g->turns = malloc((size_t)gp_n_turns(g) * sizeof(*g->turns));
    if (!g->turns)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (rank_all(g, v, err) < 0)
        return -1;
    for (size_t i = 0; i < g->n; i++)
        if (g->jobs[i].now >= 0)
            gp_sizes_value_changes(g, &g->jobs[i]);
    return 0;
}

void gp_value_clear(struct gp *g)
{
    free(g->jobs);
    free(g->sizes);
    free(g->ladders);
    picture_clear(&g->now);
    picture_clear(&g->soon);
    picture_clear(&g->free);
    picture_clear(&g->lasting);
    free(g->at);
    free(g->closed);
    free(g->kept_at);
    free(g->leaving);
    free(g->movers);
    free(g->gains);
    free(g->line);
    free(g->turns);
}
