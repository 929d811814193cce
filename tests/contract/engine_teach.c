/* engine_teach.c - what the engine makes of the speeds that it is told: a class
 * learns from its attempts without their first iterations, a job may have
 * speeds of its own, and goodput then plans with them.
 */
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_cluster.h"

static struct error err;

static int64_t measured(uint64_t id, int32_t gpus)
{
    const struct throughput *m =
        engine_throughput(w.engine, engine_job(w.engine, id));
    const struct throughput_row *row = m ? throughput_row(m, 1, gpus) : NULL;

    return row ? row->n : 0;
}

static void test_iterations(void)
{
    static struct world_script s;

    s = one((struct world_attempt){.run_s = 20000});
    world_init(&w, &s);
    ok(world_start(&w), "---- iterations of an attempt");
    play(1);
    const struct job *job = engine_job(w.engine, 1);
    ok(job_state_is_live(job->state), "it runs on %d", (int)job->gpus);
    ok(!engine_throughput(w.engine, job), "its class is not known");
    is_int(engine_teach_iterations(w.engine, 1, 1, 0, 2, 9, &err), 0,
           "two iterations");
    is_int(measured(1, job->gpus), 0, "  are warm-up");
    is_int(engine_teach_iterations(w.engine, 1, 1, 2, 5, 0.5, &err), 0,
           "five more");
    is_int(measured(1, job->gpus), 4, "  of which one is");
    is_int(engine_teach_iterations(w.engine, 1, 7, 9, 5, 0.5, &err), 0,
           "of another attempt");
    is_int(engine_teach_iterations(w.engine, 99, 1, 9, 5, 0.5, &err), 0,
           "of no job");
    is_int(measured(1, job->gpus), 4, "  nothing is learnt");
    world_clear(&w);
}

static void test_rows(void)
{
    struct throughput_row row = {
        .nodes = 1, .per_node = 2, .n = 50, .mean_s = 0.25};
    static struct world_script s;

    s = one((struct world_attempt){.run_s = 20000});
    world_init(&w, &s);
    ok(world_start(&w), "---- rows at the start");
    is_int(engine_teach(w.engine, "cv/x", "fake", false, &row, &err), 0,
           "a row");
    row.mean_s = 0;
    is_int(engine_teach(w.engine, "cv/x", "fake", false, &row, &err), -1,
           "no time: refused");
    is_int((long long)err.code, ERR_INVAL, "  as invalid");
    row.mean_s = 1;
    is_int(engine_teach(w.engine, "job/1", "fake", false, &row, &err), -1,
           "a class that is named like a job: refused");
    for (int32_t g = 1; g <= THROUGHPUT_SIZES; g++) {
        row.per_node = g;
        if (engine_teach(w.engine, "cv/y", "fake", false, &row, &err) < 0)
            ok(false, "size %d: %s", (int)g, err.msg);
    }
    row.per_node++;
    is_int(engine_teach(w.engine, "cv/y", "fake", false, &row, &err), -1,
           "a size too many");
    is_int((long long)err.code, ERR_LIMIT, "  is a limit");
    world_clear(&w);
}

/* Recorded by a daemon that did not note the type of GPU yet. */
static void test_untyped(void)
{
    struct throughput_row row = {.nodes = 1, .n = 50, .mean_s = 0.25};
    static struct world_script s;
    char class[200] = "";

    s = one((struct world_attempt){.run_s = 20000});
    world_init(&w, &s);
    ok(world_start(&w), "---- sizes without a type of GPU");
    play(1);
    const struct store_attempt *stored = store_mem_attempt(w.db, 1, 1);
    if (stored && stored->class)
        (void)snprintf(class, sizeof(class), "%s", stored->class);
    ok(class[0], "its class is known");
    const struct job *job = engine_job(w.engine, 1);
    row.per_node = job->gpus;
    is_int(engine_teach(w.engine, class, "", false, &row, &err), 0, "its size");
    is_int(measured(1, job->gpus), 50, "  counts for its type");
    is_int(engine_teach_iterations(w.engine, 1, 1, 0, 7, 0.5, &err), 0,
           "seven iterations");
    is_int(measured(1, job->gpus), 54, "  are added to it");
    row.mean_s = 9;
    is_int(engine_teach(w.engine, class, "", false, &row, &err), 0,
           "the same without a type");
    is_int(measured(1, job->gpus), 54, "  replaces none of a type");
    row.per_node = job->gpus + 1;
    is_int(engine_teach(w.engine, class, "", false, &row, &err), 0,
           "another size");
    is_int(measured(1, job->gpus + 1), 50, "  is added to the type");
    is_int(measured(1, job->gpus), 54, "  beside what was measured");
    world_clear(&w);
}

static void test_fit(void)
{
    static struct world_script s;

    s = one((struct world_attempt){.run_s = 20000});
    world_init(&w, &s);
    ok(world_start(&w), "---- a curve through what was told");
    play(1);
    is_int(engine_teach_iterations(w.engine, 1, 1, 0, 60, 1, &err), 0,
           "its class has run");
    const char *class = eng_find(w.engine, 1)->own.class;
    for (int32_t g = 1; g <= 4; g *= 2) {
        const struct throughput_row row = {
            .nodes = 1, .per_node = g, .n = 50, .mean_s = 0.1 + 1.0 / g};
        is_int(engine_teach(w.engine, class, "fake", false, &row, &err), 0,
               "a size is told");
    }
    const struct throughput *m =
        engine_throughput(w.engine, engine_job(w.engine, 1));
    ok(m && m->is_fitted, "who asks for the speed gets the curve");
    ok(m && throughput_rate(m, 1, 3).basis == RATE_FITTED,
       "  also of a size that was not told");
    world_clear(&w);
}

static void test_own(void)
{
    struct throughput_row rows[2] = {
        {.nodes = 1, .per_node = 1, .n = 9, .mean_s = 1},
        {.nodes = 1, .per_node = 2, .n = 9, .mean_s = 0.6}};
    static struct world_script s;

    s = one((struct world_attempt){.run_s = 20000});
    world_init(&w, &s);
    ok(world_start(&w), "---- a job with speeds of its own");
    play(1);
    is_int(engine_teach_job(w.engine, 1, rows, 2, &err), 0, "it tells two");
    ok(!engine_throughput(w.engine, engine_job(w.engine, 1)),
       "  its class learns nothing");
    rows[1].mean_s = -1;
    is_int(engine_teach_job(w.engine, 1, rows, 2, &err), -1,
           "a wrong one is refused");
    is_int(engine_teach_job(w.engine, 99, rows, 2, &err), 0, "of no job");
    world_clear(&w);
}

static void teach(uint64_t id, double t_iter_s)
{
    int rc = engine_teach_iterations(w.engine, id, 1, 0, 60, t_iter_s, &err);

    ok(rc == 0, "job %d takes %g s an iteration", (int)id, t_iter_s);
}

static void has_type(uint64_t id, const char *type, const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    const char *of = engine_where(w.engine, job).gpu_type;

    ok(job_state_is_live(job->state), "%s", what);
    is_str(of ? of : "none", type, "  of this type");
}

/* A machine with four GPUs of each of two types. */
static void test_types(void)
{
#define OF(type) ",\"gpu_type\":\"" type "\"},\"retry\":{\"max\":0}}"
    static const int32_t gpus[] = {1, 1, 2, 1, 1}, most[] = {0, 0, 3, 0, 2};
    static const char *const more[] = {OF("fake0"), OF("fake1"), NULL,
                                       OF("fake1"), NULL};
    struct world_script s = several(5);

    s.nodes = s.parts = 2;
    s.shared = 8;
    s.policy = &policy_goodput;
    for (int i = 0; i < 5; i++) {
        s.jobs[i].gpus = gpus[i];
        s.jobs[i].gpus_max = most[i];
        s.jobs[i].spec_more = more[i];
        s.jobs[i].attempts[0].run_s = 2000;
        s.acts[i].at_s = i < 2 ? 0 : 10 * i;
    }
    begin(&s, "the type on which a GPU is worth most");
    play(10);
    teach(1, 1);
    teach(2, 0.25);
    play(25);
    has_type(3, "fake1", "a job with a range has the faster GPUs");
    play(45);
    has_type(4, "fake1", "one that names the type has the last of them");
    has_type(5, "fake0", "and a job with a range others");
    world_clear(&w);
}

int main(void)
{
    test_iterations();
    test_rows();
    test_untyped();
    test_fit();
    test_own();
    test_types();
    return tap_done();
}
