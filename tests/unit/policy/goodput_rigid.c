/* goodput_rigid.c - only jobs with a range behave otherwise than under
 * backfill: random views without ranges get the same plan, and beside jobs with
 * a range, a job of one size starts whenever backfill would start it. */
#include <math.h>

#include "jobs/base/rng.h"
#include "tests/unit/policy/view.h"

enum { VIEWS = 2000, GPUS = 4 };

struct one_curve {
    struct policy_rate rates[GPUS];
    struct policy_curve curve;
};

static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void set_curve(struct one_curve *c)
{
    for (int g = 0; g < GPUS; g++)
        c->rates[g] = (struct policy_rate){.nodes = 1,
                                           .per_node = g + 1,
                                           .per_s = 1 + 0.8 * g,
                                           .hoped_per_s = 1 + 0.8 * g,
                                           .basis = RATE_MEASURED,
                                           .n = 100};
    c->curve = (struct policy_curve){
        .rates = c->rates, .n_rates = GPUS, .one_per_s = 1, .largest = GPUS};
}

static double random_limit(struct rng *r)
{
    return draw(r, 0, 3) == 0 ? (double)INFINITY : draw(r, 60, 5000);
}

static void random_job(struct rng *r, struct view *t)
{
    int32_t node = draw(r, 0, (int32_t)t->v.n_nodes - 1);
    int32_t gpus = draw(r, 1, GPUS);
    struct policy_job *job;

    if (draw(r, 0, 1) && t->nodes[node].gpus_free >= gpus) {
        job = view_run(t, node, gpus, draw(r, 0, 3000), random_limit(r));
        job->is_leaving = draw(r, 0, 5) == 0;
        job->may_go = draw(r, 0, 1);
        job->leaves_s = t->v.now_s + draw(r, 0, 60);
        job->preempted_s = -INFINITY;
    } else {
        int32_t nodes = draw(r, 0, 3) == 0 ? draw(r, 1, 3) : 1;
        job = view_job(t, nodes * gpus, nodes * gpus, random_limit(r));
        job->nodes_min = job->nodes_max = nodes;
        job->is_exclusive = draw(r, 0, 9) == 0;
    }
    job->goodput.left_one_s = draw(r, 100, 100000);
}

static void make_elastic(struct rng *r, struct policy_job *job,
                         const struct one_curve *c)
{
    job->goodput.curve = &c->curve;
    job->gpus_min = 1;
    job->gpus_max = GPUS;
    job->nodes_min = job->nodes_max = 1;
    job->is_exclusive = 0;
    job->cost_s = 30;
    job->may_resize = job->state == JOB_RUNNING && draw(r, 0, 1);
}

static void random_view(struct rng *r, struct view *t)
{
    int n = draw(r, 1, 20);

    view_init(t, draw(r, 1, 8), GPUS);
    t->v.goodput = policy_goodput_default;
    t->v.now_s = 10000;
    for (int i = 0; i < n; i++)
        random_job(r, t);
    for (size_t i = 0; i < t->v.n_nodes; i++)
        t->nodes[i].is_up = draw(r, 0, 9) > 0;
}

static bool is_same(const struct policy_decision *a,
                    const struct policy_decision *b)
{
    bool is_same_time = (isnan(a->start_s) && isnan(b->start_s)) ||
                        memcmp(&a->start_s, &b->start_s, sizeof(double)) == 0;

    return a->act == b->act && a->id == b->id && a->nodes == b->nodes &&
           a->gpus_per_node == b->gpus_per_node && a->for_id == b->for_id &&
           is_same_time &&
           (a->act != POLICY_WAIT || strcmp(a->reason, b->reason) == 0);
}

static bool is_same_plan(struct view *t)
{
    static struct policy_decision of_backfill[VIEW_JOBS];
    bool is = view_plan(t, &policy_backfill, NULL) == 0;
    size_t n = t->n;

    memcpy(of_backfill, t->decisions, sizeof(of_backfill));
    is = is && view_plan(t, &policy_goodput, NULL) == 0 && t->n == n;
    for (size_t i = 0; is && i < n; i++)
        is = is_same(&of_backfill[i], &t->decisions[i]);
    return is;
}

static void test_no_range(void)
{
    static struct view t;
    struct rng r;
    int n = 0;

    rng_seed(&r, 1);
    for (int i = 0; i < VIEWS; i++) {
        random_view(&r, &t);
        t.v.preempt.is_on = draw(&r, 0, 1);
        n += is_same_plan(&t);
    }
    is_int(n, VIEWS, "without ranges, the plans of backfill");
}

static const struct policy_decision *decision_of(const struct view *t,
                                                 uint64_t id)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->decisions[i].id == id)
            return &t->decisions[i];
    return NULL;
}

/* Jobs that backfill starts among the live ones and the queued ones of one
 * size. out ret_n how many of them goodput does not start */
static int starts_both(struct view *t, int *ret_n)
{
    static struct view alone;
    int n = 0;

    memcpy(&alone, t, sizeof(alone));
    alone.v.nodes = alone.nodes;
    alone.v.jobs = alone.jobs;
    alone.v.n_jobs = 0;
    for (size_t i = 0; i < t->v.n_jobs; i++)
        if (t->jobs[i].state != JOB_QUEUED || !t->jobs[i].goodput.curve)
            alone.jobs[alone.v.n_jobs++] = t->jobs[i];
    if (view_plan(&alone, &policy_backfill, NULL) < 0 ||
        view_plan(t, &policy_goodput, NULL) < 0)
        return 0;
    for (size_t i = 0; i < alone.n; i++) {
        const struct policy_decision *a = &alone.decisions[i];
        const struct policy_decision *b = decision_of(t, a->id);
        if (a->act != POLICY_START)
            continue;
        n++;
        *ret_n += !b || b->act != POLICY_START || b->nodes != a->nodes ||
                  b->gpus_per_node != a->gpus_per_node;
    }
    return n;
}

static void test_beside_ranges(void)
{
    static struct one_curve c;
    static struct view t;
    struct rng r;
    int n = 0, n_not = 0;

    set_curve(&c);
    rng_seed(&r, 2);
    for (int i = 0; i < VIEWS; i++) {
        random_view(&r, &t);
        for (size_t k = 0; k < t.v.n_jobs; k++)
            if (draw(&r, 0, 1) && !t.jobs[k].is_leaving)
                make_elastic(&r, &t.jobs[k], &c);
        n += starts_both(&t, &n_not);
    }
    ok(n > VIEWS, "%d starts of jobs of one size under backfill", n);
    is_int(n_not, 0, "  that goodput does not start beside jobs with a range");
}

int main(void)
{
    test_no_range();
    test_beside_ranges();
    return tap_done();
}
