/* goodput.c - hull, repair, floors, ties, weights and placement of goodput; and
 * random views against all choices that there are. */
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "tests/unit/policy/goodput_view.h"

enum { RANDOM_VIEWS = 1000 };

static void test_sizes(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 1000);
    is_text(&t, "+1:4", "a job alone takes all");
    elastic(&t, &c, 0, 900);
    is_text(&t, "+2:3 +1:1", "the one with less work gets more");
    t.jobs[1].goodput.curve = &c.curve[1];
    is_text(&t, "+1:3 +2:1", "the one that scales gets more");
    setup(&t, &c, 1);
    elastic(&t, &c, 1, 1000);
    is_text(&t, "+1:4", "idle GPUs are used below the efficiency floor");
    t.v.goodput.idle_floor = 0.4;
    is_text(&t, "+1:3", "but not below the idle floor");

    setup(&t, &c, 1);
    for (int i = 0; i < 6; i++)
        elastic(&t, &c, 0, 1000 * (i + 1));
    is_text(&t, "+1:2 +2:1 +3:1 4- 5- 6-", "those with least work first");
    t.v.goodput.length_weight = 0;
    for (int i = 0; i < 6; i++)
        t.jobs[i].goodput.left_one_s = 1000 * (6 - i);
    is_text(&t, "+1:1 +2:1 +3:1 +4:1 5- 6-", "weight 0: arrival alone");
}

/* A job may tell no length. What stands for it must be the same
 * whether job 2 waits or runs. */
static void test_unknown(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 2;
    running(&t, &c, 0, 1000, 0, 1, 10);
    running(&t, &c, 0, 2000, 0, 1, 600);
    elastic(&t, &c, 1, NAN)->goodput.guess_s = 1500;
    is_text(&t, "3- 2=0", "the job with most work gives way");
    t.nodes[0].gpus_free = 1;
    t.v.n_jobs = 1;
    elastic(&t, &c, 0, 2000);
    elastic(&t, &c, 1, NAN)->goodput.guess_s = 1500;
    is_text(&t, "+3:1 2-", "  and does not take its GPU back");
    t.v.n_jobs = 2;
    t.jobs[1].goodput.startable_s = t.v.now_s + 1;
    is_text(&t, "2-", "what was paused leaves its GPU to others for a while");
    t.jobs[1].goodput.startable_s = t.v.now_s;
    is_text(&t, "+2:1", "  and then has it if nobody took it");
}

static void test_bounds(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 1000)->goodput.goal = POLICY_GOAL_FIT;
    is_text(&t, "+1:1", "goal fit: the smallest");
    t.jobs[0].goodput.goal = POLICY_GOAL_NONE;
    t.jobs[0].goodput.min_efficiency = 0.91;
    is_text(&t, "+1:2", "a floor of the job's own");
    t.jobs[0].goodput.min_efficiency = 0;
    c.curve[0].largest = 1;
    is_text(&t, "+1:2", "twice the largest measured size");
    c.curve[0].largest = 0;
    is_text(&t, "+1:1", "a class that never ran: the smallest");
    c.curve[0].largest = 4;
    t.jobs[0].parts = 6;
    is_text(&t, "+1:3", "sizes that divide its parts");
    t.jobs[0].parts = 0;
    for (int g = 1; g < 4; g++) {
        c.rates[0][g].basis = RATE_FITTED;
        c.rates[0][g].per_s = 1.01;
    }
    is_text(&t, "+1:4", "a pessimistic guess keeps no GPU idle");
}

static void test_changes(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    running(&t, &c, 0, 1e5, 0, 2, 600);
    is_text(&t, "1=4", "it grows onto idle GPUs");
    t.jobs[0].start_s = t.v.now_s - 30;
    is_text(&t, "", "not within its minimum run time");
    t.jobs[0].start_s = t.v.now_s - 600;
    t.jobs[0].goodput.paid_s = t.v.now_s + 1;
    is_text(&t, "", "nor before it has paid for its start");
    t.jobs[0].goodput.paid_s = t.v.now_s;
    t.jobs[0].goodput.growable_s = t.v.now_s + 1;
    t.jobs[0].goodput.idle_growable_s = t.v.now_s + 1;
    is_text(&t, "", "not if it may not grow");
    t.jobs[0].goodput.idle_growable_s = t.v.now_s;
    is_text(&t, "1=4", "in time, onto idle GPUs");
    t.jobs[0].goodput.resizable_s = t.v.now_s + 1;
    is_text(&t, "1=4", "  even if it must not shrink");
    t.jobs[0].goodput.resizable_s = t.jobs[0].goodput.growable_s = 0;
    t.jobs[0].goodput.left_one_s = 200;
    is_text(&t, "", "not if it is about to end");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1e5, 0, 4, 600);
    elastic(&t, &c, 0, 500);
    is_text(&t, "2- 1=1", "it makes room, and the other waits for it");
    t.jobs[0].goodput.resizable_s = t.v.now_s + 1;
    is_text(&t, "2-", "not if it was resized too often");
    t.jobs[0].goodput.resizable_s = 0;
    t.v.goodput.max_resizes_per_hour = 0;
    is_text(&t, "2-", "0 an hour: sizes are chosen at starts alone");
    t.v.goodput.max_resizes_per_hour = 6;
    t.jobs[0].may_resize = 0;
    is_text(&t, "2-", "nor a job that saves nothing");

    setup(&t, &c, 1);
    for (int i = 0; i < 4; i++)
        running(&t, &c, 1, 1e6, 0, 1, 600);
    elastic(&t, &c, 0, 500);
    is_text(&t, "5- 3=0 4=0", "two of four wait for a short job");
}

/* Beyond its resizes of the hour. */
static void test_beyond(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    running(&t, &c, 1, 1e6, 0, 2, 600);
    struct policy_job *job = running(&t, &c, 0, 5e4, 0, 1, 600);
    is_text(&t, "1=1 2=3", "in its turn it takes the GPU of a slower job");
    job->goodput.growable_s = t.v.now_s + 1;
    is_text(&t, "2=2", "without one, what is idle and no more");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1e6, 0, 2, 600)->goodput.resizable_s = t.v.now_s + 1;
    elastic(&t, &c, 0, 500);
    is_text(&t, "+2:2", "what waits gets all but what it keeps");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1e5, 0, 2, 600)->goodput.resizable_s = t.v.now_s + 1;
    view_job(&t, 4, 4, 1e4)->submit_s = 300;
    is_text(&t, "2-", "it does not yield to a job of one size");
    t.jobs[0].goodput.resizable_s = 0;
    is_text(&t, "2- 1=0", "  as it does in its turn");

    setup(&t, &c, 2);
    job = running(&t, &c, 0, 1e5, 0, 4, 600);
    job->goodput.resizable_s = t.v.now_s + 1;
    running(&t, &c, 0, 1e5, 1, 4, 600);
    elastic(&t, &c, 0, 500);
    is_text(&t, "3- 2=1", "another makes room for what waits");
}

static void test_nodes(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 2);
    view_run(&t, 0, 2, 10, 100);
    view_run(&t, 1, 2, 10, 100);
    elastic(&t, &c, 0, 1000);
    is_text(&t, "+3:2", "4 are free, but no node has more than 2");

    setup(&t, &c, 1);
    struct policy_job *job = running(&t, &c, 0, 1e5, 0, 3, 600);
    job->state = JOB_CHECKPOINTING;
    job->is_leaving = 1;
    job->to_gpus = job->gpus_min = job->gpus_max = 4;
    elastic(&t, &c, 0, 100);
    is_text(&t, "2-", "GPUs that a resize was promised are not given away");

    setup(&t, &c, 1);
    view_job(&t, 2, 2, 100);
    view_job(&t, 4, 4, 100);
    view_job(&t, 2, 2, 50);
    is_plan(&t, goodput, "+1:1x2 2:WaitingForGpus +3:1x2",
            "jobs of one size are planned as under backfill");
}

/* It goes, and comes back with `to` GPUs; 0: it does not. */
static void leaves(struct view *t, int32_t node, int32_t gpus, int32_t to)
{
    struct policy_job *job = view_run(t, node, gpus, 600, INFINITY);

    job->state = JOB_CHECKPOINTING;
    job->is_leaving = 1;
    job->to_gpus = to;
    job->gpus_min = job->gpus_max = to > 0 ? to : gpus;
    job->classes = 1;
}

static void waits_for(struct view *t, const struct curves *c, int32_t gpus)
{
    struct policy_job *job = elastic(t, c, 0, 1000);

    job->gpus_min = job->gpus_max = gpus;
    job->classes = 1;
}

/* Two GPUs of node 0 are free. If a job starts on both, only one of two resizes
 * fits, on node 1. So it does not start, and both are free for another. */
static void test_promised(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 3);
    t.nodes[2].class_id = 1; /* no job here may use it */
    (void)view_run(&t, 0, 1, 600, INFINITY);
    (void)view_run(&t, 1, 2, 600, INFINITY);
    leaves(&t, 0, 1, 2);
    leaves(&t, 1, 1, 2);
    leaves(&t, 1, 1, 0);
    waits_for(&t, &c, 2);
    waits_for(&t, &c, 1);
    is_text(&t, "+7:1 6-", "a start that a resize forbids takes no GPUs");
}

/* Jobs of one size beside those with a range. */
static void starts_on(struct view *t, uint64_t classes, const char *what)
{
    struct error err = ERROR_INIT;

    ok(view_plan(t, goodput, &err) == 0, "%s%s", what, err.msg);
    const struct policy_decision *w = &t->decisions[t->n - 1];
    ok(t->n > 0 && w->act == POLICY_START && w->classes == classes,
       "  starts on classes %#llx", (unsigned long long)w->classes);
}

/* Node 1 is of the better type. */
static void test_types(void)
{
    static struct view t;
    static struct curves c;
    static const uint64_t sets[] = {2, 1, POLICY_ANY_CLASS};

    for (int32_t used = 0; used <= 4; used += 4) {
        setup(&t, &c, 2);
        t.nodes[1].class_id = 1;
        t.nodes[1].gpus_free -= used;
        struct policy_job *job = elastic(&t, &c, 0, 1000);
        job->sets = sets;
        job->n_sets = 3;
        starts_on(&t, used ? 1 : 2, used ? "the other" : "the better type");
    }
    setup(&t, &c, 2);
    t.nodes[1].class_id = 1;
    struct policy_job *wide = elastic(&t, &c, 0, 1000);
    wide->sets = sets;
    wide->n_sets = 3;
    wide->gpus_min = wide->gpus_max = 8;
    wide->nodes_min = wide->nodes_max = 2;
    c.rates[0][3].nodes = 2;
    starts_on(&t, POLICY_ANY_CLASS, "no type has room, both together have");
}

static void test_rigid(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    running(&t, &c, 0, 1e5, 0, 4, 600);
    view_job(&t, 2, 2, 100)->submit_s = 500;
    is_text(&t, "2- 1=2", "it gets what a job with a range can give up");
    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 4;
    is_text(&t, "2-", "but not the smallest size of an older job");
    t.jobs[1].submit_s = 300;
    is_text(&t, "2- 1=0", "a job that began later makes room altogether");
    elastic(&t, &c, 0, 10)->submit_s = 600;
    is_text(&t, "2- 3- 1=0", "and none that came later takes it");

    setup(&t, &c, 2);
    view_job(&t, 8, 8, 100)->nodes_min = 2;
    t.jobs[0].nodes_max = 2;
    running(&t, &c, 0, 1e5, 0, 1, 600);
    running(&t, &c, 0, 1e5, 1, 1, 600);
    is_text(&t, "1- 2=0 3=0", "nodes are cleared for a wide one");
    t.jobs[0].gpus_min = t.jobs[0].gpus_max = 4;
    t.jobs[0].nodes_min = t.jobs[0].nodes_max = 1;
    is_text(&t, "1- 2=3", "or the others share what is left");
    t.jobs[1].goodput.left_one_s = t.jobs[2].goodput.left_one_s = 100;
    is_text(&t, "1- 2=0", "a job about to end is moved only if it must be");
}

/* Who goes for a job of one size on two nodes. */
static void test_wide_head(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 3);
    struct policy_job *head = view_job(&t, 3, 3, 100);
    head->nodes_min = head->nodes_max = 3;
    (void)view_run(&t, 1, 4, 600, INFINITY);
    running(&t, &c, 0, 1e5, 2, 4, 600)->gpus_min = 4;
    is_text(&t, "1-", "nobody goes while a further node is missing");
    t.nodes[1].gpus_free = 1;
    t.jobs[1].gpus = 3;
    is_text(&t, "1- 3=0", "  and goes once there is one");

    setup(&t, &c, 5);
    c.rates[0][0].nodes = 2;
    c.rates[0][0].per_node = 3;
    c.curve[0].n_rates = 1;
    c.curve[0].largest = 6;
    head = view_job(&t, 6, 6, 100);
    head->nodes_min = head->nodes_max = 2;
    struct policy_job *wide = running(&t, &c, 0, 1e5, 0, 3, 600);
    wide->gpus = wide->gpus_min = wide->gpus_max = 6;
    wide->nodes = wide->nodes_min = wide->nodes_max = 2;
    t.at[1][1] = 1;
    t.nodes[1].gpus_free -= 3;
    running(&t, &c, 1, 1e5, 1, 1, 600)->gpus_max = 1;
    for (int32_t i = 2; i < 5; i++)
        (void)view_run(&t, i, 2, 600, INFINITY);
    is_text(&t, "1- 2=0", "one that goes leaves both of its nodes");

    setup(&t, &c, 3);
    (void)view_run(&t, 1, 3, 600, INFINITY);
    (void)view_run(&t, 2, 2, 600, INFINITY);
    running(&t, &c, 0, 1e5, 0, 2, 600)->gpus_max = 2;
    view_job(&t, 4, 4, 100)->submit_s = 500;
    wide = running(&t, &c, 0, 1e4, 0, 2, 100);
    wide->gpus_min = 2;
    wide->submit_s = 600;
    is_text(&t, "4- 3=1 5=0", "what becomes smaller there has to");
}

/* ---- the hull -------------------------------------------------------------
 */
static void test_hull(void)
{
    static const double values[] = {1, 1.2, 2.6, 2.7, 4.0, 3.9};
    static const bool want[] = {true, false, true, false, true, false};
    struct gp_size all[7] = {{.gpus = 0}}, *sizes = &all[1];
    struct gp_job job = {.sizes = sizes, .n = 6};
    bool on[6], is_equal = true;

    for (int i = 0; i < 6; i++)
        sizes[i] = (struct gp_size){
            .gpus = i + 1, .value = values[i], .is_efficient = true};
    gp_hull(&job, -1, on);
    for (int i = 0; i < 6; i++)
        is_equal = is_equal && on[i] == want[i];
    ok(is_equal, "the upper hull");
    sizes[4].is_efficient = false;
    for (int i = 0; i < 7; i++)
        all[i].has_next = false;
    gp_hull(&job, 0, on);
    ok(on[0] && on[2] && !on[4] && on[5], "of the efficient sizes");
}

/* ---- random views ---------------------------------------------------------
 */

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void random_curve(struct rng *r, struct curves *c, int k)
{
    double speed[GPUS_MAX] = {1};

    for (int g = 1; g < GPUS_MAX; g++)
        speed[g] = speed[g - 1] + draw(r, 0, 100) / 100.0;
    set_curve(c, k, speed, GPUS_MAX);
}

static void random_view(struct rng *r, struct view *t, struct curves *c)
{
    int n = draw(r, 1, 5), left = GPUS_MAX;

    view_init(t, 1, GPUS_MAX);
    t->v.goodput = policy_goodput_default;
    t->v.goodput.efficiency_floor = t->v.goodput.idle_floor =
        draw(r, 0, 6) / 10.0;
    for (int k = 0; k < n; k++)
        random_curve(r, c, k);
    for (int k = 0; k < n; k++) {
        int32_t gpus = draw(r, 0, 1) ? draw(r, 1, 4) : 0;
        struct policy_job *job = gpus > 0 && gpus <= left
                                     ? running(t, c, k, draw(r, 100, 100000), 0,
                                               gpus, draw(r, 0, 200))
                                     : elastic(t, c, k, draw(r, 100, 100000));
        left -= job->gpus;
        job->gpus_max = draw(r, 4, GPUS_MAX);
        job->priority = 0;
    }
}

static double total(const struct gp *g)
{
    double v = 0;

    for (size_t i = 0; i < g->n; i++) /* of a pause: sizes[-1] */
        v += g->jobs[i].weight * g->jobs[i].sizes[g->jobs[i].chosen].value;
    return v;
}

/* The best of all choices of the jobs from `i` on. */
static double best_of(const struct gp *g, size_t i, int32_t left)
{
    if (i == g->n)
        return 0;
    double best = g->jobs[i].weight * g->jobs[i].sizes[-1].value +
                  best_of(g, i + 1, left);
    for (int32_t k = 0; k < g->jobs[i].n; k++) {
        const struct gp_size *s = &g->jobs[i].sizes[k];
        if (s->gpus > left || !s->is_efficient)
            continue;
        double v =
            g->jobs[i].weight * s->value + best_of(g, i + 1, left - s->gpus);
        best = v > best ? v : best;
    }
    return best;
}

/* The most that one step of a hull gains. */
static double largest_step(const struct gp *g)
{
    double most = 0;
    bool on[GPUS_MAX];

    for (size_t i = 0; i < g->n; i++) {
        double before = 0;
        gp_hull(&g->jobs[i], -1, on);
        for (int32_t k = 0; k < g->jobs[i].n; k++) {
            if (!on[k])
                continue;
            double gain =
                g->jobs[i].weight * (g->jobs[i].sizes[k].value - before);
            most = gain > most ? gain : most;
            before = g->jobs[i].sizes[k].value;
        }
    }
    return most;
}

static bool is_near_best(struct view *t, double *io_worst)
{
    struct plan p;
    struct gp g;
    bool is = false;

    if (plan_begin(&p, &t->v, t->decisions, VIEW_JOBS, NULL) < 0)
        return false;
    if (gp_value_collect(&g, &p, NULL) == 0 && gp_hull_choose(&g, NULL) == 0) {
        double best = best_of(&g, 0, g.gpus), got = total(&g);
        int32_t used = 0;
        for (size_t i = 0; i < g.n; i++)
            used += g.jobs[i].chosen < 0
                        ? 0
                        : g.jobs[i].sizes[g.jobs[i].chosen].gpus;
        is = used <= g.gpus && got <= best + 1e-9 &&
             best - got <= largest_step(&g) + 1e-9;
        if (best > 0 && 1 - got / best > *io_worst)
            *io_worst = 1 - got / best;
    }
    gp_value_clear(&g);
    plan_end(&p);
    return is;
}

/* No resize within the minimum run time, none twice, and all of them and the
 * starts fit once those that go have gone. */
static bool is_allowed(const struct view *t)
{
    int32_t free = t->nodes[0].gpus_free, later = free;

    for (size_t i = 0; i < t->n; i++) {
        const struct policy_decision *w = &t->decisions[i];
        const struct policy_job *job = &t->jobs[w->id - 1];
        int32_t gpus = w->nodes * w->gpus_per_node;
        if (w->act == POLICY_START) {
            free -= gpus;
            later -= gpus;
        }
        if (w->act != POLICY_RESIZE)
            continue;
        later += job->gpus - gpus;
        if (job->start_s + t->v.goodput.min_runtime_s > t->v.now_s ||
            gpus == job->gpus || gpus > job->gpus_max)
            return false;
    }
    return free >= 0 && later >= 0;
}

static bool is_same_plan(const struct view *a, const struct view *b)
{
    bool is = a->n == b->n;

    for (size_t i = 0; is && i < a->n; i++)
        is = a->decisions[i].id == b->decisions[i].id &&
             a->decisions[i].act == b->decisions[i].act &&
             a->decisions[i].nodes == b->decisions[i].nodes &&
             a->decisions[i].gpus_per_node == b->decisions[i].gpus_per_node;
    return is;
}

/* The ids in reverse: the order of arrival alone counts. */
static bool is_same_renamed(const struct view *a, struct view *b)
{
    size_t n = b->v.n_jobs;
    bool is;

    for (size_t i = 0; i < n; i++)
        b->jobs[i].id = n - i;
    if (view_plan(b, goodput, NULL) < 0)
        return false;
    is = a->n == b->n;
    for (size_t i = 0; is && i < a->n; i++)
        is = a->decisions[i].id == n + 1 - b->decisions[i].id &&
             a->decisions[i].act == b->decisions[i].act &&
             a->decisions[i].gpus_per_node == b->decisions[i].gpus_per_node;
    return is;
}

static void test_random(void)
{
    static struct view a, b;
    static struct curves c;
    struct rng rng;
    int n_near = 0, n_allowed = 0, n_same = 0, n_renamed = 0;
    double worst = 0;

    rng_seed(&rng, 26);
    for (int i = 0; i < RANDOM_VIEWS; i++) {
        struct rng again = rng;
        random_view(&rng, &a, &c);
        n_near += is_near_best(&a, &worst);
        bool has = view_plan(&a, goodput, NULL) == 0;
        n_allowed += has && is_allowed(&a);
        random_view(&again, &b, &c);
        n_same +=
            has && view_plan(&b, goodput, NULL) == 0 && is_same_plan(&a, &b);
        n_renamed += has && is_same_renamed(&a, &b);
    }
    tap_diag("the worst choice is %.1f %% below the best", 100 * worst);
    is_int(n_near, RANDOM_VIEWS, "choices within a step of the best");
    is_int(n_allowed, RANDOM_VIEWS, "plans that change only what they may");
    is_int(n_same, RANDOM_VIEWS, "equal views, equal plans");
    is_int(n_renamed, RANDOM_VIEWS, "jobs of other names, the same plan");
}

int main(void)
{
    ok(policy_find("goodput") == goodput, "goodput is known by name");
    test_sizes();
    test_unknown();
    test_bounds();
    test_changes();
    test_beyond();
    test_nodes();
    test_promised();
    test_types();
    test_rigid();
    test_wide_head();
    test_hull();
    test_random();
    return tap_done();
}
