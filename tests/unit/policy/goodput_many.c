/* goodput_many.c - many jobs: goodput's shortcut chooses what it would choose
 * without, and a plan does not depend on the plans before it.
 *
 * A view of 600 jobs changes a little a thousand times, as that of a cluster
 * does from one plan to the next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"
#include "tests/tap.h"

enum {
    JOBS = 600,
    NODES = 40,
    GPUS = 8,
    CURVES = 12,
    SIZES = GPUS + 2,
    CHANGES = 1000
};

struct many {
    struct rng rng;
    struct policy_view v;
    struct policy_node nodes[NODES];
    struct policy_job jobs[JOBS];
    int32_t at[JOBS];
    struct policy_rate rates[CURVES][SIZES];
    struct policy_curve curves[CURVES];
    struct policy_decision decisions[JOBS];
    size_t n;
};

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void set_curves(struct many *t)
{
    for (int c = 0; c < CURVES; c++) {
        double speed = 0;
        for (int k = 0; k < SIZES; k++) {
            int32_t nodes = k < GPUS ? 1 : k - GPUS + 2;
            speed += draw(&t->rng, 0, 100) / 100.0 + (k == 0);
            t->rates[c][k] =
                (struct policy_rate){.nodes = nodes,
                                     .per_node = k < GPUS ? k + 1 : GPUS,
                                     .per_s = speed,
                                     .hoped_per_s = speed,
                                     .basis = RATE_MEASURED,
                                     .n = 100};
        }
        t->curves[c] = (struct policy_curve){.rates = t->rates[c],
                                             .n_rates = SIZES,
                                             .one_per_s = t->rates[c][0].per_s,
                                             .largest = draw(&t->rng, 1, GPUS)};
    }
}

static void leave(struct many *t, size_t i)
{
    struct policy_job *job = &t->jobs[i];

    if (job->gpus > 0)
        t->nodes[t->at[i]].gpus_free += job->gpus;
}

/* Another job in its place: it waits, or runs if a node has room. */
static void come(struct many *t, size_t i)
{
    int32_t most = draw(&t->rng, 1, 3 * GPUS);
    int32_t node = draw(&t->rng, 0, NODES - 1), gpus = draw(&t->rng, 1, 4);
    bool is_rigid = draw(&t->rng, 0, 19) == 0;
    struct policy_job *job = &t->jobs[i];

    *job = (struct policy_job){.id = i + 1,
                               .state = JOB_QUEUED,
                               .gpus_min = is_rigid ? most : 1,
                               .gpus_max = most,
                               .nodes_min = 1,
                               .nodes_max = 3,
                               .classes = POLICY_ANY_CLASS,
                               .classes_ever = POLICY_ANY_CLASS,
                               .submit_s = (double)i,
                               .start_s = NAN,
                               .limit_s = INFINITY,
                               .left_s = NAN,
                               .cost_s = 30};
    job->goodput.curve =
        is_rigid ? NULL : &t->curves[draw(&t->rng, 0, CURVES - 1)];
    job->goodput.left_one_s =
        draw(&t->rng, 0, 9) == 0 ? (double)NAN : draw(&t->rng, 100, 200000);
    job->goodput.goal = (enum policy_goal)draw(&t->rng, 0, 3);
    if (gpus > t->nodes[node].gpus_free || gpus > most || is_rigid ||
        draw(&t->rng, 0, 1))
        return;
    t->at[i] = node;
    t->nodes[node].gpus_free -= gpus;
    job->state = JOB_RUNNING;
    job->at = &t->at[i];
    job->gpus = gpus;
    job->nodes = 1;
    job->start_s = t->v.now_s - draw(&t->rng, 0, 600);
    job->may_resize = 1;
    if (draw(&t->rng, 0, 9) == 0)
        job->goodput.growable_s = INFINITY; /* onto idle GPUs alone */
    if (draw(&t->rng, 0, 9) == 0)
        job->goodput.resizable_s = INFINITY;
}

static void set_up(struct many *t)
{
    rng_seed(&t->rng, 26);
    t->v = (struct policy_view){.now_s = 1e6,
                                .nodes = t->nodes,
                                .n_nodes = NODES,
                                .jobs = t->jobs,
                                .n_jobs = JOBS,
                                .goodput = policy_goodput_default};
    for (int i = 0; i < NODES; i++)
        t->nodes[i] = (struct policy_node){
            .gpus_total = GPUS, .gpus_free = GPUS, .is_up = 1};
    set_curves(t);
    for (size_t i = 0; i < JOBS; i++)
        come(t, i);
}

/* out chosen [JOBS] */
static bool choose(struct many *t, bool is_plain, int32_t *chosen,
                   size_t *ret_n)
{
    struct plan p;
    struct gp g;

    if (plan_begin(&p, &t->v, t->decisions, JOBS, NULL) < 0)
        return false;
    bool is = gp_value_collect(&g, &p, NULL) == 0 && gp_rigid(&g, NULL) == 0;
    g.is_plain = is_plain;
    is = is && gp_hull_choose(&g, NULL) == 0;
    *ret_n = g.n;
    for (size_t i = 0; is && i < g.n; i++)
        chosen[i] = g.jobs[i].chosen;
    gp_value_clear(&g);
    plan_end(&p);
    return is;
}

static bool is_same_choice(struct many *t)
{
    int32_t a[JOBS], b[JOBS];
    size_t n = 0, m = 0;

    return choose(t, false, a, &n) && choose(t, true, b, &m) && n == m &&
           n > JOBS / 2 && memcmp(a, b, n * sizeof(*a)) == 0;
}

static bool is_equal(const struct policy_decision *a,
                     const struct policy_decision *b)
{
    return a->id == b->id && a->act == b->act && a->nodes == b->nodes &&
           a->gpus_per_node == b->gpus_per_node &&
           strcmp(a->act == POLICY_WAIT ? a->reason : "",
                  b->act == POLICY_WAIT ? b->reason : "") == 0;
}

/* The plan of the view, and of a copy at other addresses. */
static bool is_same_plan(const struct many *t, struct many *a, struct many *b)
{
    bool is = true;

    for (struct many *m = a; m; m = m == a ? b : NULL) {
        memcpy(m, t, sizeof(*m));
        m->v.nodes = m->nodes;
        m->v.jobs = m->jobs;
        for (size_t i = 0; i < JOBS; i++) {
            if (m->jobs[i].at)
                m->jobs[i].at = &m->at[i];
            if (m->jobs[i].goodput.curve)
                m->jobs[i].goodput.curve =
                    &m->curves[m->jobs[i].goodput.curve - t->curves];
        }
        for (int c = 0; c < CURVES; c++)
            m->curves[c].rates = m->rates[c];
        is = is &&
             policy_goodput.plan(&m->v, m->decisions, JOBS, &m->n, NULL) == 0;
    }
    is = is && a->n == b->n;
    for (size_t i = 0; is && i < a->n; i++)
        is = is_equal(&a->decisions[i], &b->decisions[i]);
    return is;
}

int main(void)
{
    struct many *t = calloc(3, sizeof(*t));
    int n_choices = 0, n_plans = 0;

    if (!t)
        return EXIT_FAILURE;
    set_up(t);
    for (int i = 0; i < CHANGES; i++) {
        size_t out = (size_t)draw(&t->rng, 0, JOBS - 1);
        t->v.now_s += draw(&t->rng, 0, 60);
        for (size_t k = 0; k < JOBS; k++)
            t->jobs[k].goodput.left_one_s *= draw(&t->rng, 990, 1000) / 1e3;
        leave(t, out);
        come(t, out);
        n_choices += is_same_choice(t);
        n_plans += is_same_plan(t, &t[1], &t[2]);
    }
    is_int(n_choices, CHANGES, "choices, with and without the shortcut");
    is_int(n_plans, CHANGES, "equal views of many jobs, equal plans");
    free(t);
    return tap_done();
}
