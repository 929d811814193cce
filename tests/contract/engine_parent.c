/* engine_parent.c - train.resume_from: which job may be gone on from, where its
 * checkpoints are, and that a job keeps its parent over a restart, a requeue
 * and the end of the parent's record. */
#include "scheduler/engine/engine_internal.h"
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
    ok(engine_job(w.engine, first)->from == NULL, "the first one has none");
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
    world_clear(&w);
}

int main(void)
{
    test_refused();
    test_found();
    test_kept();
    return tap_done();
}
