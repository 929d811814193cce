/* goodput_in_time.c - no size is chosen on which a job would not end within its
 * time limit, if it would on a larger one. */
#include "scheduler/policy/goodput_in_time.h"
#include "jobs/base/rng.h"
#include "scheduler/policy/goodput_explain.h"
#include "tests/unit/policy/goodput_view.h"

enum { RANDOM_VIEWS = 1000 };

/* One job waits, beside a running one that leaves it so many GPUs. */
static struct policy_job *beside(struct view *t, struct curves *c, int32_t free,
                                 double limit_s)
{
    setup(t, c, 1);
    if (free < 4)
        running(t, c, 0, 1000, 0, 4 - free, 600)->may_resize = 0;
    struct policy_job *job = elastic(t, c, 0, 1000);
    job->limit_s = limit_s;
    return job;
}

/* good[]: 1000 s of one GPU take 1000, 526, 370 and 294 s, and 30 s to start.
 */
static void test_waiting(void)
{
    static struct view t;
    static struct curves c;

    beside(&t, &c, 1, INFINITY);
    is_text(&t, "+2:1", "one GPU for a job without a limit");
    beside(&t, &c, 1, 1031);
    is_text(&t, "+2:1", "  or with one that is long enough");
    beside(&t, &c, 1, 1029);
    is_text(&t, "2-", "  not if it would not end there");
    beside(&t, &c, 2, 557);
    is_text(&t, "+2:2", "two are enough");
    beside(&t, &c, 2, 556);
    is_text(&t, "2-", "  and are not");
    beside(&t, &c, 3, 401);
    is_text(&t, "+2:3", "three are enough");
    beside(&t, &c, 3, 400);
    is_text(&t, "2-", "  and are not");
    beside(&t, &c, 4, 400);
    is_text(&t, "+1:4", "four are");
    beside(&t, &c, 3, 300);
    is_text(&t, "+2:3", "no size is large enough: all are good");
    beside(&t, &c, 3, 400)->goodput.goal = POLICY_GOAL_FIT;
    is_text(&t, "+2:1", "goal fit: the smallest, always");
}

static void test_unknown(void)
{
    static struct view t;
    static struct curves c;

    beside(&t, &c, 3, 400)->goodput.left_one_s = NAN;
    t.jobs[1].goodput.guess_s = 1000;
    is_text(&t, "+2:3", "a length that is guessed leaves out nothing");
    beside(&t, &c, 3, 400);
    c.curve[0].largest = 1;
    is_text(&t, "+2:2", "four are more than twice what was measured");

    setup(&t, &c, 1);
    t.nodes[0].class_id = 1;
    t.nodes[1] = t.nodes[0];
    t.nodes[1].class_id = 0;
    t.nodes[1].gpus_total = t.nodes[1].gpus_free = 2;
    t.v.n_nodes = 2;
    elastic(&t, &c, 0, 1000)->limit_s = 399;
    t.jobs[0].classes = t.jobs[0].classes_ever = 1;
    is_text(&t, "+1:2", "no node that it may have is so large");
}

/* poor[]: 1000 s of one GPU take 769 s on two, and the efficiency is 0.65. */
static void test_inefficient(void)
{
    static struct view t;
    static struct curves c;
    struct policy_job *job;

    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 3, 600)->may_resize = 0;
    job = elastic(&t, &c, 1, 1000);
    job->limit_s = 800;
    is_text(&t, "2-", "one GPU is too few, and it waits for two");
    job->goodput.min_efficiency = 0.7;
    is_text(&t, "+2:1", "  not if its user calls two a waste");
    job->goodput.min_efficiency = 0;
    t.v.goodput.efficiency_floor = 0.7;
    is_text(&t, "+2:1", "  nor if the administrator does");

    setup(&t, &c, 1);
    running(&t, &c, 1, 1000, 0, 1, 600)->limit_s = 600 + 800;
    t.jobs[0].goodput.min_efficiency = 0.7;
    elastic(&t, &c, 0, 90000)->gpus_min = 3;
    is_text(&t, "+2:3", "a live job keeps one for the same reason");
}

/* An attempt that reaches its limit is followed by one that goes on. */
static void test_goes_on(void)
{
    static struct view t;
    static struct curves c;

    beside(&t, &c, 1, 1029);
    is_text(&t, "2-", "one GPU is too few");
    t.jobs[1].goodput.goes_on = 1;
    is_text(&t, "+2:1", "  not for a job that goes on after its limit");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 4, 600)->limit_s = 600 + 390;
    elastic(&t, &c, 0, 900)->gpus_max = 1;
    is_text(&t, "2-", "a live job keeps four to be in time");
    t.jobs[0].goodput.goes_on = 1;
    is_text(&t, "2- 1=3", "  and makes room if it goes on");
}

/* A job holds GPUs, and nothing tells when it ends. */
static struct policy_job *endless(struct view *t, int32_t gpus)
{
    return view_run(t, 0, gpus, 600, INFINITY);
}

static void test_never_free(void)
{
    static struct view t;
    static struct curves c;
    struct policy_job *other;

    setup(&t, &c, 1);
    other = endless(&t, 2);
    elastic(&t, &c, 0, 1000)->limit_s = 401;
    is_text(&t, "+2:2", "three are enough, and never free");
    t.jobs[1].limit_s = 557;
    is_text(&t, "+2:2", "two are enough");
    t.jobs[1].limit_s = 401;
    other->limit_s = 5000;
    is_text(&t, "2-", "it waits for a job that has a limit");
    other->limit_s = INFINITY;
    other->left_s = 5000;
    is_text(&t, "2-", "  or one whose end is known");
    other->left_s = NAN;
    other->goodput.left_one_s = 5000;
    is_text(&t, "2-", "  or what it has left to do");
    other->goodput.left_one_s = NAN;
    other->is_leaving = 1;
    other->leaves_s = t.v.now_s + 10;
    is_text(&t, "2-", "  or that leaves");
    other->is_leaving = 0;
    other->goodput.curve = &c.curve[0];
    other->gpus_min = 1;
    other->may_resize = 1;
    other->cost_s = 20;
    other->goodput.left_one_s = NAN;
    is_text(&t, "2- 1=1", "  or that can make room");

    setup(&t, &c, 2);
    endless(&t, 2);
    elastic(&t, &c, 0, 1000)->limit_s = 401;
    is_text(&t, "+2:4", "another node has room");
}

static void test_running(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 4, 600);
    elastic(&t, &c, 0, 900)->gpus_max = 1;
    is_text(&t, "2- 1=3", "without a limit it makes room");
    t.jobs[0].limit_s = 600 + 391; /* 370 on three, and 20 for the resize */
    is_text(&t, "2- 1=3", "  or if it is in time on three");
    t.jobs[0].limit_s = 600 + 390;
    is_text(&t, "2-", "  else it keeps four, and the other waits");
    t.jobs[0].goodput.has_types = 1;
    is_text(&t, "2- 1=3", "nothing is left out for one that changes its type");
    t.jobs[0].goodput.has_types = 0;
    t.jobs[0].limit_s = 600 + 290;
    is_text(&t, "2- 1=3", "too late on any size");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 2, 600)->limit_s = 600 + 391;
    elastic(&t, &c, 0, 9000)->gpus_max = 1;
    elastic(&t, &c, 0, 9000)->gpus_max = 1;
    is_text(&t, "+2:1 3- 1=3", "it grows to be in time");
    t.jobs[0].limit_s = INFINITY;
    is_text(&t, "+2:1 +3:1", "  and does not without a limit");
    t.jobs[0].limit_s = 600 + 391;
    t.jobs[0].goodput.growable_s = t.jobs[0].goodput.idle_growable_s = INFINITY;
    is_text(&t, "+2:1 +3:1", "  unless it may not");

    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 1, 600)->limit_s = 1000;
    running(&t, &c, 1, 1000, 0, 1, 600)->gpus_max = 1;
    running(&t, &c, 1, 1000, 0, 1, 600)->gpus_max = 1;
    running(&t, &c, 1, 1000, 0, 1, 600)->gpus_max = 1;
    for (int i = 1; i < 4; i++)
        t.jobs[i].may_resize = 0;
    is_text(&t, "", "it keeps a size that is too small beside others");
}

/* A job of one size waits, since so many seconds. */
static struct policy_job *fixed(struct view *t, int32_t gpus, double since_s)
{
    struct policy_job *job = view_job(t, gpus, gpus, INFINITY);

    job->submit_s = t->v.now_s - since_s;
    return job;
}

/* Began so long ago, on GPUs that it needs to be in time. */
static struct policy_job *needed(struct view *t, struct curves *c, int32_t node,
                                 int32_t gpus, double ran_s)
{
    const double *s = &c->curve[0].rates[gpus - 1].per_s;
    struct policy_job *job = running(t, c, 0, 1000, node, gpus, ran_s);

    job->submit_s = t->v.now_s;
    job->limit_s = ran_s + 1000 / *s + 10;
    return job;
}

static void test_head(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    fixed(&t, 3, 500);
    needed(&t, &c, 0, 4, 400);
    is_text(&t, "1- 2=0", "one that began later makes room for the head");
    t.jobs[0].submit_s = 550;
    t.jobs[1].start_s = 549;
    t.jobs[1].limit_s += 51;
    is_text(&t, "1-", "  one that began before does not");
    t.jobs[1].start_s = 551;
    t.jobs[1].goodput.resizable_s = 1001;
    is_text(&t, "1-", "  nor one that has just changed its size");

    setup(&t, &c, 1);
    fixed(&t, 2, 500);
    needed(&t, &c, 0, 2, 400);
    needed(&t, &c, 0, 2, 400);
    is_text(&t, "1- 3=0", "no more jobs than need be, the last first");
    t.jobs[2].start_s = 400;
    t.jobs[2].limit_s += 200;
    is_text(&t, "1- 2=0", "  of those that began later");
    fixed(&t, 1, 400)->submit_s = t.v.now_s;
    t.jobs[0].gpus_min = t.jobs[0].gpus_max = 4;
    is_text(&t, "1- 4-", "  and none, if that is not enough");

    setup(&t, &c, 2);
    fixed(&t, 3, 500);
    needed(&t, &c, 0, 2, 400);
    needed(&t, &c, 1, 2, 400);
    is_text(&t, "1- 2=0", "it makes room on a node, too");
    t.jobs[1].start_s = t.jobs[2].start_s = 400;
    t.jobs[1].limit_s += 200;
    t.jobs[2].limit_s += 200;
    is_text(&t, "1-", "  not if both began before");
}

static void test_wide(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 300)->gpus_min = 3;
    needed(&t, &c, 0, 4, 400);
    is_text(&t, "1- 2=0", "a late job of three at least gets them");
    t.jobs[0].submit_s = t.jobs[0].eligible_s = 550;
    t.jobs[1].start_s = 549;
    t.jobs[1].limit_s += 51;
    is_text(&t, "1-", "  not of a job that began before");
    t.jobs[1].start_s = 551;
    is_text(&t, "1- 2=0", "  of one that began later");
    t.jobs[0].goodput.one_s = 1000;
    is_text(&t, "1-", "  not before it is late");
    t.jobs[0].goodput.one_s = 300;
    t.jobs[0].goodput.left_one_s = 2000;
    is_text(&t, "1-", "  nor if it is worth less");
    t.jobs[0].goodput.left_one_s = 300;

    setup(&t, &c, 1);
    needed(&t, &c, 0, 4, 400)->submit_s = 500;
    elastic(&t, &c, 0, 100)->gpus_max = 1;
    t.jobs[1].submit_s = t.jobs[1].eligible_s = t.v.now_s;
    elastic(&t, &c, 0, 300)->gpus_min = 3;
    t.jobs[2].priority = -1;
    is_text(&t, "2- 3-", "  nor of one of higher priority");
}

/* ---- random views ---------------------------------------------------------
 */
static int32_t draw(struct rng *r, int32_t from, int32_t to)
{
    return from + (int32_t)(rng_u32(r) % (uint32_t)(to - from + 1));
}

static void random_view(struct rng *r, struct view *t, struct curves *c)
{
    int32_t n = draw(r, 1, 6), left = 4;

    setup(t, c, 1);
    for (int32_t k = 0; k < n; k++) {
        int32_t gpus = draw(r, 0, 1) ? draw(r, 1, 2) : 0;
        int which = draw(r, 0, 1);
        double left_s = draw(r, 60, 5000);
        bool runs = gpus > 0 && gpus <= left;
        struct policy_job *job =
            runs ? running(t, c, which, left_s, 0, gpus, draw(r, 0, 900))
                 : elastic(t, c, which, left_s);
        left -= job->gpus;
        job->limit_s = (runs ? t->v.now_s - job->start_s : 0) +
                       left_s * draw(r, 20, 120) / 100;
    }
}

/* As goodput_in_time.c promises, reckoned anew. */
static bool is_in_time(const struct view *t, const struct policy_job *job,
                       int32_t gpus)
{
    const struct policy_curve *curve = job->goodput.curve;
    double cost_s = gpus == job->gpus ? 0 : gp_cost_s(job);
    double ran_s = job->gpus > 0 ? t->v.now_s - job->start_s : 0;

    return job->goodput.left_one_s / curve->rates[gpus - 1].per_s + cost_s <=
           job->limit_s - ran_s;
}

static bool is_kept(const struct view *t, const struct policy_decision *w)
{
    const struct policy_job *job = &t->jobs[w->id - 1];
    int32_t gpus = w->nodes * w->gpus_per_node;

    if ((w->act != POLICY_START && w->act != POLICY_RESIZE) || gpus == 0 ||
        is_in_time(t, job, gpus))
        return true;
    for (int32_t g = gpus + 1; g <= 4; g++)
        if (is_in_time(t, job, g))
            return job->goodput.curve->rates[g - 1].per_s <
                   t->v.goodput.efficiency_floor * g;
    return true;
}

static void test_random(void)
{
    static struct view t;
    static struct curves c;
    struct rng r;
    struct error err = ERROR_INIT;
    int n_bad = 0, n_failed = 0;

    rng_seed(&r, 44);
    for (int k = 0; k < RANDOM_VIEWS; k++) {
        random_view(&r, &t, &c);
        if (view_plan(&t, goodput, &err) < 0) {
            n_failed++;
            continue;
        }
        for (size_t i = 0; i < t.n; i++)
            n_bad += !is_kept(&t, &t.decisions[i]);
    }
    is_int(n_failed, 0, "1000 random views are planned");
    is_int(n_bad, 0, "  no size is too small beside a larger one that is good");
}

/* ---- the table ------------------------------------------------------------
 */
struct table {
    struct goodput_row rows[16];
    size_t n;
};

static void add(void *arg, const struct goodput_row *row)
{
    struct table *t = arg;

    if (t->n < 16)
        t->rows[t->n++] = *row;
}

static void has_rows(struct view *v, const char *want, const char *what)
{
    struct table t = {.n = 0};
    char got[64] = "";
    size_t len = 0;
    double price;

    is_int(goodput_explain(&v->v, add, &t, &price, NULL), 0, what);
    for (size_t i = 0; i < t.n; i++)
        len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%d%s%s",
                                i > 0 ? " " : "", (int)t.rows[i].per_node,
                                t.rows[i].is_late ? "late" : "",
                                t.rows[i].is_chosen ? "!" : "");
    is_str(got, want, "  its sizes");
}

static void test_table(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 1000)->limit_s = 401;
    has_rows(&t, "1late 2late 3 4!", "a job that waits");
    setup(&t, &c, 1);
    running(&t, &c, 0, 1000, 0, 2, 600)->limit_s = 1000;
    has_rows(&t, "1late 2late 3 4!", "one that has too little");
    t.nodes[0].gpus_free = 0;
    has_rows(&t, "1late 2late! 3 4", "  and no more is free");
}

int main(void)
{
    test_waiting();
    test_unknown();
    test_inefficient();
    test_goes_on();
    test_never_free();
    test_running();
    test_head();
    test_wide();
    test_random();
    test_table();
    return tap_done();
}
