/* goodput_explain.c - the table of sizes says what the plan of goodput does,
 * and what the next GPUs would be worth. */
#include "scheduler/policy/goodput_explain.h"

#include "tests/unit/policy/view.h"

enum { ROWS_MAX = 32 };
struct table {
    struct goodput_row rows[ROWS_MAX];
    size_t n;
};

static void add(void *arg, const struct goodput_row *row)
{
    struct table *t = arg;
    if (t->n < ROWS_MAX)
        t->rows[t->n++] = *row;
}

static const struct goodput_row *find(const struct table *t, uint64_t job,
                                      int32_t gpus)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->rows[i].job == job && t->rows[i].per_node == gpus)
            return &t->rows[i];
    return NULL;
}

static struct policy_rate rates[4];
static const struct policy_curve curve = {
    .rates = rates, .n_rates = 4, .one_per_s = 1, .largest = 2};

static void set_rates(void)
{
    static const double speed[] = {1, 1.8, 2.4, 2.8};
    for (int32_t g = 1; g <= 4; g++)
        rates[g - 1] =
            (struct policy_rate){.nodes = 1,
                                 .per_node = g,
                                 .per_s = speed[g - 1],
                                 .hoped_per_s = speed[g - 1],
                                 .basis = g <= 2 ? RATE_MEASURED : RATE_ASSUMED,
                                 .n = g <= 2 ? 100 : 0};
}

static struct policy_job *elastic(struct view *v)
{
    struct policy_job *job = view_job(v, 1, 4, INFINITY);
    job->cost_s = NAN;
    job->goodput.curve = &curve;
    job->goodput.left_one_s = job->goodput.one_s = 3600;
    return job;
}

static void test_table(void)
{
    struct view v;
    struct table t = {.n = 0};
    struct error err = ERROR_INIT;
    double price = 0;

    set_rates();
    view_init(&v, 1, 4);
    v.v.goodput = policy_goodput_default;
    uint64_t a = elastic(&v)->id, b = elastic(&v)->id;
    is_int(goodput_explain(&v.v, add, &t, &price, &err), 0, "two jobs");
    is_int((long long)t.n, 8, "each has four sizes");
    size_t n_chosen = 0;
    int32_t gpus = 0;
    for (size_t i = 0; i < t.n; i++) {
        n_chosen += t.rows[i].is_chosen;
        gpus += t.rows[i].is_chosen ? t.rows[i].per_node : 0;
    }
    is_int((long long)n_chosen, 2, "each starts");
    is_int(gpus, 4, "  on all GPUs together");
    const struct goodput_row *two = find(&t, a, 2);
    ok(two && fabs(two->efficiency - 0.9) < 1e-9, "1.8 times as fast on two");
    ok(two && two->rate.basis == RATE_MEASURED && two->rate.n == 100,
       "  is measured");
    const struct goodput_row *four = find(&t, b, 4);
    ok(four && four->rate.basis == RATE_ASSUMED, "four are assumed");
    ok(isfinite(price) && price > 0, "one more GPU would be worth something");
    ok(two && two->gain < find(&t, a, 1)->gain, "each is worth less");
}

static void test_plan(void)
{
    struct view v;
    struct table t = {.n = 0};
    struct policy_decision decisions[8];
    struct error err = ERROR_INIT;
    double price = 0;
    size_t n = 0, n_same = 0;

    set_rates();
    view_init(&v, 1, 4);
    v.v.goodput = policy_goodput_default;
    (void)elastic(&v);
    (void)elastic(&v);
    (void)elastic(&v);
    is_int(goodput_explain(&v.v, add, &t, &price, &err), 0, "three jobs");
    is_int(policy_goodput.plan(&v.v, decisions, 8, &n, &err), 0, "the plan");
    for (size_t i = 0; i < n; i++) {
        const struct goodput_row *r =
            find(&t, decisions[i].id, decisions[i].gpus_per_node);
        n_same += decisions[i].act == POLICY_START && r && r->is_chosen;
    }
    is_int((long long)n_same, 3, "starts what the table says");
}

/* A job on one of four GPUs that was resized too often; a second one has all of
 * what it needs. */
static void test_spent(void)
{
    struct view v;
    struct table t = {.n = 0};
    struct error err = ERROR_INIT;
    double price = 0;

    set_rates();
    view_init(&v, 1, 4);
    v.v.goodput = policy_goodput_default;
    v.v.wall_s = 1.7e9;
    struct policy_job *job = view_run(&v, 0, 1, 600, INFINITY);
    job->gpus_max = 4;
    job->may_resize = 1;
    job->cost_s = NAN;
    job->goodput.curve = &curve;
    job->goodput.left_one_s = job->goodput.one_s = 1e5;
    job->goodput.growable_s = job->goodput.idle_growable_s = v.v.now_s + 40;
    is_int(goodput_explain(&v.v, add, &t, &price, &err), 0, "a spent job");
    const struct goodput_row *four = find(&t, job->id, 4);
    ok(four && four->is_refused && !four->is_chosen, "it would have four");
    ok(four && fabs(four->turn_s - 1.7e9 - 40) < 1e-3, "  in its turn");
    const struct goodput_row *one = find(&t, job->id, 1);
    ok(one && one->is_chosen && one->is_now && !one->is_refused,
       "  and keeps the one that it has");
    job->goodput.resizable_s = v.v.now_s + 60;
    t.n = 0;
    is_int(goodput_explain(&v.v, add, &t, &price, &err), 0,
           "it may not shrink");
    four = find(&t, job->id, 4);
    ok(four && four->is_refused, "  which is no other reason");
    (void)view_run(&v, 0, 3, 600, INFINITY);
    t.n = 0;
    is_int(goodput_explain(&v.v, add, &t, &price, &err), 0, "no GPU is idle");
    for (size_t i = 0; i < t.n; i++)
        ok(!t.rows[i].is_refused, "  then that is not the reason");
    is_int((long long)t.n, 0, "  nor has it a choice");
}

int main(void)
{
    test_table();
    test_spent();
    test_plan();
    return tap_done();
}
