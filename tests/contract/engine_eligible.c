/* engine_eligible.c - since when nothing but devices keeps a job from running:
 * what the policy sees, before and after a restart of the daemon. */
#include "scheduler/engine/update.h"
#include "tests/contract/engine_queue.h"

enum { IDS = 32 };

static struct world w;
static struct error err;
static double seen_s[IDS]; /* by id, since 1970; in the last view */
static int n_views;

static int plan_looking(const struct policy_view *v,
                        struct policy_decision *decisions, size_t cap,
                        size_t *ret_n, struct error *e)
{
    n_views++;
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].id < IDS)
            seen_s[v->jobs[i].id] =
                v->wall_s - (v->now_s - v->jobs[i].eligible_s);
    return policy_backfill.plan(v, decisions, cap, ret_n, e);
}

static const struct policy looking = {
    .name = "looking", .summary = "for tests", .plan = plan_looking};

/* Two GPUs. The first job has one until it ends, the second one fills the
 * cluster whenever it may: jobs behind it wait for devices. */
static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 2,
    .policy = &looking,
    .jobs = {{.attempts = {{.run_s = 20}}},
             {.attempts = {{.run_s = 30}}},
             {.attempts = {{.run_s = 40}}},
             {.attempts = {{.run_s = 50}}},
             {.attempts = {{.run_s = INFINITY}}}},
};

static uint64_t submit(const char *key, int gpus, const char *more)
{
    char spec[400];
    uint64_t id = 0;
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":%d}%s}",
                   gpus, more);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        tap_diag("%s", err.msg);
    world_settle(&w);
    return id;
}

static const struct job *job(uint64_t id)
{
    return engine_job(w.engine, id);
}

static void play(double s)
{
    world_play(&w, s);
    world_settle(&w);
}

static void begin(const char *what)
{
    world_init(&w, &script);
    ok(world_start(&w), "---- %s", what);
}

static void end(void)
{
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* A plan of now. */
static void look(void)
{
    static int n_looks;
    char key[16];
    int n = n_views;

    for (int i = 0; i < IDS; i++)
        seen_s[i] = NAN;
    (void)snprintf(key, sizeof(key), "k4.%d", 100 + n_looks++);
    (void)submit(key, 2, "");
    ok(n_views > n, "there is a plan");
}

static void is_time(double got_s, double want_s, const char *what)
{
    ok(fabs(got_s - want_s) < 1e-3, "%s: %.3f s from what it should be", what,
       got_s - want_s);
}

/* The same before and after a restart. */
static void is_since(uint64_t id, double want_s, const char *what)
{
    look();
    is_time(seen_s[id], want_s, what);
    world_die(&w);
    world_settle(&w);
    look();
    is_time(seen_s[id], want_s, "  and so after a restart");
}

static void test_submit(void)
{
    begin("only devices");
    (void)submit("k4", 2, "");
    play(10);
    uint64_t id = submit("k4.1", 1, "");
    play(10);
    is_since(id, job(id)->submit_s, "from its submit on");
    is_since(1, job(1)->submit_s, "  one that runs likewise");
    end();
}

static void test_begin(void)
{
    begin("a begin time");
    (void)submit("k4", 2, "");
    uint64_t id = submit("k4.1", 1, ",\"policy\":{\"begin\":\"+100s\"}");
    play(120);
    is_since(id, job(id)->submit_s + 100, "from then on");
    id = submit("k4.2", 1, ",\"policy\":{\"begin\":\"2001-01-01T00:00:00Z\"}");
    is_since(id, job(id)->submit_s, "one that is past counts for nothing");
    end();
}

static void test_depends(void)
{
    begin("dependencies");
    uint64_t first = submit("k0", 1, "");
    uint64_t other = submit("k1", 1, "");
    (void)submit("k4", 2, "");
    uint64_t id = submit("k4.1", 1, ",\"depends_on\":[\"afterany:1:2\"]");
    uint64_t begun = submit("k4.2", 1, ",\"depends_on\":[\"after:3\"]");
    play(60);
    ok(job(other)->end_s > job(first)->end_s, "the second ends last");
    is_since(id, job(other)->end_s, "from its end on");
    is_since(begun, job(3)->claim_s, "one after another's begin: from that on");
    is_int(engine_cancel(w.engine, 3, 1, &err), 0, "the one before it goes");
    play(30);
    ok(job_state_is_live(job(id)->state), "it runs");
    is_since(id, job(other)->end_s, "  since then as before");
    end();
}

static void test_hold(void)
{
    begin("a hold");
    (void)submit("k4", 2, "");
    uint64_t id = submit("k4.1", 1, "");
    play(10);
    is_int(engine_hold(w.engine, id, 1, true, &err), 0, "it is held");
    play(50);
    is_int(engine_hold(w.engine, id, 1, false, &err), 0, "and released");
    double released_s = w.clock.epoch_s + w.clock.t_s;
    play(10);
    is_since(id, released_s, "from its release on");
    end();
}

static void test_waived(void)
{
    begin("dependencies that a release waives");
    uint64_t first = submit("k0", 1, "");
    uint64_t other = submit("k1", 1, "");
    uint64_t id = submit("k4", 1, ",\"depends_on\":[\"afterok:1:2\"]");
    is_int(engine_cancel(w.engine, first, 1, &err), 0, "the first goes");
    play(5);
    is_int(job(id)->state, JOB_HELD, "what needs its success is held");
    is_int(engine_hold(w.engine, id, 1, false, &err), 0, "and released");
    double released_s = w.clock.epoch_s + w.clock.t_s;
    play(40);
    ok(job_state_is_live(job(id)->state), "it runs");
    ok(job_state_is_final(job(other)->state), "the second ends later");
    is_since(id, released_s, "from its release on");
    end();
}

static const char task_spec[] =
    "{\"version\":1,\"name\":\"j\",\"kind\":\"command\","
    "\"command\":[\"true\"],\"retry\":{\"max\":0},"
    "\"resources\":{\"gpus\":1}}";

/* Five tasks, two at a time. Returns the first. */
static uint64_t submit_sweep(void)
{
    struct engine_task tasks[5];
    char varies[5][40];
    struct engine_sweep sweep = {.tasks = tasks, .n = 5, .max_parallel = 2};
    struct engine_submit req = {.uid = 1, .user = "anna", .key = "k0"};
    uint64_t id = 0;

    for (int i = 0; i < 5; i++) {
        (void)snprintf(varies[i], sizeof(varies[i]), "{\"env.I\":\"%d\"}", i);
        tasks[i] = (struct engine_task){.spec = task_spec, .vary = varies[i]};
    }
    is_int(engine_submit_sweep(w.engine, &req, &sweep, &id, NULL, &err), 0,
           "two tasks at a time");
    return id;
}

static int update(uint64_t id, struct engine_update change)
{
    return engine_update(w.engine, id, 1, &change, &err);
}

/* The tasks end after 20, 30, 60 (the third starts when
 * the first ends). */
static void test_sweep(void)
{
    begin("a sweep");
    (void)submit_sweep();
    double submit_s = w.clock.epoch_s + w.clock.t_s;
    (void)submit("k4", 2, "");
    play(25);
    ok(job_state_is_live(job(3)->state), "the third runs");
    is_since(3, job(1)->end_s, "from the end of the first on");
    is_since(2, submit_s, "the second since the submit");
    play(10);
    ok(job_state_is_final(job(2)->state), "the second has ended");
    ok(job_state_is_live(job(4)->state), "the fourth runs");
    is_since(4, job(2)->end_s, "from that on");
    is_since(3, job(1)->end_s, "the third as before");
    is_int(update(5, (struct engine_update){.has_parallel = true,
                                            .max_parallel = 4}),
           0, "four at a time");
    double updated_s = w.clock.epoch_s + w.clock.t_s;
    play(5);
    is_since(5, updated_s, "the fifth from that on");
    is_since(4, job(4)->first_claim_s, "the fourth from its start on");
    end();
}

/* The last task goes first. Its turn is its own, whatever ends later. */
static void test_sweep_order(void)
{
    begin("a sweep out of order");
    uint64_t blocker = submit("k4", 2, "");
    uint64_t id = submit_sweep() + 4;
    world_settle(&w);
    is_int(engine_prioritise(w.engine, id, 0, 10, &err), 0,
           "the last task goes first");
    is_int(engine_cancel(w.engine, blocker, 1, &err), 0, "there are GPUs");
    play(30);
    ok(job_state_is_live(job(id)->state), "it runs");
    ok(job_state_is_final(job(id - 4)->state), "the first task has ended");
    double began_s = job(id)->first_claim_s;
    look();
    ok(seen_s[id] <= began_s, "from before its start on");
    world_die(&w);
    world_settle(&w);
    look();
    ok(seen_s[id] <= began_s, "  and so after a restart");
    end();
}

int main(void)
{
    test_submit();
    test_begin();
    test_depends();
    test_hold();
    test_waived();
    test_sweep();
    test_sweep_order();
    return tap_done();
}
