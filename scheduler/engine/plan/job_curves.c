/* job_curves.c - tell the policy how fast a job would be on each size, and what
 * it has left to do.
 *
 * All jobs of a class and a type of GPU share one curve. A view computes it
 * once.
 *
 * A job with a range that may have GPUs of several types tries them in the
 * order of their worth for its class: the speed of one GPU. Types that the
 * class has never run on come after the others, those with most free GPUs
 * first, and at the end nodes of any types, as without an order: an order keeps
 * no job from GPUs. Its sizes and its rates are those of the first type with
 * room.
 */
#include <math.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/job_curves.h"
#include "scheduler/engine/rules/attempt_retry.h"
#include "scheduler/engine/teach.h"

static void add(struct eng_model *m, const struct throughput *of, int64_t nodes,
                int32_t per_node)
{
    if (m->curve.n_rates == CURVE_MAX || nodes * per_node > INT32_MAX)
        return;
    struct throughput_rate r = throughput_rate(of, (int32_t)nodes, per_node);
    m->rates[m->curve.n_rates++] = (struct policy_rate){
        .nodes = (int32_t)nodes,
        .per_node = per_node,
        .per_s = r.per_s,
        .hoped_per_s = r.hoped_per_s,
        .basis = r.basis,
        .n = r.n,
    };
}

/* Up to this number of nodes each one is a size; above, a quarter more. */
enum { NODES_EACH = 16 };

static void build(struct eng_model *m, const struct eng_view *t)
{
    const struct throughput *of = eng_program_speed(m);
    int32_t most = 0;
    int64_t nodes = 0;

    for (size_t i = 0; i < t->v.n_nodes; i++)
        if (t->nodes[i].is_up && t->nodes[i].gpus_total > most)
            most = t->nodes[i].gpus_total;
    for (size_t i = 0; i < t->v.n_nodes; i++)
        nodes += t->nodes[i].is_up && t->nodes[i].gpus_total == most;
    m->curve = (struct policy_curve){.rates = m->rates};
    for (int32_t g = 1; g <= most; g++)
        add(m, of, 1, g);
    for (int64_t k = 2; most > 0 && k <= nodes; k += k < NODES_EACH ? 1 : k / 4)
        add(m, of, k, most);
    m->curve.one_per_s = throughput_rate(of, 1, 1).per_s;
    m->curve.largest = throughput_largest(of);
}

static double interval_s(const struct engine *e)
{
    double own_s = e->parts.conf->goodput.interval_s;

    return own_s > 0 ? own_s : policy_goodput_default.interval_s;
}

double eng_curves_next(const struct engine *e)
{
    return e->policy == &policy_goodput && e->n_active > 0
               ? eng_now(e) + interval_s(e)
               : (double)INFINITY;
}

static enum policy_goal goal_of(const struct job *job)
{
    return job->goal == GOAL_EFFICIENCY ? POLICY_GOAL_EFFICIENCY
           : job->goal == GOAL_SPEED    ? POLICY_GOAL_SPEED
           : job->goal == GOAL_FIT      ? POLICY_GOAL_FIT
                                        : POLICY_GOAL_NONE;
}

/* ---- the type of GPUs -----------------------------------------------------
 */
bool eng_curves_prefer_type(const struct engine *e,
                            const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool has_range =
        job->gpus_min < job->gpus_max || job->nodes_min < job->nodes_max;

    return e->policy == &policy_goodput && e->classes.n_types > 1 &&
           has_range && rec->own.class && !rec->has_own_rates &&
           !eng_where(e->parts.conf, job, 1).gpu_type;
}

/* Of one GPU of the type, by its index; 0: unknown. */
static double rate_on(const struct engine *e, const struct job_record *rec,
                      size_t k)
{
    const char *type = e->nodes[e->classes.of_type[k]].gpu_type;
    const struct eng_model *m =
        eng_models_find(&e->models, rec->own.class, type);
    if (!m || m->m.n == 0)
        m = eng_program_find(e, rec, type);
    double per_s = m ? throughput_rate(&m->m, 1, 1).per_s : 0;

    return per_s > 0 ? per_s : 0;
}

static void order_types(const struct engine *e, const struct eng_view *t,
                        const struct job_record *rec, struct eng_model *m)
{
    double rates[POLICY_CLASSES];
    size_t n = 0;

    for (size_t k = 0; k < e->classes.n_types; k++) {
        double rate = rate_on(e, rec, k);
        size_t at = n++;
        for (; at > 0; at--) {
            double before = rates[at - 1];
            if (before > rate ||
                (before >= rate && t->free[m->types[at - 1]] >= t->free[k]))
                break;
            rates[at] = before;
            m->types[at] = m->types[at - 1];
        }
        rates[at] = rate;
        m->types[at] = (uint8_t)k;
    }
    m->n_types = n > 0 && rates[0] > 0 ? n : 0;
    for (size_t i = 0; i < m->n_types; i++)
        m->sets[i] = e->classes.types[m->types[i]];
    m->sets[m->n_types] = POLICY_ANY_CLASS;
}

/* The model of the first type with room for the job, else of the first; m:
 * there is no choice, or nothing to choose by. */
static struct eng_model *try_in_order(struct engine *e,
                                      const struct eng_view *t,
                                      const struct job_record *rec,
                                      struct eng_model *m,
                                      struct policy_job *io)
{
    struct eng_model *of = NULL;
    int first = -1;

    if (m->order_of != e->models.n_views) {
        order_types(e, t, rec, m);
        m->order_of = e->models.n_views;
    }
    if (m->n_types == 0)
        return m;
    for (size_t i = m->n_types; i-- > 0;) {
        bool has_room = t->free[m->types[i]] >= io->gpus_min;
        if ((m->sets[i] & io->classes) == 0)
            continue;
        if (first < 0 || has_room || t->free[first] < io->gpus_min)
            first = m->types[i];
    }
    io->sets = m->sets;
    io->n_sets = m->n_types + !eng_wants_type(e, &rec->job);
    if (first < 0 ||
        eng_models_get(&e->models, m->class,
                       e->nodes[e->classes.of_type[first]].gpu_type,
                       m->m.is_weak, &of, NULL) < 0)
        return m;
    return of;
}

/* On a number of GPUs, over one GPU; NAN: unknown. */
static double speed_of(const struct policy_curve *c,
                       const struct policy_job *job, int32_t gpus)
{
    for (size_t i = 0; i < c->n_rates; i++) {
        const struct policy_rate *r = &c->rates[i];
        if (r->nodes * r->per_node == gpus && r->nodes >= job->nodes_min &&
            r->nodes <= job->nodes_max)
            return r->per_s / c->one_per_s;
    }
    return NAN;
}

void eng_curves_view(struct engine *e, struct eng_view *t,
                     const struct job_record *rec, struct policy_job *io)
{
    const struct gpu_sizes sizes = {
        .gpus = {io->gpus_min, io->gpus_max},
        .nodes = {io->nodes_min, io->nodes_max},
        .per_node = io->per_node,
        .parts = io->parts,
    };
    struct policy_job_goodput *g = &io->goodput;
    struct eng_model *m = NULL;

    g->share = rec->charge.user ? rec->charge.user->factor : 1;
    /* Those for which it was paused start before it. */
    g->startable_s =
        io->state == JOB_QUEUED ? rec->paused_s + interval_s(e) : 0;
    g->goal = goal_of(&rec->job);
    g->min_efficiency = rec->job.min_efficiency;
    g->goes_on =
        isfinite(io->limit_s) && attempt_retry_goes_on(&rec->job, io->limit_s);
    g->has_types = eng_curves_prefer_type(e, rec);
    m = eng_model_of(e, rec);
    if (!m &&
        (!rec->own.class ||
         eng_models_get(&e->models, rec->own.class, eng_model_type(e, rec),
                        engine_is_weak(&rec->job), &m, NULL) < 0) &&
        !(m = eng_program_of(e, rec)))
        return;
    if (io->state == JOB_QUEUED && g->has_types)
        m = try_in_order(e, t, rec, m, io);
    if (m->curve_of != e->models.n_views) {
        eng_program_link(e, rec, m);
        build(m, t);
        m->curve_of = e->models.n_views;
    }
    struct eng_work work = eng_work_of(rec, m);
    g->left_one_s = work.left / m->curve.one_per_s;
    g->one_s = work.all / m->curve.one_per_s;
    if (!(g->left_one_s > 0)) {
        bool is_live = job_state_is_live(rec->job.state);
        double speed =
            speed_of(&m->curve, io, is_live ? rec->job.gpus : io->gpus_min);
        g->guess_s = eng_length_guess_s(e, rec, m, speed);
    }
    bool is_open = io->state == JOB_QUEUED
                       ? io->to_gpus == 0
                       : io->may_resize != 0 || rec->job.iteration == 0;
    if (is_open && gpu_sizes_several(&sizes))
        g->curve = &m->curve;
    else
        g->speed = speed_of(&m->curve, io, io->gpus_min);
}
