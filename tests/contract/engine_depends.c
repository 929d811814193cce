/* engine_depends.c - jobs that wait for others: who starts when, who
 * is held and why, what a release does, what is refused. */
#include "tests/contract/engine_queue.h"

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 1000}}},
             {.gpus = 1, .attempts = {{.run_s = 5}}},
             {.gpus = 1, .attempts = {{.run_s = 5, .exit_code = 3}}}},
};

static struct world w;
static struct error err;

static int submit(const char *key, int64_t uid, const char *depends,
                  uint64_t *ret_id)
{
    char spec[400];
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"depends_on\":[%s],\"retry\":{\"max\":0}}",
                   depends);
    struct engine_submit req = {
        .uid = uid, .user = "anna", .key = key, .spec = spec};
    return engine_submit(w.engine, &req, ret_id, NULL, &err);
}

static const struct job *job(uint64_t id)
{
    return engine_job(w.engine, id);
}

static void play(double s)
{
    world_play(&w, s);
}

/* Keys name the script's row: "k1.x" plays as k1. */
static void test_kinds(void)
{
    static const struct {
        const char *depends, *name;
        enum job_state when_live, after;
        enum job_held held;
    } rows[] = {
        {"\"afterok:2\"", "afterok, it ends well", JOB_QUEUED, JOB_COMPLETED,
         HELD_NOT},
        {"\"2\"", "a number is afterok", JOB_QUEUED, JOB_COMPLETED, HELD_NOT},
        {"\"afterok:3\"", "afterok, it fails", JOB_QUEUED, JOB_HELD,
         HELD_DEPENDENCY},
        {"\"afternotok:3\"", "afternotok, it fails", JOB_QUEUED, JOB_COMPLETED,
         HELD_NOT},
        {"\"afternotok:2\"", "afternotok, it ends well", JOB_QUEUED, JOB_HELD,
         HELD_DEPENDENCY},
        {"\"afterany:2:3\"", "afterany of both", JOB_QUEUED, JOB_COMPLETED,
         HELD_NOT},
        {"\"afterok:2\",\"afterany:1\"", "one has not ended", JOB_QUEUED,
         JOB_QUEUED, HELD_NOT},
        {"\"afterok:3\",\"afterany:1\"", "one in vain, one not ended",
         JOB_QUEUED, JOB_HELD, HELD_DEPENDENCY},
    };
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    uint64_t id[N], other;

    world_init(&w, &script);
    ok(world_start(&w), "---- kinds");
    is_int(submit("k0", 1000, "", &other), 0, "one that goes on");
    is_int(submit("k1", 1000, "", &other), 0, "one that ends well");
    is_int(submit("k2", 1000, "", &other), 0, "one that fails");
    for (size_t i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k1.%zu", i);
        is_int(submit(key, 1000, rows[i].depends, &id[i]), 0, rows[i].name);
    }
    play(2);
    for (size_t i = 0; i < N; i++)
        is_int(job(id[i])->state, rows[i].when_live, "  it waits");
    is_str(job(id[0])->reason, "Dependency: waits for afterok:2", "why");
    is_str(job(id[5])->reason, "Dependency: waits for afterany:2 and 1 more",
           "why, of two");
    is_int(engine_queue_position(w.engine, id[0]), 0, "it stands in no line");
    play(30);
    for (size_t i = 0; i < N; i++) {
        is_int(job(id[i])->state, rows[i].after, rows[i].name);
        is_int(job(id[i])->held_by, rows[i].held, "  held by");
    }
    is_str(job(id[2])->reason,
           "DependencyNeverSatisfied: afterok:3, which is FAILED", "why held");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static int submit_two(const char *key, uint64_t *ret_id)
{
    static const char spec[] =
        "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
        "\"retry\":{\"max\":0}}";
    const struct engine_task tasks[] = {{spec, "{\"env.I\":\"0\"}", NULL},
                                        {spec, "{\"env.I\":\"1\"}", NULL}};
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = key};
    struct engine_sweep two = {.tasks = tasks, .n = 2};
    return engine_submit_sweep(w.engine, &req, &two, ret_id, NULL, &err);
}

/* A sweep's number is its first task's, and stands for all of them. */
static void test_sweep(void)
{
    static const struct {
        const char *depends;
        enum job_state after;
        const char *reason;
    } rows[] = {
        {"\"afterok:1\"", JOB_HELD,
         "DependencyNeverSatisfied: afterok:1, task 1_1 is FAILED"},
        {"\"afterok:1_0\"", JOB_COMPLETED, ""},
        {"\"afterok:1_1\"", JOB_HELD,
         "DependencyNeverSatisfied: afterok:1_1, which is FAILED"},
        {"\"afternotok:1\"", JOB_COMPLETED, ""},
        {"\"afterany:1:3_1\"", JOB_COMPLETED, ""},
        {"\"afterok:3\"", JOB_QUEUED, "Dependency: waits for afterok:3"},
        {"\"afternotok:3\"", JOB_QUEUED, "Dependency: waits for afternotok:3"},
        {"\"afterany:3\"", JOB_QUEUED, "Dependency: waits for afterany:3"},
    };
    enum { N = sizeof(rows) / sizeof(rows[0]) };
    uint64_t id[N], of = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- sweeps");
    is_int(submit_two("k1", &of), 0, "one ends well, one fails");
    is_int(submit_two("k0", &of), 0, "one goes on, one ends well");
    for (size_t i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k1.%zu", i);
        is_int(submit(key, 1000, rows[i].depends, &id[i]), 0, rows[i].depends);
    }
    play(30);
    for (size_t i = 0; i < N; i++) {
        is_int(job(id[i])->state, rows[i].after, rows[i].depends);
        is_str(job(id[i])->reason, rows[i].reason, "  why");
    }
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* After another life the same are waiting and held, and a release starts. */
static int submit_again(const char *key, uint64_t *ret_id)
{
    struct engine_submit req = {
        .uid = 1000,
        .user = "anna",
        .key = key,
        .spec = "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                "\"retry\":{\"max\":1,\"on\":[\"exit\"],\"backoff\":\"1d\","
                "\"backoff_max\":\"1d\"}}"};
    return engine_submit(w.engine, &req, ret_id, NULL, &err);
}

/* A sweep of two, of which one is held, has not begun. */
static void test_begun(void)
{
    uint64_t id = 0, two = 0, both = 0, waits = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- begun");
    is_int(submit("k0", 1000, "", &id), 0, "one that goes on");
    is_int(engine_hold(w.engine, id, 1000, true, &err), 0, "which is held");
    is_int(submit_two("k0.b", &two), 0, "a sweep");
    is_int(engine_hold(w.engine, two + 1, 1000, true, &err), 0,
           "of which one is");
    is_int(submit("k1", 1000, "\"after:1\"", &waits), 0, "after it");
    is_int(submit("k1.b", 1000, "\"after:2\"", &both), 0, "after the sweep");
    play(20);
    is_str(job(waits)->reason, "Dependency: waits for after:1", "it waits");
    is_str(job(both)->reason, "Dependency: waits for after:2", "so does this");
    is_int(engine_hold(w.engine, id, 1000, false, &err), 0, "release one");
    is_int(engine_hold(w.engine, two + 1, 1000, false, &err), 0, "the other");
    play(20);
    is_int(job(waits)->state, JOB_COMPLETED, "after one that goes on");
    is_int(job(both)->state, JOB_COMPLETED, "after both tasks");
    is_int(submit_again("k2", &id), 0, "one that fails, and is tried again");
    play(20);
    is_int(job(id)->state, JOB_QUEUED, "which it is later");
    w.ids[0] = 0;
    world_die(&w);
    play(1);
    is_int(submit("k1.c", 1000, "\"after:6\"", &waits), 0, "one after it");
    play(20);
    is_int(job(id)->state, JOB_QUEUED, "it still waits");
    is_int(job(waits)->state, JOB_COMPLETED, "but has begun before");
    is_int(submit("k0.c", 1000, "", &id), 0, "one that never runs");
    is_int(engine_hold(w.engine, id, 1000, true, &err), 0, "for it is held");
    is_int(submit("k1.d", 1000, "\"after:8\"", &waits), 0, "one after that");
    play(2);
    is_int(job(waits)->state, JOB_QUEUED, "it waits");
    is_int(engine_cancel(w.engine, id, 1000, &err), 0, "cancel the other");
    play(20);
    is_int(job(waits)->state, JOB_COMPLETED, "nobody waits for ever");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_release(void)
{
    uint64_t id = 0, held = 0, waits = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- release");
    is_int(submit("k2", 1000, "", &id), 0, "one that fails");
    is_int(submit("k1", 1000, "\"afterok:1\"", &held), 0, "one in vain");
    is_int(submit("k0", 1000, "", &id), 0, "one that goes on");
    is_int(submit("k1.b", 1000, "\"afterany:3\"", &waits), 0, "one that waits");
    play(20);
    is_int(job(held)->state, JOB_HELD, "it is held");
    w.ids[0] = 0;
    world_die(&w);
    play(1);
    is_int(job(held)->held_by, HELD_DEPENDENCY, "still, in the next life");
    is_str(job(waits)->reason, "Dependency: waits for afterany:3",
           "the other waits");
    is_int(engine_hold(w.engine, held, 0, true, &err), 0, "root holds it, too");
    play(1);
    is_int(job(held)->held_by, HELD_ADMIN, "which is another hold");
    is_int(engine_hold(w.engine, held, 1000, false, &err), -1,
           "that its user does not release");
    is_int(engine_hold(w.engine, held, 0, false, &err), 0, "root does");
    play(1);
    is_int(job(held)->held_by, HELD_DEPENDENCY, "it is held as before");
    is_int(engine_hold(w.engine, held, 1000, false, &err), 0, "release it");
    play(1);
    ok(job_state_is_live(job(held)->state), "it starts");
    is_int(engine_hold(w.engine, waits, 1000, true, &err), 0, "hold the other");
    play(1);
    is_int(job(waits)->held_by, HELD_USER, "that is its user's hold");
    is_int(engine_hold(w.engine, waits, 1000, false, &err), 0, "release it");
    play(1);
    is_int(job(waits)->state, JOB_QUEUED, "and it waits as before");
    is_int(engine_cancel(w.engine, 3, 0, &err), 0, "cancel what it waits for");
    play(20);
    is_int(job(waits)->state, JOB_COMPLETED, "afterany: it runs");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Job 1 fails; 2 waits for it, 3 and a sweep of 4 and 5 for 2, 6 (root's) for
 * both of these, 7 and 8 for the end of 2. */
static void chain_init(void)
{
    static const char *const depends[] = {"\"afterok:2\"", "\"afterok:3:4\"",
                                          "\"afterany:2\"", "\"afternotok:2\""};
    static const char spec[] =
        "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
        "\"depends_on\":[\"afterok:2\"]}";
    const struct engine_task tasks[] = {{spec, "{\"env.I\":\"0\"}", NULL},
                                        {spec, "{\"env.I\":\"1\"}", NULL}};
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = "k1.s"};
    struct engine_sweep two = {.tasks = tasks, .n = 2};
    uint64_t id = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- chain");
    is_int(submit("k2", 1000, "", &id), 0, "one that fails");
    is_int(submit("k1", 1000, "\"afterok:1\"", &id), 0, "one behind it");
    is_int(submit("k1.a", 1000, depends[0], &id), 0, "one behind that");
    is_int(engine_submit_sweep(w.engine, &req, &two, &id, NULL, &err), 0,
           "a sweep, too");
    for (int i = 1; i < 4; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k1.%d", i);
        is_int(submit(key, i == 1 ? 0 : 1000, depends[i], &id), 0, depends[i]);
    }
    is_int((long)id, 8, "the last of them");
    play(20);
}

static void states_are(const char *want, const char *when)
{
    char is[16] = "";
    for (uint64_t id = 2; id <= 8; id++)
        is[id - 2] = job_state_name(job(id)->state)[0];
    is_str(is, want, when);
}

/* Nobody waits for ever: who needs the success of one that is held in vain is
 * held, too, down to the last, told of the root, and comes back with it. */
static void test_chain(void)
{
    chain_init();
    states_are("HHHHHQQ", "all that need its success are held");
    is_str(job(2)->reason,
           "DependencyNeverSatisfied: afterok:1, which is FAILED", "the first");
    for (uint64_t id = 3; id <= 5; id++)
        is_str(job(id)->reason,
               "DependencyNeverSatisfied: afterok:2, held behind afterok:1, "
               "which is FAILED",
               "behind it");
    is_str(job(6)->reason,
           "DependencyNeverSatisfied: afterok:3, held behind afterok:1, which "
           "is FAILED",
           "the last names the root as well");
    is_str(job(7)->reason, "Dependency: waits for afterany:2",
           "its end may come yet: somebody may cancel it");
    w.ids[0] = 0;
    world_die(&w);
    play(2);
    states_are("HHHHHQQ", "still, in the next life");
    is_int(engine_hold(w.engine, 5, 1000, true, &err), 0,
           "its user holds a task of his own");
    is_int(engine_hold(w.engine, 2, 1000, false, &err), 0, "release the first");
    play(1);
    is_int(job(3)->held_by, HELD_NOT, "the next is free");
    is_str(job(3)->reason, "Dependency: waits for afterok:2", "and waits");
    ok(!job(3)->depends_waived, "with all that it waits for");
    w.ids[0] = 0;
    world_die(&w);
    play(20);
    states_are("CCCHQCH", "all go on; afternotok is in vain; one is held");
    is_int(engine_hold(w.engine, 5, 1000, false, &err), 0, "release that");
    play(20);
    states_are("CCCFHCH", "which fails, and the last is held once more");
    is_str(job(6)->reason,
           "DependencyNeverSatisfied: afterok:4, task 4_1 is FAILED",
           "for that");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Who is released in the middle goes without; a cancel frees who waits for an
 * end, and nobody else. */
static void test_chain_ends(void)
{
    chain_init();
    is_int(engine_hold(w.engine, 3, 1000, false, &err), 0,
           "release the middle");
    play(20);
    states_are("HCHHHQQ", "it runs; the rest is held for the sweep");
    is_int(engine_cancel(w.engine, 2, 1000, &err), 0, "cancel the first");
    play(20);
    states_are("CCHHHCC", "who waits for its end runs");
    w.ids[0] = 0;
    world_die(&w);
    play(2);
    states_are("CCHHHCC", "so in the next life");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void refused(const char *depends, int64_t uid, const char *msg)
{
    uint64_t id = 77, staged = engine_staged(w.engine);
    err = (struct error)ERROR_INIT;
    bool good = submit("x", uid, depends, &id) < 0 && err.code == ERR_INVAL &&
                strstr(err.msg, msg) && id == 77 &&
                engine_staged(w.engine) == staged;
    ok(good, "%s: %s", depends, msg);
    if (!good)
        tap_diag("got %s", err.msg);
}

static void test_refused(void)
{
    uint64_t id = 0;

    world_init(&w, &script);
    ok(world_start(&w), "---- refused");
    is_int(submit("k0", 1000, "", &id), 0, "anna's");
    refused("\"afterok:2\"", 1000, "you have no job 2 [E022]"); /* itself */
    refused("\"afterok:3\"", 1000, "you have no job 3 [E022]"); /* the next */
    refused("\"afterok:1\"", 1001, "you have no job 1 [E022]");
    refused("\"afterok\"", 1000, "expected afterok:JOB");
    refused("\"afterok:\"", 1000, "expected the numbers");
    refused("\"afterok:0\"", 1000, "expected the numbers");
    refused("\"afterok:1:\"", 1000, "expected the numbers");
    refused("\"afterok:1_0\"", 1000, "you have no job 1_0 [E022]");
    refused("\"afterok:1_\"", 1000, "expected the numbers");
    refused("\"afterok:1_4096\"", 1000, "expected the numbers");
    refused("\"afterok:-1\"", 1000, "expected the numbers");
    refused("\"before:1\"", 1000, "afterany:JOB or after:JOB");
    refused("\"singleton\"", 1000, "expected afterok:JOB");
    is_int(submit("k1", 0, "\"afterany:1\"", &id), 0, "root may");
    world_clear(&w);
}

int main(void)
{
    test_kinds();
    test_sweep();
    test_begun();
    test_release();
    test_chain();
    test_chain_ends();
    test_refused();
    return tap_done();
}
