/* engine_begin.c - jobs that are not to start before a time: when they do, over
 * restarts, holds, retries, and clocks that are set. */
#include "jobs/wire/wire.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 5}}},
             {.gpus = 1,
              .attempts = {{.run_s = 5, .exit_code = 3}, {.run_s = 5}}},
             {.gpus = 1, .attempts = {{.run_s = INFINITY}}}},
};

/* "k0.1" plays as the script's first row. */
static uint64_t submit(const char *key, const char *begin, const char *more,
                       bool hold)
{
    char spec[400];
    uint64_t id = 0;
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"policy\":{\"begin\":\"%s\"}%s}",
                   begin, more);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec, .hold = hold};
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

static void waits(uint64_t id, const char *what)
{
    const struct job *j = job(id);
    ok(j->state == JOB_QUEUED &&
           strncmp(j->reason, "BeginTime: not before 20", 24) == 0,
       "%s: %s", what, j->reason);
    is_int(engine_queue_position(w.engine, id), 0, "  and stands in no line");
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

static void test_times(void)
{
    char at[WIRE_TIME_CAP], reason[64];
    begin("times");
    double wall_s = w.clock.epoch_s + w.clock.t_s;
    uint64_t after = submit("k0.1", "+100s", "", false);
    wire_time(wall_s + 50, at);
    uint64_t then = submit("k0.2", at, "", false);
    uint64_t past = submit("k0.3", "2001-01-01T00:00:00Z", "", false);
    is_int(job(past)->state == JOB_QUEUED, 0, "what is past starts at once");
    waits(after, "+100s");
    waits(then, "a date");
    (void)snprintf(reason, sizeof(reason), "BeginTime: not before %s", at);
    is_str(job(then)->reason, reason, "  which is named");
    ok(fabs(job(then)->start_estimate_s - (w.clock.t_s + 50)) < 2,
       "  and when it may start");
    double next_s = engine_next_s(w.engine) - w.clock.t_s;
    ok(next_s > 0 && next_s <= 30, "the clock is looked at in %.0f s", next_s);
    play(40);
    waits(after, "after 40 s");
    waits(then, "so does the other");
    play(20);
    ok(job(then)->state == JOB_COMPLETED || job_state_is_live(job(then)->state),
       "it begins in its time");
    waits(after, "the other waits on");
    play(60);
    is_int(job(after)->state, JOB_COMPLETED, "and has its turn");
    ok(job(after)->start_s >= wall_s + 100, "  not before");
    end();
}

static void test_restart(void)
{
    begin("a restart");
    uint64_t id = submit("k0.1", "+100s", "", false);
    double begin_s = job(id)->begin_s;
    play(50);
    world_die(&w);
    world_settle(&w);
    ok(job(id)->begin_s >= begin_s && job(id)->begin_s <= begin_s,
       "the time is the same after it");
    waits(id, "it waits on");
    play(30);
    waits(id, "until then");
    play(30);
    is_int(job(id)->state, JOB_COMPLETED, "and runs");
    end();
}

static void test_hold(void)
{
    char more[60];
    begin("held, and after others");
    uint64_t held = submit("k0.1", "+60s", "", true);
    uint64_t first = submit("k0.2", "+20s", "", false);
    (void)snprintf(more, sizeof(more),
                   ",\"depends_on\":[\"afterok:%" PRIu64 "\"]", first);
    uint64_t second = submit("k0.3", "+60s", more, false);
    is_str(job(held)->reason, "Held: by its user", "a hold comes first");
    ok(strncmp(job(second)->reason, "Dependency: ", 12) == 0,
       "so does a dependency");
    play(10);
    is_int(engine_hold(w.engine, held, 1, false, &err), 0, "a release");
    world_settle(&w);
    waits(held, "  is not before its time");
    is_int(engine_hold(w.engine, held, 1, true, &err), 0, "held again");
    play(30);
    is_int(job(first)->state, JOB_COMPLETED, "who was waited for has ended");
    waits(second, "then the time counts");
    play(30);
    is_int(job(second)->state, JOB_COMPLETED, "until it has come");
    is_int(job(held)->state, JOB_HELD, "who is held stays held");
    is_int(engine_hold(w.engine, held, 1, false, &err), 0, "and is released");
    play(10);
    is_int(job(held)->state, JOB_COMPLETED, "  to run at once");
    end();
}

/* An attempt that failed does not wait for the time again, not even where the
 * clock was set back before it. */
static void test_retry(void)
{
    begin("a retry");
    uint64_t id = submit("k1.1", "+20s",
                         ",\"retry\":{\"max\":1,\"on\":[\"exit\"],"
                         "\"backoff\":\"30s\"}",
                         false);
    play(22);
    ok(job_state_is_live(job(id)->state), "it runs");
    w.clock.epoch_s -= 10000;
    play(10);
    ok(job(id)->state == JOB_QUEUED && job(id)->attempt == 1, "and fails");
    world_die(&w);
    play(60);
    is_int(job(id)->state, JOB_COMPLETED, "and again");
    is_int(job(id)->attempt, 2, "  as its second attempt");
    end();
}

/* F36: a clock that is set makes it the time, or not. */
static void test_clock(void)
{
    begin("a clock that is set");
    uint64_t id = submit("k0.1", "+10000s", "", false);
    uint64_t other = submit("k0.2", "+20000s", "", false);
    w.clock.epoch_s += 10000;
    ok(engine_next_s(w.engine) <= w.clock.t_s + 30, "it is seen");
    play(35);
    ok(job(id)->state != JOB_QUEUED, "one hour on, its time has come");
    waits(other, "that of the other has not");
    w.clock.epoch_s -= 1e9;
    play(100);
    is_int(job(id)->state, JOB_COMPLETED, "set back, it runs on");
    waits(other, "the other waits");
    world_die(&w);
    world_settle(&w);
    waits(other, "also after a restart");
    w.clock.epoch_s += 1e9 + 30000;
    play(40);
    is_int(job(other)->state, JOB_COMPLETED, "until the clock is right");
    end();
}

/* Early jobs keep nobody from anything: neither devices nor limits. */
static void test_others(void)
{
    begin("others");
    w.conf.limits.running_per_user = 1;
    uint64_t early = submit("k2.1", "+50s",
                            ",\"policy\":{\"begin\":\"+50s\","
                            "\"priority\":50},\"resources\":{\"gpus\":4}",
                            false);
    is_int((long long)early, 0, "a key twice is refused");
    early = submit("k2.2", "+50s", ",\"resources\":{\"gpus\":4}", false);
    uint64_t id = submit("k0.3", "+0s", ",\"resources\":{\"gpus\":4}", false);
    play(3);
    ok(job_state_is_live(job(id)->state), "who comes later runs");
    play(60);
    is_int(job(id)->state, JOB_COMPLETED, "to its end");
    ok(job_state_is_live(job(early)->state), "then the other");
    end();
}

static int says_nothing(void *arg, const struct engine_trial *t,
                        struct error *why)
{
    (void)arg, (void)t, (void)why;
    return 0;
}

/* A dry run looks at those that are early, and may be the first to see that a
 * job's time has come. */
static void test_trial(void)
{
    struct engine_submit req = {
        .uid = 1,
        .user = "anna",
        .key = "dry",
        .spec = "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                "\"policy\":{\"begin\":\"+1h\"}}"};

    begin("a dry run at the time of another job");
    uint64_t id = submit("k0", "+60s", "", false);
    waits(id, "until then it waits");
    w.clock.t_s += 61;
    is_int(engine_dry_run(w.engine, &req, NULL, says_nothing, NULL, &err), 0,
           "the dry run");
    for (int i = 0; i < 4; i++)
        (void)world_step(&w);
    ok(job(id)->state != JOB_QUEUED, "  leaves it its plan");
    end();
}

int main(void)
{
    test_times();
    test_restart();
    test_hold();
    test_retry();
    test_clock();
    test_others();
    test_trial();
    return tap_done();
}
