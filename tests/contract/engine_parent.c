/* engine_parent.c - train.resume_from: which job may be gone on from, where its
 * checkpoints are, and that a job keeps its parent over a restart, a requeue
 * and the end of the parent's record. */
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/run.h"
#include "scheduler/engine/store/archive.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;
static int n_keys;

static void begin(const char *what)
{
    static struct world_script s;

    n_keys = 0;
    s = (struct world_script){
        .nodes = 1, .gpus_per_node = 4, .policy = &policy_backfill};
    world_init(&w, &s);
    ok(world_start(&w), "---- %s", what);
}

/* A job of kind cv. 0: it is refused, see err.
 * in  train  more of it;  more  after it */
static uint64_t submit_as(int64_t uid, const char *train, const char *more)
{
    char spec[600], key[16];
    uint64_t id = 0;

    (void)snprintf(key, sizeof(key), "k%d", n_keys++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"cv\",\"dataset\":{\"source\":"
                   "\"synthetic\"},\"train\":{\"epochs\":2%s},"
                   "\"resources\":{\"gpus\":1}%s}",
                   train, more);
    const struct engine_submit req = {
        .uid = uid, .user = "anna", .key = key, .spec = spec};
    err = (struct error)ERROR_INIT;
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        return 0;
    world_settle(&w);
    return id;
}

static uint64_t submit(const char *train, const char *more)
{
    return submit_as(1000, train, more);
}

static uint64_t go_on(const char *from)
{
    char train[200];

    (void)snprintf(train, sizeof(train), ",\"resume_from\":\"%s\"", from);
    return submit(train, "");
}

/* Some jobs of the fake cluster end by themselves before. */
static void end(uint64_t id)
{
    ok(job_state_is_final(engine_job(w.engine, id)->state) ||
           engine_cancel(w.engine, id, 1000, &err) == 0,
       "  job %d is told to", (int)id);
    world_play(&w, 60);
    ok(job_state_is_final(engine_job(w.engine, id)->state), "  job %d ends",
       (int)id);
}

static void refused(const char *from, const char *why)
{
    char want[300];

    (void)snprintf(want, sizeof(want), "train.resume_from: %s [E022]", why);
    ok(go_on(from) == 0, "'%s' is refused", from);
    is_str(err.msg, want, "  and why");
    is_int(err.code, ERR_INVAL, "  for good");
}

/* What the job, and its row in the store, say of its parent. */
static void continues(uint64_t id, uint64_t parent, const char *name,
                      const char *below)
{
    const struct job *job = engine_job(w.engine, id);
    const struct job *p = parent > 0 ? engine_job(w.engine, parent) : NULL;
    char want[600];

    (void)snprintf(want, sizeof(want), "%s%s", p ? p->dir : "", below);
    ok(job && job->parent == parent, "  job %d continues job %s", (int)id,
       name);
    is_str(job ? job->parent_name : NULL, name, "  by its name");
    is_str(job ? job->from : NULL, want, "  from there");
    const struct store_job *row = store_mem_job(w.db, id);
    is_int(row ? (int64_t)row->parent : -1, (int64_t)parent,
           "  and the store has it");
}

static void test_refused(void)
{
    begin("what is refused");
    const uint64_t live = submit("", "");
    refused("1", "job 1 has not ended, it is RUNNING: name it in depends_on, "
                 "too, and this job waits for it");
    const uint64_t waits =
        submit(",\"resume_from\":\"1\"", ",\"depends_on\":[\"afterany:1\"]");
    continues(waits, live, "1", "/out/ckpt");
    is_int((int64_t)submit(",\"resume_from\":\"1\"",
                           ",\"depends_on\":[\"after:1\"]"),
           0, "its beginning is not its end");
    const uint64_t moves = submit(",\"output_dir\":\"/o/${attempt}\"", "");
    is_int((int64_t)submit(",\"resume_from\":\"3:best\"",
                           ",\"depends_on\":[\"3\"]"),
           0, "nor is where it writes known before its last attempt");
    end(moves);
    end(live);
    refused("77", "you have no job 77");
    const uint64_t bobs = submit_as(1001, "", "");
    ok(bobs > 0 && engine_cancel(w.engine, bobs, 0, &err) == 0,
       "another user's job ends");
    world_play(&w, 60);
    char name[24], why[80];
    (void)snprintf(name, sizeof(name), "%d", (int)bobs);
    (void)snprintf(why, sizeof(why), "you have no job %d", (int)bobs);
    refused(name, why);
    is_int((int64_t)submit_as(1001, ",\"resume_from\":\"1\"", ""), 0,
           "and not the other way round");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_found(void)
{
    begin("what is found");
    const uint64_t first = submit("", "");
    end(first);
    continues(go_on("1"), 1, "1", "/out/ckpt");
    continues(go_on("1:best"), 1, "1", "/out/ckpt/best");
    const uint64_t own =
        submit(",\"output_dir\":\"/o/${job_id}\"",
               ",\"checkpoint\":{\"dir\":\"${output_dir}/c\"}");
    end(own);
    const uint64_t id = go_on("4");
    is_int((int64_t)own, 4, "one with places of its own");
    is_str(engine_job(w.engine, id)->from, "/o/4/c", "  is gone on from there");
    /* Directories of jobs; others are of no job that the engine knows. */
    char dir[600];
    (void)snprintf(dir, sizeof(dir), "%s/out",
                   engine_job(w.engine, first)->dir);
    continues(go_on(dir), 1, "1", "/out");
    (void)snprintf(dir, sizeof(dir), "%s0/1/out",
                   engine_job(w.engine, first)->dir);
    const uint64_t other = go_on(dir);
    ok(engine_job(w.engine, other)->parent == 0, "'%s' is no job's", dir);
    is_str(engine_job(w.engine, other)->from, dir, "  and is kept");
    (void)snprintf(dir, sizeof(dir), "%s/../4/out",
                   engine_job(w.engine, first)->dir);
    const uint64_t up = go_on(dir);
    ok(engine_job(w.engine, up)->parent == 0,
       "'%s' is not looked for below job 1", dir);
    ok(engine_job(w.engine, first)->from == NULL, "the first one has none");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_kept(void)
{
    begin("it is kept");
    end(submit("", ""));
    const uint64_t id = go_on("1");
    world_stop(&w);
    ok(world_start(&w), "the daemon starts again");
    continues(id, 1, "1", "/out/ckpt");
    ok(engine_requeue(w.engine, id, 1000, &err) == 0, "the job is requeued");
    world_play(&w, 60);
    is_int(engine_job(w.engine, id)->attempt, 2, "  and has another attempt");
    continues(id, 1, "1", "/out/ckpt");
    ok(engine_requeue(w.engine, 1, 1000, &err) < 0 && err.code == ERR_STATE,
       "a parent that has ended begins no more: %s", err.msg);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* A run outside of mgpu has no checkpoint that mgpu could find. */
static void test_run(void)
{
    const struct engine_run run = {
        .uid = 1000,
        .user = "anna",
        .key = "run",
        .digest = "d",
        .name = "r",
        .spec = "{\"version\":1,\"kind\":\"run\",\"name\":\"r\","
                "\"config\":{}}",
        .holder = "login1 77"};
    uint64_t id = 0;
    bool again;

    begin("a run");
    ok(engine_run_open(w.engine, &run, &id, &again, &err) == 0 && id == 1,
       "is open");
    world_settle(&w);
    refused("1", "job 1 is of kind run, not cv");
    refused("1:best", "job 1 is of kind run, not cv");
    end(id);
    refused("1", "job 1 is of kind run, not cv");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

/* Lets the job leave memory. */
static void leaves(uint64_t id)
{
    world_play(&w, 5);
    ok(!engine_job(w.engine, id), "  job %d is in the archive", (int)id);
}

static void test_archived(void)
{
    uint64_t gone = 1, n_gone[JOB_STATE_N] = {0}, *ids = NULL;
    char dir[600];
    size_t n = 0;

    begin("the archive");
    w.conf.max_ended = 1;
    const uint64_t first = submit("", "");
    (void)snprintf(dir, sizeof(dir), "%s/out",
                   engine_job(w.engine, first)->dir);
    end(first);
    n_gone[engine_job(w.engine, first)->state] = 1;
    end(submit("", ""));
    leaves(first);
    const uint64_t by_number = go_on("1");
    continues(by_number, 1, "1", "/out/ckpt");
    end(by_number);
    leaves(first);
    const uint64_t by_dir = go_on(dir);
    continues(by_dir, 1, "1", "/out");
    end(by_dir);
    leaves(first);
    /* A number that is no job's directory reads none. */
    const uint64_t other = go_on("/data/1/11");
    ok(engine_job(w.engine, other)->parent == 0, "a year is no job");
    ok(!engine_job(w.engine, first), "  and none is read");
    end(other);
    leaves(first);
    /* What a submit reads beforehand, apart from the loop. */
    struct engine_task task = {.read = NULL};
    const struct engine_submit req = {.uid = 1000, .user = "anna"};
    const char *const named[] = {"1", dir, "/data/1/11"};
    for (size_t i = 0; i < 3; i++) {
        char spec[900];
        (void)snprintf(spec, sizeof(spec),
                       "{\"name\":\"j\",\"kind\":\"cv\",\"dataset\":{"
                       "\"source\":\"synthetic\"},\"train\":{"
                       "\"resume_from\":\"%s\"}}",
                       named[i]);
        ok(engine_read(spec, NULL, &task.read, &err) == 0 &&
               engine_needs(w.engine, &req, &task, 1, &ids, &n, &err) == 0,
           "'%s' is read", named[i]);
        ok(i < 2 ? n == 1 && ids[0] == 1 : n == 0, "  and needs %zu", n);
        free(ids);
        ids = NULL;
        engine_read_destroy(task.read);
    }
    /* It is removed. */
    is_int(w.store->ops->remove_jobs(w.store, &gone, 1, 70, &err), 0,
           "it is removed");
    engine_removed(w.engine, n_gone);
    refused("1", "you have no job 1");
    const uint64_t left = go_on(dir);
    ok(engine_job(w.engine, left)->parent == 0, "its directory is no job's");
    is_str(engine_job(w.engine, left)->from, dir, "  and is kept");
    const struct store_job *row = store_mem_job(w.db, by_number);
    is_int(row ? (int64_t)row->parent : -1, 1, "its child keeps it");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void test_many(void)
{
    static const char *const from[] = {"1", "1", "1:best", "3:best", "3", "1"};
    enum { N = sizeof(from) / sizeof(from[0]) };
    struct engine_task tasks[N] = {{NULL, NULL, NULL}};
    char specs[N][300], vary[N][60];
    uint64_t id = 0;

    begin("a sweep");
    end(submit("", ""));
    end(submit("", ""));
    end(submit("", ""));
    for (int i = 0; i < N; i++) {
        (void)snprintf(specs[i], sizeof(specs[i]),
                       "{\"name\":\"j\",\"kind\":\"cv\",\"dataset\":{"
                       "\"source\":\"synthetic\"},\"train\":{"
                       "\"resume_from\":\"%s\"}}",
                       from[i]);
        (void)snprintf(vary[i], sizeof(vary[i]), "{\"labels.I\":\"%d\"}", i);
        tasks[i] = (struct engine_task){specs[i], vary[i], NULL};
    }
    const struct engine_submit req = {.uid = 1000, .user = "anna", .key = "s"};
    const struct engine_sweep sweep = {.tasks = tasks, .n = N};
    ok(engine_submit_sweep(w.engine, &req, &sweep, &id, NULL, &err) == 0,
       "is submitted");
    world_settle(&w);
    for (int i = 0; i < N; i++) {
        const bool is_third = from[i][0] == '3';
        continues(id + (uint64_t)i, is_third ? 3 : 1, is_third ? "3" : "1",
                  from[i][1] == ':' ? "/out/ckpt/best" : "/out/ckpt");
    }
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

int main(void)
{
    test_refused();
    test_found();
    test_kept();
    test_run();
    test_archived();
    test_many();
    return tap_done();
}
