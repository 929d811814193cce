/* engine_fair.c - fair share by user in the engine: who has used less goes
 * first, in the queue and in the plan, also after a restart, after a batch that
 * failed, and in a long queue. */
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_world.h"

static const struct conf_fair_share week = {.half_life_s = 7 * 86400.0};
static const struct world_script backfill = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 4, .attempts = {{.run_s = 1000}}}},
};
static const struct world_script fifo = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_fifo,
    .jobs = {{.gpus = 4, .attempts = {{.run_s = 1000}}}},
};

static struct world w;
static struct error err;

static void begin(const struct world_script *script,
                  const struct conf_fair_share *fair)
{
    world_init(&w, script);
    w.conf.fair_share = fair;
    ok(world_start(&w), "---- a daemon");
}

static uint64_t submit_as(const char *user, int32_t priority)
{
    static int n;
    char spec[200], key[16];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.%d", n++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"policy\":{\"priority\":%" PRId32 "},"
                   "\"resources\":{\"gpus\":4}}",
                   priority);
    struct engine_submit req = {
        .uid = user[0], .user = user, .key = key, .spec = spec};
    return engine_submit(w.engine, &req, &id, NULL, &err) < 0 ? 0 : id;
}

static void settle(void)
{
    for (int i = 0; i < 5; i++)
        (void)world_step(&w);
}

static bool runs(uint64_t id)
{
    return job_state_is_live(engine_job(w.engine, id)->state);
}

static void finish(uint64_t id)
{
    is_int(engine_cancel(w.engine, id, 0, &err), 0, "a job ends");
    for (int i = 0; i < 3; i++) {
        settle();
        w.clock.t_s += 60;
    }
    settle();
}

/* anna runs for a while, then she and bert wait; she came first. */
static void queue_up(uint64_t *anna, uint64_t *bert, uint64_t *first)
{
    *first = submit_as("anna", 0);
    settle();
    ok(runs(*first), "anna's first job runs");
    *anna = submit_as("anna", 0);
    *bert = submit_as("bert", 0);
    w.clock.t_s += 500;
    settle();
}

static void test_order(void)
{
    uint64_t anna, bert, first, urgent;

    begin(&backfill, &week);
    queue_up(&anna, &bert, &first);
    (void)submit_as("carl", -1); /* a job that comes causes a plan */
    settle();
    is_int(engine_queue_position(w.engine, bert), 1, "who used less is first");
    is_int(engine_queue_position(w.engine, anna), 2, "  and the other second");
    urgent = submit_as("anna", 10);
    settle();
    is_int(engine_queue_position(w.engine, urgent), 1, "priority is above it");
    is_int(engine_cancel(w.engine, urgent, 0, &err), 0, "  it is cancelled");
    settle();
    world_die(&w);
    settle();
    is_int(engine_queue_position(w.engine, bert), 1,
           "so it is after a restart");
    finish(first);
    ok(runs(bert) && !runs(anna), "the other user's job starts");
    is_int(lists_check(w.engine) != NULL, 0, "the lists are as they must be");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);

    begin(&backfill, NULL);
    queue_up(&anna, &bert, &first);
    finish(first);
    ok(runs(anna) && !runs(bert), "without fair share who came first");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);

    begin(&fifo, &week);
    queue_up(&anna, &bert, &first);
    finish(first);
    ok(runs(anna) && !runs(bert), "and under fifo");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Each change of the order of users keeps the queue in order. */
static void test_long(void)
{
    enum { USERS = 8, EACH = 25 };
    uint64_t ids[USERS * EACH];
    bool has_run[USERS] = {false};
    int n_users = 0;

    begin(&backfill, &week);
    for (int i = 0; i < USERS * EACH; i++) {
        char user[8];
        (void)snprintf(user, sizeof(user), "u%d", i % USERS);
        ids[i] = submit_as(user, i % 3);
        w.clock.t_s += 1;
    }
    settle();
    for (int k = 0; k < USERS * EACH && w.n_bad == 0; k++) {
        int now = -1;
        for (int i = 0; i < USERS * EACH && now < 0; i++)
            now = ids[i] && runs(ids[i]) ? i : now;
        if (now < 0)
            break;
        w.clock.t_s += 100;
        n_users += k < USERS && !has_run[now % USERS];
        has_run[now % USERS] = true;
        if (engine_cancel(w.engine, ids[now], 0, &err) < 0)
            world_bad(&w, err.msg, ids[now]);
        ids[now] = 0;
        settle();
        w.clock.t_s += 10;
        settle();
        if (lists_check(w.engine))
            world_bad(&w, lists_check(w.engine), (uint64_t)k);
    }
    is_int(n_users, USERS, "each user has a job among the first eight");
    is_int(w.n_bad, 0, "the queue is in order after each plan");
    world_clear(&w);
}

int main(void)
{
    test_order();
    test_long();
    return tap_done();
}
