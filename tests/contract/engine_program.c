/* engine_program.c - what a job learns from earlier ones that are not of its
 * class: its speed from commands of the same program, and its length, which
 * must not depend on who is queued.
 */
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/run.h"
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static int n_keys;

static void begin(int32_t gpus, const char *what)
{
    static struct world_script s;

    n_keys = 0;

    s = (struct world_script){
        .nodes = 1, .gpus_per_node = gpus, .policy = &policy_goodput};
    world_init(&w, &s);
    ok(world_start(&w), "---- %s", what);
}

/* in  more  of the resources, and after them */
static uint64_t submit_as(const char *user, const char *argv, const char *gpus,
                          const char *more)
{
    char spec[400], key[16];
    uint64_t id = 0;

    (void)snprintf(key, sizeof(key), "p%d", n_keys++);
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

/* As at a start, where the store tells classes first. */
static void test_full(void)
{
    struct throughput_row row = {
        .nodes = 1, .per_node = 4, .n = 50, .mean_s = 1};
    char class[32];
    int n = 0;

    begin(4, "more classes than there is room for");
    uint64_t first = submit(LR("0.1"), "1..4", NULL);
    for (int i = 0; i <= MODELS_MAX; i++) {
        (void)snprintf(class, sizeof(class), "command/c-%d", i);
        n += engine_teach(w.engine, class, "fake", false, &row, &err) == 0;
    }
    ok(n > MODELS_MAX / 2 && n < MODELS_MAX, "%d of them are taught", n);
    row.mean_s = 0.4;
    ok(engine_teach(w.engine, eng_find(w.engine, first)->own.program, "fake",
                    false, &row, &err) == 0,
       "  and a program");
    cancel(first);
    is_int(gpus_of(submit(LR("7"), "1..4", NULL)), 4,
           "  from which a class without room learns");
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

/* ---- each rule, in numbers --------------------------------------------------
 */
static struct alloc_partition partition;
static struct alloc_ops spied;

static size_t the_partition(struct alloc *a, const struct alloc_partition **ret)
{
    (void)a;
    *ret = &partition;
    return 1;
}

static struct alloc *with_partition(struct alloc *a)
{
    spied = *a->ops;
    spied.partitions = the_partition;
    a->ops = &spied;
    return a;
}

/* A cluster of 8 GPUs where jobs run for ever, but for the first one, which
 * takes 100 s, and has a default limit. */
static void begin_rules(int32_t default_minutes, const char *what)
{
    static struct world_script s;

    n_keys = 0;
    s = (struct world_script){.nodes = 1,
                              .gpus_per_node = 8,
                              .policy = &policy_goodput,
                              .jobs = {{.attempts = {{.run_s = 100}}}}};
    for (int i = 0; i < WORLD_JOBS; i++)
        for (int k = i == 0; k < WORLD_ATTEMPTS; k++)
            s.jobs[i].attempts[k].run_s = INFINITY;
    partition = (struct alloc_partition){.name = "batch",
                                         .is_default = true,
                                         .default_minutes = default_minutes};
    world_init(&w, &s);
    w.wrap = with_partition;
    ok(world_start(&w), "---- %s", what);
}

/* in  speed  of the size that it has */
static double guess_s(uint64_t id, double speed)
{
    const struct job_record *rec = eng_find(w.engine, id);
    struct eng_model *m = NULL;

    if (!rec ||
        eng_models_get(&w.engine->models, rec->own.class,
                       eng_model_type(w.engine, rec), false, &m, &err) < 0)
        return NAN;
    return eng_length_guess_s(w.engine, rec, m, speed);
}

/* The world has steps of a second. */
static void is_about(double got, double want, double by, const char *what)
{
    ok(fabs(got - want) <= by, "%s", what);
    if (!(fabs(got - want) <= by))
        tap_diag("got %.2f, want %.2f", got, want);
}

#define A100 "\"a\""

static void test_limit(void)
{
    begin_rules(0, "a time limit");
    (void)submit(A100, "1", NULL);
    uint64_t id = submit("\"b\"", "6", ",\"time_limit\":\"1000s\"}");
    is_about(guess_s(id, 4), 4000, 10, "is of its size");
    world_play(&w, 500);
    is_about(guess_s(id, 4), 2000, 10, "  after half of it half is left");
    world_play(&w, 400);
    is_about(guess_s(id, 4), 400, 10, "  and after nine tenths a tenth");
    world_clear(&w);
}

static void test_median(void)
{
    begin_rules(0, "the median");
    uint64_t first = submit(A100, "2", NULL);
    uint64_t id = submit("\"b\"", "1", NULL);
    is_about(guess_s(id, NAN), 3600, 3, "an hour, before a job has completed");
    world_play(&w, 110);
    is_int(engine_job(w.engine, first)->state, JOB_COMPLETED, "one has");
    uint64_t next = submit("\"c\"", "4", NULL);
    is_about(guess_s(next, NAN), 200, 17, "  its GPU time is the length");
    double all_s = guess_s(next, NAN);
    world_play(&w, 25);
    is_about(guess_s(next, NAN), all_s - 100, 5, "  less what one has had");
    is_int(engine_requeue(w.engine, next, 1000, &err), 0, "it is requeued");
    world_play(&w, 20);
    is_int(engine_job(w.engine, next)->attempt, 2, "  and goes on");
    double left_s = guess_s(next, NAN);
    ok(left_s > 1 && left_s < all_s - 100 + 5, "  from where it was: %.1f",
       left_s);
    world_stop(&w);
    ok(world_start(&w), "the daemon starts again");
    is_about(guess_s(next, NAN), left_s, 5, "  and knows as much");
    world_clear(&w);
}

static void note(double gpu_s, int n)
{
    const struct job job = {.state = JOB_COMPLETED, .used_gpu_s = gpu_s};

    for (int i = 0; i < n; i++)
        eng_length_note(w.engine, &job);
}

static void test_forgetting(void)
{
    begin_rules(0, "old lengths");
    note(100, 100000);
    note(10000, 5000);
    is_about(w.engine->lengths.median_s, 10000, 833,
             "count no longer after some thousands of others");
    note(100, 1000);
    is_about(w.engine->lengths.median_s, 10000, 833,
             "  and a thousand change nothing");
    world_clear(&w);
}

static void test_anew(void)
{
    begin_rules(0, "a job that does not save its work");
    uint64_t id = 0;
    const struct engine_submit req = {
        .uid = 1000,
        .user = "anna",
        .key = "p1",
        .spec = "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"b\"],"
                "\"resources\":{\"gpus\":1}}"};
    is_int(engine_submit(w.engine, &req, &id, NULL, &err), 0, "it runs");
    world_play(&w, 500);
    is_about(guess_s(id, 1), 3100, 10, "  for a while");
    is_int(engine_requeue(w.engine, id, 1000, &err), 0, "it is requeued");
    world_play(&w, 20);
    is_int(engine_job(w.engine, id)->attempt, 2, "  and begins anew");
    ok(guess_s(id, 1) > 3500, "  with all of its length");
    world_clear(&w);
}

static void test_program_mean(void)
{
    const struct throughput_row row = {
        .nodes = 1, .per_node = 1, .n = 50, .mean_s = 90};

    begin_rules(0, "the program");
    uint64_t first = submit(LR("0.1"), "1", NULL);
    ok(engine_teach(w.engine, eng_find(w.engine, first)->own.program, "fake",
                    false, &row, &err) == 0,
       "it takes 90 s for an iteration");
    world_play(&w, 110);
    is_int(engine_job(w.engine, first)->state, JOB_COMPLETED,
           "  and has done 7");
    uint64_t id = submit(LR("0.2"), "1", NULL);
    /* A view has no speeds if all jobs are of one size. */
    (void)submit("\"b\"", "1..2", NULL);
    is_about(guess_s(id, 1), 630, 5, "which is the length of another member");
    world_play(&w, 100);
    is_about(guess_s(id, 1), 530, 5, "  less what it has had");
    world_clear(&w);
}

static void test_default_limit(void)
{
    begin_rules(100, "the limit of a partition");
    (void)submit(A100, "2", NULL);
    world_play(&w, 110);
    uint64_t id = submit("\"b\"", "1", NULL);
    ok(engine_job(w.engine, id)->limit_is_default, "is that of a job without");
    is_about(guess_s(id, 1), 200, 17, "  and not its length");
    world_clear(&w);
    begin_rules(1, "a short one");
    id = submit("\"b\"", "1", NULL);
    is_about(guess_s(id, 1), 60, 3, "bounds it");
    const struct engine_run run = {.uid = 1000,
                                   .user = "anna",
                                   .key = "run",
                                   .name = "r",
                                   .spec = "{\"kind\":\"run\"}",
                                   .holder = "h 1"};
    bool again = false;
    is_int(engine_run_open(w.engine, &run, &id, &again, &err), 0, "a run");
    ok(isinf(engine_job(w.engine, id)->limit_s) &&
           !engine_job(w.engine, id)->limit_is_default,
       "  has none of a partition");
    world_clear(&w);
}

int main(void)
{
    test_sweep();
    test_restart();
    test_full();
    test_lengths();
    test_limit();
    test_median();
    test_forgetting();
    test_anew();
    test_program_mean();
    test_default_limit();
    return tap_done();
}
