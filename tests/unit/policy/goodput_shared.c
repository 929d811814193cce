/* goodput_shared.c - on a cluster with others, jobs grow onto GPUs that are
 * free, and onto no others. */
#include <math.h>

#include "jobs/base/rng.h"
#include "tests/unit/policy/view.h"

enum { SIZES = 8, VIEWS = 1000 };

struct curve {
    struct policy_rate rates[SIZES];
    struct policy_curve curve;
};

static void set_curve(struct curve *c, double step)
{
    for (int g = 0; g < SIZES; g++)
        c->rates[g] = (struct policy_rate){.nodes = g < 4 ? 1 : g - 2,
                                           .per_node = g < 4 ? g + 1 : 4,
                                           .per_s = 1 + g * step,
                                           .hoped_per_s = 1 + g * step,
                                           .basis = RATE_MEASURED,
                                           .n = 100};
    c->curve = (struct policy_curve){
        .rates = c->rates, .n_rates = SIZES, .one_per_s = 1, .largest = 24};
}

static void setup(struct view *t, int nodes)
{
    view_init(t, nodes, 4);
    t->v.goodput = policy_goodput_default;
    t->v.is_shared = true;
}

static struct policy_job *make_elastic(struct policy_job *job,
                                       const struct curve *c, double left_s)
{
    job->gpus_min = 1;
    job->gpus_max = 24;
    job->nodes_max = 6;
    job->cost_s = 20;
    job->may_resize = job->state == JOB_RUNNING;
    job->goodput.curve = &c->curve;
    job->goodput.left_one_s = job->goodput.one_s = left_s;
    return job;
}

static struct policy_job *running(struct view *t, const struct curve *c,
                                  int32_t node, int32_t gpus, double left_s)
{
    return make_elastic(view_run(t, node, gpus, 600, INFINITY), c, left_s);
}

/* The size that the plan chooses for the job; -1: none. */
static int32_t wished(const struct view *t, uint64_t id)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->decisions[i].id == id && t->decisions[i].act != POLICY_WAIT)
            return t->decisions[i].nodes * t->decisions[i].gpus_per_node;
    return -1;
}

static int32_t plan_size(struct view *t, uint64_t id)
{
    struct error err = ERROR_INIT;

    if (view_plan(t, &policy_goodput, &err) == 0)
        return wished(t, id);
    tap_diag("%s", err.msg);
    return -2;
}

static void test_growth(void)
{
    static struct view t;
    static struct curve good, poor;

    set_curve(&good, 0.9);
    set_curve(&poor, 0);
    setup(&t, 1);
    running(&t, &good, 0, 2, 1e5);
    is_int(plan_size(&t, 1), 4, "it grows onto what is free");
    t.nodes[0].is_wanted = 1;
    is_int(plan_size(&t, 1), -1, "not if others wait for its node");
    t.v.is_shared = false;
    is_int(plan_size(&t, 1), 4, "which only a shared cluster asks");

    setup(&t, 1);
    running(&t, &poor, 0, 3, 1e6);
    running(&t, &good, 0, 1, 50000);
    t.v.is_shared = false;
    is_int(plan_size(&t, 2), 3, "alone, it takes the GPUs of a slower job");
    t.v.is_shared = true;
    is_int(plan_size(&t, 2), -1, "shared, it waits until they are free");
    is_int(wished(&t, 1), -1, "and the slower job is not told to go for it");

    setup(&t, 1);
    running(&t, &poor, 0, 4, 1e6);
    make_elastic(view_job(&t, 1, 4, INFINITY), &good, 500);
    int32_t size = plan_size(&t, 1);
    ok(size >= 0 && size < 4, "a job makes room for one that waits");

    setup(&t, 3);
    running(&t, &good, 0, 4, 1e5);
    t.nodes[1].is_wanted = 1;
    t.nodes[2].gpus_free = 0;
    is_int(plan_size(&t, 1), -1, "not onto nodes that others wait for");
    t.nodes[2].gpus_free = 4;
    is_int(plan_size(&t, 1), 8, "but onto the others");

    setup(&t, 2);
    struct policy_job *other = running(&t, &good, 0, 3, 1e5);
    other->goodput.resizable_s = other->goodput.growable_s = 1e9;
    other->goodput.idle_growable_s = 1e9;
    running(&t, &good, 1, 2, 1e5);
    is_int(plan_size(&t, 2), 4, "no node of another job is in the way");
}

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void random_view(struct rng *r, struct view *t, struct curve *c)
{
    int n = draw(r, 1, 12);

    setup(t, draw(r, 1, 6));
    for (int k = 0; k < 4; k++)
        set_curve(&c[k], draw(r, 0, 100) / 100.0);
    for (int i = 0; i < n; i++) {
        int32_t node = draw(r, 0, (int32_t)t->v.n_nodes - 1);
        int32_t gpus = draw(r, 1, 4);
        const struct curve *one = &c[draw(r, 0, 3)];
        if (draw(r, 0, 1) && t->nodes[node].gpus_free >= gpus)
            running(t, one, node, gpus, draw(r, 100, 100000));
        else
            make_elastic(view_job(t, 1, 4, INFINITY), one,
                         draw(r, 100, 100000));
    }
    for (size_t i = 0; i < t->v.n_nodes; i++) {
        t->nodes[i].is_wanted = draw(r, 0, 3) == 0;
        if (t->nodes[i].gpus_free > 0 && draw(r, 0, 3) == 0)
            t->nodes[i].gpus_free--;
    }
}

/* Starts and growth together need no more than is free now, no job on a wanted
 * node grows, and what grows fits beside the starts on nodes that nobody else
 * wants. */
static bool is_allowed(const struct view *t)
{
    int32_t free = 0, open = 0, grown = 0, started = 0;

    for (size_t i = 0; i < t->v.n_nodes; i++) {
        free += t->nodes[i].gpus_free;
        open += t->nodes[i].is_wanted ? 0 : t->nodes[i].gpus_free;
    }
    for (size_t i = 0; i < t->n; i++) {
        const struct policy_decision *w = &t->decisions[i];
        const struct policy_job *job = &t->jobs[w->id - 1];
        int32_t more = w->nodes * w->gpus_per_node - job->gpus;
        if (w->act == POLICY_START)
            started += more;
        if (w->act != POLICY_RESIZE || more <= 0)
            continue;
        grown += more;
        if (t->nodes[job->at[0]].is_wanted)
            return false;
    }
    return grown <= open && grown + started <= free;
}

static void test_random(void)
{
    static struct view t;
    static struct curve c[4];
    struct rng r;
    int n_allowed = 0, n_grown = 0;

    rng_seed(&r, 28);
    for (int i = 0; i < VIEWS; i++) {
        random_view(&r, &t, c);
        bool has = view_plan(&t, &policy_goodput, NULL) == 0;
        n_allowed += has && is_allowed(&t);
        for (size_t k = 0; has && k < t.n; k++)
            n_grown += t.decisions[k].act == POLICY_RESIZE &&
                       t.decisions[k].nodes * t.decisions[k].gpus_per_node >
                           t.jobs[t.decisions[k].id - 1].gpus;
    }
    is_int(n_allowed, VIEWS, "plans that grow onto free GPUs only");
    ok(n_grown > VIEWS / 10, "and that do grow");
}

int main(void)
{
    test_growth();
    test_random();
    return tap_done();
}
