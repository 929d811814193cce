/* engine_plan_pace.c - plans that take long are made less often than asked for.
 */
#include "tests/contract/engine_queue.h"

static struct world w;

/* ---- a policy whose plans take their time ---------------------------------
 */
static double takes_s;
static int n_plans;

static int plan_slowly(const struct policy_view *view,
                       struct policy_decision *decisions, size_t cap,
                       size_t *ret_n, struct error *err)
{
    n_plans++;
    w.clock.t_s += takes_s;
    return policy_fifo.plan(view, decisions, cap, ret_n, err);
}

static const struct policy slow = {
    .name = "slow", .summary = "thinks", .plan = plan_slowly};
static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &slow,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};

/* A world with a job that holds all; the next plans take so long. */
static void begin(double plan_s, const char *what)
{
    takes_s = 0;
    world_init(&w, &script);
    ok(world_start(&w), "---- %s", what);
    (void)world_command(&w, 4, 0);
    takes_s = plan_s;
    n_plans = 0;
}

static void later(double s)
{
    w.clock.t_s += s;
    world_settle(&w);
}

static void test_short(void)
{
    begin(0.004, "plans that take 4 ms");
    for (int i = 0; i < 10; i++)
        (void)world_command(&w, 1, 0);
    is_int(n_plans, 10, "are made after each submit");
    world_clear(&w);
}

static void test_long(void)
{
    begin(0.02, "plans that take 20 ms");
    (void)world_command(&w, 1, 0);
    is_int(n_plans, 1, "the first is made at once");
    double at_s = w.clock.t_s;
    uint64_t id = 0;
    for (int i = 0; i < 10; i++)
        id = world_command(&w, 1, 0);
    ok(id > 0, "ten more are stored meanwhile");
    is_int(n_plans, 1, "  and not planned");
    is_str(engine_job(w.engine, id)->reason, "", "  nor told why they wait");
    ok(fabs(engine_next_s(w.engine) - at_s - 0.06) < 1e-6,
       "the engine wants to be asked in three times as long");
    later(0.059);
    is_int(n_plans, 1, "not before");
    later(0.002);
    is_int(n_plans, 2, "then all of them are in one plan");
    ok(engine_job(w.engine, id)->reason[0] != '\0', "  which tells each");
    later(1);
    is_int(n_plans, 2, "and no other is made when nobody asks");
    ok(engine_next_s(w.engine) > w.clock.t_s, "  nor a step");
    world_clear(&w);
}

static void test_longest(void)
{
    begin(3, "plans that take 3 s");
    (void)world_command(&w, 1, 0);
    double at_s = w.clock.t_s;
    uint64_t id = world_command(&w, 1, 0);
    ok(id > 0 && fabs(engine_next_s(w.engine) - at_s - 0.25) < 1e-6,
       "the next comes a quarter of a second after, at most");
    world_clear(&w);
}

/* Devices that are free again wait no longer for it than that. */
static void test_starts(void)
{
    begin(0.02, "an end, soon after a plan");
    uint64_t next = world_command(&w, 4, 0), hog = next - 1;
    is_int(engine_job(w.engine, next)->state, JOB_QUEUED, "the next waits");
    double at_s = w.clock.t_s;
    struct error err = ERROR_INIT;
    is_int(engine_cancel(w.engine, hog, 1, &err), 0, "who holds all is gone");
    for (int i = 0; i < 100 && engine_job(w.engine, next)->state == JOB_QUEUED;
         i++)
        later(0.01);
    ok(engine_job(w.engine, next)->state != JOB_QUEUED &&
           w.clock.t_s - at_s < 0.5,
       "the next has its devices %.2f s later", w.clock.t_s - at_s);
    world_clear(&w);
}

int main(void)
{
    test_short();
    test_long();
    test_longest();
    test_starts();
    return tap_done();
}
