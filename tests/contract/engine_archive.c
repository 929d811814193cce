/* engine_archive.c - jobs that ended leave memory, and are what they were when
 * they are asked for: by number, by key, by those that wait for them, after a
 * crash at any store call. */
#include "scheduler/engine/store/archive.h"
#include "tests/contract/engine_queue.h"

enum { KEPT = 4, MANY = 24 };

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 1000}}},
             {.gpus = 1, .attempts = {{.run_s = 5}}},
             {.gpus = 1, .attempts = {{.run_s = 5, .exit_code = 3}}}},
};

static struct world w;
static struct error err;

static int submit_as(const char *key, const char *depends, const char *digest,
                     uint64_t *ret_id, bool *ret_again)
{
    char spec[400];
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"depends_on\":[%s],\"retry\":{\"max\":0}}",
                   depends);
    struct engine_submit req = {.uid = 1000,
                                .user = "anna",
                                .key = key,
                                .digest = digest,
                                .spec = spec};
    return engine_submit(w.engine, &req, ret_id, ret_again, &err);
}

static uint64_t submit(const char *key, const char *depends)
{
    uint64_t id = 0;
    if (submit_as(key, depends, "d1", &id, NULL) < 0)
        tap_diag("%s: %s", key, err.msg);
    return id;
}

static uint64_t submit_two(const char *key)
{
    static const char spec[] =
        "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
        "\"retry\":{\"max\":0}}";
    const struct engine_task tasks[] = {{spec, "{\"env.I\":\"0\"}", NULL},
                                        {spec, "{\"env.I\":\"1\"}", NULL}};
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = key};
    struct engine_sweep two = {.tasks = tasks, .n = 2};
    uint64_t id = 0;
    if (engine_submit_sweep(w.engine, &req, &two, &id, NULL, &err) < 0)
        tap_diag("%s: %s", key, err.msg);
    return id;
}

static void play(double s)
{
    world_play(&w, s);
}

static void begin(const char *what, int32_t kept)
{
    world_init(&w, &script);
    w.conf.max_ended = kept;
    ok(world_start(&w), "---- %s", what);
}

static void end(void)
{
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* In memory. */
static int count_jobs(void)
{
    int n = 0;
    for (const struct job *j = engine_next_job(w.engine, 0); j;
         j = engine_next_job(w.engine, j->id))
        n++;
    return n;
}

static uint64_t count_ended(void)
{
    uint64_t n[JOB_STATE_N], sum = 0;
    engine_count(w.engine, n);
    for (int s = 0; s < JOB_STATE_N; s++)
        sum += job_state_is_final((enum job_state)s) ? n[s] : 0;
    return sum;
}

static const struct job *recalled(uint64_t id)
{
    if (engine_recall(w.engine, id, &err) < 0)
        tap_diag("%s", err.msg);
    return engine_job(w.engine, id);
}

/* Many that end, and all of them twice. */
static void submit_many(void)
{
    for (int i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d.%d", 1 + i % 2, i);
        (void)submit(key, "");
    }
}

static void check_many(const char *when)
{
    bool is_all = true;
    for (uint64_t id = 1; id <= MANY; id++) {
        const struct job *j = recalled(id);
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d.%d", 1 + (int)(id - 1) % 2,
                       (int)id - 1);
        bool is = j && j->state == (id % 2 ? JOB_COMPLETED : JOB_FAILED) &&
                  j->exit_code == (id % 2 ? 0 : 3) && j->attempt == 1 &&
                  j->uid == 1000 && strcmp(j->key, key) == 0 &&
                  strcmp(j->name, "j") == 0 && isfinite(j->end_s) &&
                  j->end_s > j->start_s && j->iteration == 7;
        if (!is)
            tap_diag("job %d: %s", (int)id,
                     j ? job_state_name(j->state) : "is not there");
        is_all = is_all && is;
    }
    ok(is_all, "%s each is what it was", when);
}

/* A job of which nothing can be changed, as those in memory say it. */
static bool is_same(const struct job *a, const struct job *b)
{
    return a && b && a->id == b->id && a->uid == b->uid &&
           a->state == b->state && a->exit_code == b->exit_code &&
           a->attempt == b->attempt && a->sweep == b->sweep &&
           a->task == b->task && a->n_tasks == b->n_tasks &&
           a->submit_s == b->submit_s && a->start_s == b->start_s &&
           a->end_s == b->end_s && a->iteration == b->iteration &&
           strcmp(a->name, b->name) == 0 && strcmp(a->user, b->user) == 0 &&
           strcmp(a->place, b->place) == 0 && strcmp(a->spec, b->spec) == 0 &&
           strcmp(a->dir, b->dir) == 0 && strcmp(a->reason, b->reason) == 0;
}

/* Read without an engine they are what they are with it. */
static void test_read(void)
{
    struct job *jobs[MANY], *beyond;
    struct error damage;
    bool is_all = true;

    begin("read apart", KEPT);
    submit_many();
    play(60);
    ok(engine_has_past(w.engine), "some have left");
    ok(engine_archive_read(w.store, w.conf.jobs_dir, 1, MANY, jobs, &damage,
                           &err) == 0 &&
           damage.code == ERR_NONE,
       "are read");
    is_int(count_jobs(), KEPT, "and none is in memory for it");
    for (uint64_t id = 1; id <= MANY; id++)
        is_all = is_all && is_same(jobs[id - 1], recalled(id));
    ok(is_all, "each is what it was");
    engine_archive_free(jobs, MANY);
    ok(!jobs[0] && !jobs[MANY - 1], "they are gone again");
    ok(engine_archive_read(w.store, w.conf.jobs_dir, MANY + 9, MANY + 9,
                           &beyond, &damage, &err) == 0 &&
           !beyond && damage.code == ERR_IO,
       "one that never was: %s", damage.msg);
    end();
}

/* The two halves of engine_recall(). */
static void test_adopt(void)
{
    struct job **jobs = NULL, **again = NULL;
    size_t n = 0, n_again = 0;

    begin("adopted", 2);
    uint64_t id = submit_two("k1");
    submit_many();
    play(60);
    ok(id == 1 && !engine_job(w.engine, 1) && !engine_job(w.engine, 2),
       "a sweep has left");
    ok(engine_archive_read_unit(w.store, w.conf.jobs_dir, 2, &jobs, &n, &err) ==
               0 &&
           engine_archive_read_unit(w.store, w.conf.jobs_dir, 1, &again,
                                    &n_again, &err) == 0,
       "is read twice");
    is_int((long long)n, 2, "as a whole");
    is_int((long long)n_again, 2, "each time");
    ok(!engine_job(w.engine, 1), "and is not in memory");
    ok(engine_adopt(w.engine, jobs, n, &err) == 0, "adopted");
    ok(engine_job(w.engine, 1) && engine_task(w.engine, 1, 1), "it is");
    ok(!jobs[0] && !jobs[1], "the engine has them");
    ok(engine_adopt(w.engine, again, n_again, &err) == 0 && again[0],
       "a second time changes nothing");
    engine_archive_free(again, n_again);
    free(jobs);
    free(again);
    play(10);
    is_int(count_jobs(), 2, "and as many leave again");
    end();
}

/* By another thread, since its number was read from the archive. */
static void test_removed(void)
{
    const uint64_t gone[] = {1, 2, 3};
    struct job **jobs = NULL;
    size_t n = 0;

    begin("removed meanwhile", 2);
    (void)submit_two("k1");
    submit_many();
    play(60);
    is_int(w.store->ops->remove_jobs(w.store, gone, 3, 70, &err), 0,
           "a sweep and a job are removed");
    for (uint64_t id = 1; id <= 3; id++) {
        is_int(engine_archive_read_unit(w.store, w.conf.jobs_dir, id, &jobs, &n,
                                        &err),
               -1, "who reads one");
        is_int(err.code, ERR_NOTFOUND, "  is told");
    }
    end();
}

static void test_leave(void)
{
    begin("they leave", KEPT);
    submit_many();
    play(60);
    is_int(count_jobs(), KEPT, "so many stay");
    is_int((long long)count_ended(), MANY, "all are counted");
    ok(engine_job(w.engine, MANY) && !engine_job(w.engine, 1),
       "those that ended last");
    ok(isinf(engine_next_s(w.engine)) || engine_next_s(w.engine) > w.clock.t_s,
       "and then there is nothing to do");
    check_many("asked for by its number");
    is_int(count_jobs(), MANY, "and is in memory for a while");
    play(2);
    is_int(count_jobs(), KEPT, "until the next step");
    check_many("asked for again");
    world_die(&w);
    is_int(count_jobs(), 0, "a start reads none of them");
    is_int((long long)count_ended(), MANY, "and counts them");
    is_int((long long)engine_last_id(w.engine), MANY, "no id is given twice");
    check_many("in the next life");
    ok(!recalled(MANY + 1) && !recalled(0), "of others there are none");
    is_int((long long)submit("k0", ""), MANY + 1, "the next one");
    w.conf.max_ended = 0;
    play(2);
    is_int(count_jobs(), MANY + 1, "without a limit all may stay");
    end();
}

static void test_key(void)
{
    uint64_t id = 0;
    bool again = false;

    begin("keys", 1);
    is_int((long long)submit("k1.a", ""), 1, "one");
    play(20);
    is_int((long long)submit("k1.b", ""), 2, "another");
    play(20);
    for (int life = 1; life <= 2; life++) {
        ok(!engine_job(w.engine, 1), "has left, life %d", life);
        ok(submit_as("k1.a", "", "d1", &id, &again) == 0 && again && id == 1,
           "its key leads to it");
        play(2);
        ok(submit_as("k1.a", "", "d2", &id, &again) < 0 &&
               err.code == ERR_STATE,
           "and is not good for another specification: %s", err.msg);
        play(2);
        world_die(&w);
    }
    end();
}

static void test_depends(void)
{
    uint64_t ends, fails, two, waits, late;

    begin("those that wait", 1);
    ends = submit("k1.a", "");
    fails = submit("k2.a", "");
    two = submit_two("k1");
    play(30);
    (void)submit("k1.x", "");
    play(30);
    ok(!engine_job(w.engine, ends) && !engine_job(w.engine, fails) &&
           !engine_job(w.engine, two),
       "all have left");
    (void)submit("k0", "");
    waits = submit("k1.b", "\"afterok:1\",\"afterany:3\",\"afterany:6\"");
    ok(waits > 0, "one waits for what has left, and for what goes on");
    play(5);
    is_str(recalled(waits)->reason, "Dependency: waits for afterany:6",
           "for that alone");
    ok(engine_job(w.engine, ends) && engine_job(w.engine, two + 1),
       "what it names stays");
    world_die(&w);
    play(5);
    is_str(recalled(waits)->reason, "Dependency: waits for afterany:6",
           "in the next life, too");
    late = submit("k1.c", "\"afterok:2\"");
    play(5);
    ok(strstr(recalled(late)->reason, "afterok:2, which is FAILED"),
       "one that failed has failed: %s", recalled(late)->reason);
    ok(submit_as("k1.d", "\"afterok:77\"", "d1", &late, NULL) < 0,
       "one that is not there is not: %s", err.msg);
    end();
}

/* Both tasks or none, however it is named. */
static void test_sweep(void)
{
    begin("sweeps", 1);
    uint64_t two = submit_two("k1");
    play(30);
    is_int(count_jobs(), 0, "one that is too many leaves as a whole");
    for (uint64_t i = 0; i < 2; i++) {
        const struct job *task = recalled(two + i);
        ok(task && task->task == (int32_t)i &&
               task->state == (i ? JOB_FAILED : JOB_COMPLETED),
           "task %d", (int)i);
        ok(engine_task(w.engine, two, 0) && engine_task(w.engine, two, 1),
           "comes with all");
        play(2);
        ok(!engine_job(w.engine, two) && !engine_job(w.engine, two + 1),
           "and leaves with them");
    }
    end();
}

static bool may_leave;
static int n_asked;

static bool ask(void *arg, const struct job *job)
{
    (void)arg;
    (void)job;
    n_asked++;
    return may_leave;
}

/* world_start() with the one part that it does not have. */
static void restart_asking(void)
{
    struct engine_parts parts = {.clock = &w.clock.base,
                                 .policy = &policy_fifo,
                                 .alloc = w.alloc,
                                 .store = w.store,
                                 .conf = &w.conf,
                                 .secret_of = world_secret,
                                 .may_leave = ask};
    engine_destroy(w.engine);
    if (engine_create(&parts, &w.engine, &err) < 0)
        tap_diag("%s", err.msg);
    engine_on_event(w.engine, world_event, &w);
    engine_on_exit(w.engine, world_exit, &w);
}

static void test_may_leave(void)
{
    begin("what is owed", 1);
    restart_asking();
    submit_many();
    play(60);
    is_int(count_jobs(), MANY, "they stay while something is to be done");
    ok(engine_next_s(w.engine) > w.clock.t_s, "nobody looks all the time");
    may_leave = true;
    play(30);
    is_int(count_jobs(), 1, "and leave then");
    end();
}

/* Nobody looks again and again at those whose turn is later. */
static void test_all_at_once(void)
{
    enum { ALL = 4000 };
    bool is = true;
    begin("a limit after many", 0);
    restart_asking();
    for (int i = 0; i < ALL; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "a%d", i);
        (void)submit(key, "");
    }
    play(1);
    for (uint64_t id = 1; is && id <= ALL; id++)
        is = engine_cancel(w.engine, id, 1000, &err) == 0;
    if (!is)
        tap_diag("%s", err.msg);
    ok(is, "%d jobs, cancelled", ALL);
    play(2);
    is_int((long long)count_ended(), ALL, "have ended");
    w.conf.max_ended = 1;
    n_asked = 0;
    play(30);
    is_int(count_jobs(), 1, "leave");
    ok(n_asked <= 2 * ALL, "each is looked at when it is archived, and then");
    tap_diag("%d times", n_asked);
    uint64_t next = submit("k", "");
    play(1);
    is_int(engine_cancel(w.engine, next, 1000, &err), 0, "the next one");
    play(60);
    is_int(count_jobs(), 1, "  stays when it has ended");
    ok(engine_job(w.engine, next) != NULL, "  in the place of the last");
    end();
}

/* The n-th call fails, before or after it is done, and the daemon dies. */
static void test_crash(void)
{
    int n_died = 0;
    bool is_all = true;

    tap_diag("---- a crash at any call");
    for (int64_t n = 1;; n++) {
        bool did = false;
        for (int after = 0; after <= 1; after++) {
            world_init(&w, &script);
            w.conf.max_ended = 2;
            w.fault = (struct store_fault){.n = n, .after = after};
            if (!world_start(&w)) {
                did = true;
                world_die(&w);
            }
            uint64_t ids[6] = {0};
            for (int s = 0; s < 160; s++) {
                for (int i = 0; i < 6; i++) {
                    char key[16];
                    (void)snprintf(key, sizeof(key), "k1.%d", i);
                    if (s >= 6 * i && (s < 6 * i + 2 || s > 60))
                        (void)submit_as(key, "", "d1", &ids[i], NULL);
                }
                if (world_step(&w) < 0 && w.fault.n > 0) {
                    did = true;
                    world_die(&w);
                }
                w.clock.t_s += 1;
            }
            for (uint64_t i = 0; i < 6; i++) {
                const struct job *j = recalled(ids[i]);
                is_all = is_all && j && j->state == JOB_COMPLETED;
                for (uint64_t k = 0; k < i; k++)
                    is_all = is_all && ids[k] != ids[i];
            }
            is_all = is_all && count_ended() == 6 && w.n_bad == 0;
            play(2);
            is_all = is_all && count_jobs() == 2;
            world_clear(&w);
        }
        n_died += did;
        if (!did)
            break;
    }
    ok(is_all, "each job is there once, and as it was");
    ok(n_died > 20, "in %d lives that ended so", n_died);
}

int main(void)
{
    test_leave();
    test_read();
    test_adopt();
    test_removed();
    test_key();
    test_depends();
    test_sweep();
    test_may_leave();
    test_all_at_once();
    test_crash();
    return tap_done();
}
