/* engine_program.c - what a job learns from earlier ones that are not of its
 * class: its speed from commands of the same program, and its length, which
 * must not depend on who is queued.
 */
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static void begin(int32_t gpus, const char *what)
{
    static struct world_script s;

    s = (struct world_script){
        .nodes = 1, .gpus_per_node = gpus, .policy = &policy_goodput};
    world_init(&w, &s);
    ok(world_start(&w), "---- %s", what);
}

/* in  more  of the resources, and after them */
static uint64_t submit_as(const char *user, const char *argv, const char *gpus,
                          const char *more)
{
    static int n;
    char spec[400], key[16];
    uint64_t id = 0;

    (void)snprintf(key, sizeof(key), "p%d", n++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[%s],"
                   "\"saves\":true,\"resources\":{\"gpus\":\"%s\"%s}",
                   argv, gpus, more ? more : "}");
    const struct engine_submit req = {
        .uid = 1000, .user = user, .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        tap_diag("%s", err.msg);
    world_settle(&w);
    return id;
}

static uint64_t submit(const char *argv, const char *gpus, const char *more)
{
    return submit_as("anna", argv, gpus, more);
}

static int32_t gpus_of(uint64_t id)
{
    const struct job *job = engine_job(w.engine, id);

    return job && job_state_is_live(job->state) ? job->gpus : 0;
}

static void cancel(uint64_t id)
{
    ok(engine_cancel(w.engine, id, 1000, &err) == 0, "  job %d ends", (int)id);
    world_play(&w, 60);
}

/* ---- programs -------------------------------------------------------------
 */
#define LR(x) "\"python3\",\"/home/a/t.py\",\"--lr\",\"" x "\""

static void test_sweep(void)
{
    begin(4, "a sweep learns from its first member");
    uint64_t first = submit(LR("0.1"), "1..4", NULL);
    is_int(gpus_of(first), 1, "the first of a class starts small");
    is_int(engine_teach_iterations(w.engine, first, 1, 0, 60, 1, &err), 0,
           "  and is measured");
    cancel(first);
    uint64_t next = submit(LR("0.2"), "1..4", NULL);
    is_int(gpus_of(next), 2, "the next starts on what the policy explores");
    is_int(engine_teach_iterations(w.engine, next, 1, 0, 60, 0.6, &err), 0,
           "  and is measured");
    cancel(next);
    uint64_t third = submit(LR("0.3"), "1..4", NULL);
    is_int(gpus_of(third), 4, "the third has all");
    cancel(third);
    uint64_t other =
        submit("\"python3\",\"/home/a/u.py\",\"--lr\",\"1\"", "1..4", NULL);
    is_int(gpus_of(other), 1, "another program starts small");
    cancel(other);
    uint64_t bobs = submit_as("bob", LR("0.4"), "1..4", NULL);
    is_int(gpus_of(bobs), 1, "and so does that of another user");
    ok(strncmp(eng_find(w.engine, bobs)->own.program, "program/t.py-", 13) == 0,
       "  which has the same label");
    cancel(bobs);

    /* The class comes first: two GPUs are no faster for it than one. */
    for (int32_t g = 1; g <= 4; g++) {
        const struct throughput_row row = {
            .nodes = 1, .per_node = g, .n = 50, .mean_s = 1};
        ok(engine_teach(w.engine, eng_find(w.engine, first)->own.class, "fake",
                        false, &row, &err) == 0,
           "a class of it tells %d GPUs", (int)g);
    }
    uint64_t again = submit(LR("0.1"), "1..4", NULL);
    is_int(gpus_of(again), 1, "  it does not use more, whatever the others do");
    world_clear(&w);
}

static void test_restart(void)
{
    struct throughput_row row = {.nodes = 1, .per_node = 4, .n = 50};
    char program[128];

    begin(4, "after a restart");
    uint64_t first = submit(LR("0.1"), "1..4", NULL);
    const struct job_record *rec = eng_find(w.engine, first);
    (void)snprintf(program, sizeof(program), "%s", rec->own.program);
    const struct store_attempt *stored = store_mem_attempt(w.db, first, 1);
    is_str(stored ? stored->program : NULL, program,
           "the store has the program of an attempt");
    cancel(first);
    world_stop(&w);
    ok(world_start(&w), "the daemon starts again");
    rec = eng_find(w.engine, first);
    is_str(rec ? rec->own.program : NULL, program, "  and knows the program");
    row.mean_s = 0.4;
    ok(engine_teach(w.engine, program, "fake", false, &row, &err) == 0,
       "  it is told what the store has");
    is_int(gpus_of(submit(LR("7"), "1..4", NULL)), 4,
           "a member of which nobody has heard has all");
    world_clear(&w);
}

/* ---- lengths --------------------------------------------------------------
 */
#define LOW "},\"policy\":{\"priority\":-10}"

/* A job of 1,000 s and one of unknown length wait for the only GPU. Others
 * wait, too, behind both. Returns which of the two goes first: 1 or 2. in limit
 * of the one of unknown length; NULL: none */
static int who_is_first(int64_t others_s, const char *limit)
{
    const struct throughput_row row = {
        .nodes = 1, .per_node = 1, .n = 50, .mean_s = 1};
    uint64_t busy, known, unknown, other[3];
    int first = 0;

    begin(1, "a job of unknown length");
    busy = submit("\"a\"", "1", NULL);
    ok(engine_teach(w.engine, eng_find(w.engine, busy)->own.class, "fake",
                    false, &row, &err) == 0,
       "its class has run");
    for (int i = 0; i < 3; i++) {
        other[i] = submit("\"a\"", "1..2", LOW);
        engine_teach_length(w.engine, other[i], others_s);
    }
    unknown = submit("\"a\"", "1..2", limit);
    known = submit("\"a\"", "1..2", NULL);
    engine_teach_length(w.engine, known, 1000);
    ok(engine_cancel(w.engine, busy, 1000, &err) == 0, "its GPU is free");
    for (int i = 0; first == 0 && i < 60; i++) {
        world_play(&w, 1);
        first = gpus_of(known) > 0 ? 1 : gpus_of(unknown) > 0 ? 2 : 0;
    }
    world_clear(&w);
    return first;
}

static void test_lengths(void)
{
    is_int(who_is_first(10, NULL), 1, "  behind short ones it counts an hour");
    is_int(who_is_first(100000, NULL), 1, "  and so it does behind long ones");
    is_int(who_is_first(100000, ",\"time_limit\":\"500s\"}"), 2,
           "  its time limit is its length");
    is_int(who_is_first(10, ",\"time_limit\":\"2000s\"}"), 1,
           "  also a longer one");
}

int main(void)
{
    test_sweep();
    test_restart();
    test_lengths();
    return tap_done();
}
