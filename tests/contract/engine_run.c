/* engine_run.c - jobs of kind run: what opens and ends them, what is refused,
 * and what is left after a crash at any store call. */
#include "scheduler/engine/run.h"
#include "scheduler/engine/store/archive.h"
#include "scheduler/engine/update.h"
#include "tests/contract/engine_queue.h"

enum { ANNA = 1000, BOB = 1001, ROOT = 0, LOST_S = 600 };

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 2,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 2, .attempts = {{.run_s = 5}}}},
};

static struct world w;
static struct error err;
static const struct engine_beat NOTHING = {-1,  -1,  -1,  -1,        NAN,
                                           NAN, NAN, NAN, .work = -1};

static void begin(const char *what)
{
    world_init(&w, &script);
    w.conf.run_lost_s = LOST_S;
    ok(world_start(&w), "---- %s", what);
}

static void end(void)
{
    world_check_log(&w);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static int open_as(const char *key, int64_t uid, const char *name,
                   const char *digest, uint64_t *ret_id, bool *ret_again)
{
    const struct engine_run run = {
        .uid = uid,
        .user = uid == ANNA ? "anna" : "bob",
        .key = key,
        .digest = digest,
        .name = name,
        .spec = "{\"version\":1,\"kind\":\"run\",\"name\":\"r\","
                "\"config\":{\"lr\":1e-4,\"deep\":{\"a\":[1,2]}}}",
        .holder = "login1 77"};
    return engine_run_open(w.engine, &run, ret_id, ret_again, &err);
}

static uint64_t open_run(const char *key)
{
    uint64_t id = 0;
    bool again;
    if (open_as(key, ANNA, "r", "d", &id, &again) < 0)
        tap_diag("%s: %s", key, err.msg);
    world_settle(&w);
    return id;
}

static const struct job *job(uint64_t id)
{
    return engine_job(w.engine, id);
}

static void is_state(uint64_t id, enum job_state state, int code,
                     const char *reason)
{
    const struct job *j = job(id);
    ok(j->state == state && j->exit_code == code, "  it is %s, %d: %s, %d",
       job_state_name(state), code, job_state_name(j->state), j->exit_code);
    is_str(j->reason, reason, "  because");
}

static void test_opening(void)
{
    begin("opening");
    uint64_t id = open_run("k1"), again_id = 0;
    bool again = false;
    const struct job *j = job(id);
    is_state(id, JOB_RUNNING, -1, "");
    ok(j->is_run && strcmp(j->kind, "run") == 0, "  is a run");
    ok(j->gpus == 0 && j->nodes == 0 && j->attempt == 1, "  without devices");
    ok(j->start_s >= j->submit_s && j->start_s <= j->submit_s,
       "  started with its submit");
    is_str(j->holder, "login1 77", "  its program");
    ok(strstr(j->spec, "\"lr\":1e-4,\"deep\":{\"a\":[1,2]}") != NULL,
       "  its settings, as they came: %s", j->spec);
    is_int(engine_queue_position(w.engine, id), 0, "  stands in no queue");
    ok(!engine_next_live(w.engine, 0), "  holds no devices");
    is_int(alloc_fake_starts(w.cluster, id, 1), 0, "  nothing was started");
    ok(open_as("k1", ANNA, "r", "d", &again_id, &again) == 0 && again &&
           again_id == id,
       "the same key again: the same run");
    is_int(open_as("k1", ANNA, "r", "other", &again_id, &again), -1,
           "the same key for another run");
    ok(err.code == ERR_STATE, "  %s", err.msg);
    is_int(open_as("k2", ANNA, "a b", "d", &again_id, &again), -1,
           "a name that no job has");
    ok(err.code == ERR_INVAL, "  %s", err.msg);
    w.conf.max_jobs_per_user = 1;
    is_int(open_as("k3", ANNA, "r", "d", &again_id, &again), -1,
           "more than a user may have");
    ok(err.code == ERR_LIMIT, "  %s", err.msg);
    is_int(open_as("k3", BOB, "r", "d", &again_id, &again), 0,
           "another user may");
    world_settle(&w);
    is_int(world_command(&w, 2, 0) > 0, 1, "a job");
    world_play(&w, 20);
    is_int(job(again_id + 1)->state, JOB_COMPLETED,
           "  has all GPUs, whoever runs");
    is_state(id, JOB_RUNNING, -1, "");
    end();
}

static void test_refusals(void)
{
    const struct engine_size two = {.gpus = 2};
    const struct engine_update update = {
        .has_limit = true, .limit_s = 60, .has_priority = true, .priority = 1};
    begin("what is for jobs with devices");
    uint64_t id = open_run("k1");
    struct {
        int rc;
        const char *what;
    } asked[] = {
        {engine_hold(w.engine, id, ANNA, true, &err), "hold"},
        {engine_hold(w.engine, id, ANNA, false, &err), "release"},
        {engine_requeue(w.engine, id, ANNA, &err), "requeue"},
        {engine_resize(w.engine, id, ANNA, "anna", &two, &err), "resize"},
        {engine_prioritise(w.engine, id, ANNA, 1, &err), "priority"},
        {engine_top(w.engine, id, ROOT, &err), "top"},
        {engine_update(w.engine, id, ANNA, &update, &err), "update"},
        {engine_signal(w.engine, id, ANNA, 15, &err), "signal"},
    };
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        ok(asked[i].rc == -1, "%s is refused", asked[i].what);
    ok(err.code == ERR_STATE, "  %s", err.msg);
    ok(strstr(err.msg, "is a run") != NULL, "  says that it is a run");
    world_play(&w, 5);
    is_state(id, JOB_RUNNING, -1, "");
    uint64_t command = world_command(&w, 2, 0);
    is_int(engine_run_check(w.engine, command, 1, &err), -1,
           "values for a job that is no run");
    ok(err.code == ERR_STATE, "  %s", err.msg);
    is_int(engine_run_check(w.engine, id, BOB, &err), -1, "of another user");
    ok(err.code == ERR_DENIED, "  %s", err.msg);
    is_int(engine_run_check(w.engine, id, ROOT, &err), -1,
           "of an administrator");
    ok(err.code == ERR_DENIED, "  %s", err.msg);
    is_int(engine_run_check(w.engine, 99, ANNA, &err), -1, "of no job");
    ok(err.code == ERR_NOTFOUND, "  %s", err.msg);
    is_int(engine_run_finish(w.engine, id, ANNA, 256, "", &err), -1,
           "an exit code of 256");
    ok(err.code == ERR_INVAL, "  %s", err.msg);
    is_int(engine_cancel(w.engine, id, ANNA, &err), 0, "  and it can end");
    world_play(&w, 20);
    end();
}

static void test_ends(void)
{
    struct engine_beat beat = NOTHING;
    begin("ends");
    uint64_t id = open_run("k1");
    beat.iteration = 5;
    beat.iterations_total = 9;
    beat.loss = 0.5;
    engine_run_beat(w.engine, id, &beat);
    w.clock.t_s += 4;
    beat.iteration = 7;
    beat.iterations_total = -1;
    engine_run_beat(w.engine, id, &beat);
    engine_run_beat(w.engine, id, &NOTHING);
    const struct job *j = job(id);
    ok(j->iteration == 7 && j->iterations_total == 9 && j->epoch == 0 &&
           j->loss >= 0.5 && j->loss <= 0.5,
       "its progress, which silence does not change");
    ok(j->t_iter >= 2 && j->t_iter <= 2, "  and its pace: %g s", j->t_iter);
    is_int(engine_run_finish(w.engine, id, ANNA, 0, "", &err), 0, "it ends");
    is_int(engine_run_check(w.engine, id, ANNA, &err), -1,
           "  and takes no values, at once");
    world_settle(&w);
    is_state(id, JOB_COMPLETED, 0, "");
    is_int(engine_run_finish(w.engine, id, ANNA, 0, "", &err), 0,
           "the same end again");
    is_int(engine_run_finish(w.engine, id, ANNA, 1, "", &err), -1,
           "another end");
    ok(err.code == ERR_STATE, "  %s", err.msg);

    id = open_run("k2");
    is_int(engine_run_finish(w.engine, id, ANNA, 3, "", &err), 0, "it fails");
    world_settle(&w);
    is_state(id, JOB_FAILED, 3, "its program ended with exit code 3");
    id = open_run("k3");
    is_int(engine_run_finish(w.engine, id, ANNA, 1, "ValueError: x", &err), 0,
           "it says why");
    world_settle(&w);
    is_state(id, JOB_FAILED, 1, "ValueError: x");

    id = open_run("k4");
    is_int(engine_cancel(w.engine, id, ANNA, &err), 0, "its user cancels");
    is_int(engine_run_check(w.engine, id, ANNA, &err), -1,
           "  and it takes no values, at once");
    ok(strstr(err.msg, "has ended: CANCELLED, cancelled by its user") != NULL,
       "  %s", err.msg);
    world_settle(&w);
    is_state(id, JOB_CANCELLED, 130, "cancelled by its user");
    id = open_run("k5");
    is_int(engine_cancel(w.engine, id, BOB, &err), -1, "another user may not");
    is_int(engine_cancel(w.engine, id, ROOT, &err), 0, "an administrator does");
    world_settle(&w);
    is_state(id, JOB_CANCELLED, 143, "cancelled by an administrator");
    end();
}

/* Plays from beat to beat, so that the engine's own timer is what ends it. */
static void test_silence(void)
{
    begin("silence");
    uint64_t id = open_run("k1"), other = open_run("k2");
    for (int i = 0; i < 10; i++) {
        w.clock.t_s += LOST_S - 1;
        engine_run_beat(w.engine, other, &NOTHING);
        if (i < 5)
            engine_run_beat(w.engine, id, &NOTHING);
        world_settle(&w);
    }
    is_state(id, JOB_FAILED, 125,
             "nothing was heard of its program for 1198 s "
             "(watchdog.run_lost_after)");
    is_state(other, JOB_RUNNING, -1, "");
    double next_s = engine_next_s(w.engine);
    ok(next_s >= job(other)->beat_s + LOST_S &&
           next_s <= job(other)->beat_s + LOST_S,
       "the engine wakes for it in time");
    w.clock.t_s += LOST_S - 1;
    world_die(&w);
    world_settle(&w);
    w.clock.t_s += LOST_S - 1;
    world_settle(&w);
    is_state(other, JOB_RUNNING, -1, "");
    engine_run_beat(w.engine, other, &NOTHING);
    w.clock.t_s += LOST_S - 1;
    engine_was_away(w.engine);
    w.clock.t_s += LOST_S - 1;
    world_settle(&w);
    is_state(other, JOB_RUNNING, -1, "");
    w.clock.t_s += 1;
    world_settle(&w);
    is_int(job(other)->state, JOB_FAILED, "after its time it is over");
    w.conf.run_lost_s = 0;
    id = open_run("k3");
    w.clock.t_s += 1e6;
    world_settle(&w);
    is_state(id, JOB_RUNNING, -1, "");
    end();
}

static void test_restart(void)
{
    struct engine_beat beat = NOTHING;
    begin("restarts");
    uint64_t id = open_run("k1"), done = open_run("k2"), gone = open_run("k3");
    is_int(engine_run_finish(w.engine, done, ANNA, 0, "", &err), 0, "one ends");
    is_int(engine_cancel(w.engine, gone, ANNA, &err), 0, "one is cancelled");
    world_settle(&w);
    world_die(&w);
    is_state(id, JOB_RUNNING, -1, "");
    ok(job(id)->is_run && job(id)->attempt == 1, "  is a run");
    is_str(job(id)->holder, "login1 77", "  of its program");
    is_int(engine_run_check(w.engine, id, ANNA, &err), 0, "  goes on");
    is_state(done, JOB_COMPLETED, 0, "");
    is_state(gone, JOB_CANCELLED, 130, "cancelled by its user");
    world_settle(&w);
    ok(!engine_next_live(w.engine, 0), "nothing is asked of the allocator");
    is_int(alloc_fake_starts(w.cluster, id, 1), 0, "  and nothing was started");
    beat.iteration = 12;
    engine_last_figures(w.engine, id, 1, &beat);
    is_int(job(id)->iteration, 12, "what its rows say counts again");
    is_int(engine_run_finish(w.engine, id, ANNA, 0, "", &err), 0, "it ends");
    world_settle(&w);
    world_check_log(&w);
    w.conf.max_ended = 1;
    world_settle(&w);
    world_die(&w);
    is_int(engine_recall(w.engine, done, &err), 0, "from the archive");
    ok(job(done)->is_run && strcmp(job(done)->kind, "run") == 0,
       "  it is a run");
    is_int(engine_run_check(w.engine, done, ANNA, &err), -1, "  that ended");
    ok(err.code == ERR_STATE, "  %s", err.msg);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* The daemon dies at the n-th call of the store, for every n: what was
 * acknowledged is there, and a run is never in between. */
static int scene(struct store_fault fault, bool is_after)
{
    uint64_t id = 0;
    bool again;
    int n = 0;

    world_init(&w, &script);
    w.conf.run_lost_s = LOST_S;
    w.fault = fault;
    if (!world_start(&w))
        world_die(&w);
    for (int tries = 0; tries < 3; tries++) {
        bool was_asked = open_as("k1", ANNA, "r", "d", &id, &again) == 0;
        uint64_t ticket = engine_staged(w.engine);
        int rc = world_step(&w);
        if (rc < 0 && is_after)
            world_die(&w);
        else if (was_asked && ticket <= engine_durable(w.engine))
            break; /* it is acknowledged */
    }
    (void)world_step(&w);
    const struct job *j = job(id);
    n += !j || j->state != JOB_RUNNING || !j->is_run;
    if (engine_cancel(w.engine, id, ANNA, &err) < 0)
        n++;
    if (world_step(&w) < 0 && is_after)
        world_die(&w);
    (void)world_step(&w);
    j = job(id);
    n += !j || (j->state != JOB_RUNNING && j->state != JOB_CANCELLED);
    n +=
        j && j->state == JOB_RUNNING && engine_cancel(w.engine, id, ANNA, &err);
    w.clock.t_s += 2;
    world_settle(&w);
    n += job(id)->state != JOB_CANCELLED || job(id)->exit_code != 130;
    world_check_log(&w);
    n += w.n_bad;
    return n;
}

static void test_crashes(void)
{
    int n_bad = 0;
    int64_t n_calls = 0;

    for (int n = 1; n <= 12; n++) {
        for (int after = 0; after < 2; after++) {
            const struct store_fault fault = {.n = n, .after = after};
            /* What was done and not acknowledged is only seen by the next. */
            for (int dies = after; dies < 2; dies++) {
                n_bad += scene(fault, dies == 1);
                n_calls += store_faulty_calls(w.store);
                world_clear(&w);
            }
        }
    }
    ok(n_calls > 0, "---- a crash at each of the store's calls");
    is_int(n_bad, 0, "all is as it was acknowledged");
}

int main(void)
{
    test_opening();
    test_refusals();
    test_ends();
    test_silence();
    test_restart();
    test_crashes();
    return tap_done();
}
