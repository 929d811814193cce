/* goodput_view.h - views of jobs with measured curves, and plans of goodput as
 * a text. */
#ifndef MGPU_TESTS_UNIT_POLICY_GOODPUT_VIEW_H
#define MGPU_TESTS_UNIT_POLICY_GOODPUT_VIEW_H

#include "scheduler/policy/goodput_plan.h"
#include "tests/unit/policy/view.h"

enum { CURVES = 8, GPUS_MAX = 8 };

static const struct policy *const goodput = &policy_goodput;

struct curves {
    struct policy_rate rates[CURVES][GPUS_MAX];
    struct policy_curve curve[CURVES];
};

/* Speed-ups on 1..n GPUs of one node, all measured. */
static inline void set_curve(struct curves *c, int k, const double *speed,
                             int n)
{
    for (int g = 0; g < n; g++)
        c->rates[k][g] = (struct policy_rate){.nodes = 1,
                                              .per_node = g + 1,
                                              .per_s = speed[g],
                                              .hoped_per_s = speed[g],
                                              .basis = RATE_MEASURED,
                                              .n = 100};
    c->curve[k] = (struct policy_curve){.rates = c->rates[k],
                                        .n_rates = (size_t)n,
                                        .one_per_s = speed[0],
                                        .largest = n};
}

static const double good[] = {1, 1.9, 2.7, 3.4};
static const double poor[] = {1, 1.3, 1.4, 1.45};
static const double jumps[] = {1, 1.6, 2.7, 3.4};

static inline void setup(struct view *t, struct curves *c, int nodes)
{
    view_init(t, nodes, 4);
    t->v.goodput = policy_goodput_default;
    t->v.goodput.aging = 0; /* which tests turn on */
    set_curve(c, 0, good, 4);
    set_curve(c, 1, poor, 4);
}

static inline struct policy_job *elastic(struct view *t, const struct curves *c,
                                         int k, double left_s)
{
    struct policy_job *job = view_job(t, 1, 4, INFINITY);
    job->cost_s = NAN;
    job->goodput.curve = &c->curve[k];
    job->goodput.left_one_s = job->goodput.one_s = left_s;
    return job;
}

static inline struct policy_job *running(struct view *t, const struct curves *c,
                                         int k, double left_s, int32_t node,
                                         int32_t gpus, double ran_s)
{
    struct policy_job *job = view_run(t, node, gpus, ran_s, INFINITY);
    job->gpus_min = 1;
    job->gpus_max = 4;
    job->may_resize = 1;
    job->cost_s = 20;
    job->goodput.curve = &c->curve[k];
    job->goodput.left_one_s = job->goodput.one_s = left_s;
    return job;
}

/* As is_plan(), with "3=2" for a job that becomes 2 GPUs. */
static inline void is_text(struct view *t, const char *want, const char *what)
{
    struct error err = ERROR_INIT;
    char got[512] = "";
    size_t len = 0;

    if (view_plan(t, goodput, &err) < 0) {
        ok(false, "%s: %s", what, err.msg);
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct policy_decision *w = &t->decisions[i];
        char size[16] = "-";
        if (w->act != POLICY_WAIT)
            (void)snprintf(size, sizeof(size), "%c%d",
                           w->act == POLICY_START ? ':' : '=',
                           w->nodes * w->gpus_per_node);
        len += (size_t)snprintf(
            got + len, sizeof(got) - len, "%s%s%d%s", len ? " " : "",
            w->act == POLICY_START ? "+" : "", (int)w->id, size);
    }
    is_str(got, want, what);
}

#endif
