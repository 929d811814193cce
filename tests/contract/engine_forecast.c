/* engine_forecast.c - when a job may start that has others before it: what is
 * said comes true when all run as long as they may. */
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static const struct world_script backfill = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};
static const struct world_script fifo = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_fifo,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};

static const struct world_script brief = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 4, .attempts = {{.run_s = 60}}}},
};

static void begin(const struct world_script *s, const char *what)
{
    world_init(&w, s);
    ok(world_start(&w), "---- %s", what);
}

/* From now on; NAN: not known. And nothing of the job changes. */
static double forecast(uint64_t id)
{
    const struct job *job = engine_job(w.engine, id);
    char reason[JOB_REASON_CAP];
    double at_s = NAN, start_s = job->start_estimate_s;
    struct engine_start all[ENGINE_FORECASTS];
    size_t n = 0;

    (void)snprintf(reason, sizeof(reason), "%s", job->reason);
    is_int(engine_forecast(w.engine, all, &n, &err), 0, "asked");
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && all[i].id <= all[i - 1].id)
            ok(false, "in order");
        at_s = all[i].id == id ? all[i].start_s : at_s;
    }
    is_str(job->reason, reason, "  its reason stays");
    ok((isnan(start_s) && isnan(job->start_estimate_s)) ||
           fabs(start_s - job->start_estimate_s) < 1e-9,
       "  and its estimate");
    return at_s - w.clock.t_s;
}

static bool has_begun(uint64_t id)
{
    return engine_job(w.engine, id)->state != JOB_QUEUED;
}

/* Plays until it starts. */
static double starts_in(uint64_t id)
{
    double from_s = w.clock.t_s;
    for (int i = 0; i < 5000 && !has_begun(id); i++) {
        world_advance(&w);
        (void)world_step(&w);
    }
    return has_begun(id) ? w.clock.t_s - from_s : (double)NAN;
}

static void test_line(const struct world_script *s, const char *what)
{
    begin(s, what);
    (void)world_command(&w, 4, 1000);
    uint64_t a = world_command(&w, 3, 500), b = world_command(&w, 2, 300),
             c = world_command(&w, 4, 100), d = world_command(&w, 2, 0);
    ok(!has_begun(a) && !has_begun(d), "four wait");
    double of_a = forecast(a), of_b = forecast(b), of_c = forecast(c),
           of_d = forecast(d);
    ok(fabs(of_a - 1000) < 10, "the first until the end of who runs: %g", of_a);
    ok(fabs(of_b - 1500) < 10, "the second does not fit beside it: %g", of_b);
    ok(of_c > of_b && isfinite(of_c), "the third comes after: %g", of_c);
    ok(isfinite(of_d), "the last, some time: %g", of_d);
    ok(fabs(starts_in(a) - of_a) < 30, "that is when the first starts");
    double left_s = forecast(c), began_s = starts_in(c);
    ok(fabs(began_s - left_s) < 60, "and the third: %g, %g", began_s, left_s);
    world_clear(&w);
}

static void test_hole(void)
{
    begin(&backfill, "a hole");
    (void)world_command(&w, 3, 1000);
    uint64_t head = world_command(&w, 4, 500),
             late = world_command(&w, 1, 2000);
    ok(!has_begun(head) && !has_begun(late), "it would delay the first");
    double in_s = forecast(late);
    ok(fabs(in_s - 1500) < 10, "so it comes after that: %g", in_s);
    world_clear(&w);
}

static void test_unknown(void)
{
    begin(&backfill, "what nobody knows");
    uint64_t hog = world_command(&w, 4, 0), next = world_command(&w, 1, 60);
    ok(isnan(forecast(next)), "when a job without a limit ends");
    ok(isnan(forecast(hog)), "of one that runs nothing is said");
    world_clear(&w);

    begin(&backfill, "what is not asked");
    (void)world_command(&w, 4, 100);
    uint64_t id = 0;
    for (int i = 0; i < 64; i++)
        id = world_command(&w, 4, 100);
    ok(fabs(forecast(id) - 6400) < 20, "the 64th of those that wait");
    id = world_command(&w, 4, 100);
    ok(isnan(forecast(id)), "  no more than these");
    w.conf.limits.gpus_per_user = 4;
    ok(isnan(forecast(id - 1)), "nor what limits of users do to it");
    world_clear(&w);
}

/* From now on; NAN: as by limits. */
static double expected(uint64_t id)
{
    struct engine_start all[ENGINE_FORECASTS];
    size_t n = 0;
    double at_s = NAN;
    is_int(engine_forecast(w.engine, all, &n, &err), 0, "asked");
    for (size_t i = 0; i < n; i++)
        at_s = all[i].id == id ? all[i].expected_s : at_s;
    return at_s - w.clock.t_s;
}

/* All are of one name, and run for 60 s of 1000. */
static void test_expected(void)
{
    begin(&brief, "what is known of a name");
    uint64_t first = world_command(&w, 4, 1000);
    uint64_t next = world_command(&w, 4, 1000);
    ok(!has_begun(next) && isnan(expected(next)), "nothing, at first");
    double took_s = starts_in(next);
    ok(engine_job(w.engine, first)->state == JOB_COMPLETED && took_s < 70,
       "the first has run for a minute");
    uint64_t third = world_command(&w, 4, 1000),
             last = world_command(&w, 4, 1000);
    double of_third = expected(third), of_last = expected(last);
    ok(fabs(of_third - 60) < 10, "so does the second: %g", of_third);
    ok(fabs(of_last - 120) < 15, "and the third: %g", of_last);
    ok(fabs(forecast(last) - 2000) < 30, "by limits it is much later");
    w.clock.t_s += 30;
    world_die(&w);
    world_settle(&w);
    double again = expected(last);
    ok(fabs(again - of_last + 30) < 15, "another daemon knows, too: %g", again);
    double came_s = starts_in(last);
    ok(fabs(came_s - again) < 15, "that is when it starts: %g", came_s);
    ok(isnan(expected(last)), "of one that runs nothing is said");
    world_clear(&w);
}

/* A job with a range, which tells how fast it is, and how long. */
static uint64_t elastic(const char *gpus)
{
    static const struct throughput_row rows[2] = {
        {.nodes = 1, .per_node = 2, .n = 99, .mean_s = 1},
        {.nodes = 1, .per_node = 4, .n = 99, .mean_s = 0.6}};
    char spec[200];
    uint64_t id = 0;

    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"e\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"saves\":true,\"resources\":{\"gpus\":\"%s\"}}",
                   gpus);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = "e", .spec = spec};
    is_int(engine_submit(w.engine, &req, &id, NULL, &err), 0, "one with range");
    world_settle(&w);
    is_int(engine_teach_job(w.engine, id, rows, 2, &err), 0, "  tells speeds");
    engine_teach_length(w.engine, id, 500);
    return id;
}

/* Nobody has a limit: the speeds on the sizes of now tell the ends. */
static void test_sizes(void)
{
    static const struct world_script goodput = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_goodput,
        .jobs = {{.gpus = 4, .attempts = {{.run_s = 100000}}}},
    };

    begin(&goodput, "predicted ends");
    uint64_t first = elastic("2..4"), next = world_command(&w, 4, 0);
    is_int(engine_job(w.engine, first)->gpus, 2, "it runs on two of four");
    double in_s = expected(next);
    ok(in_s > 480 && in_s < 501, "what is left of 500 iterations of 1 s: %g",
       in_s);
    w.clock.t_s += 100;
    double later_s = expected(next);
    ok(fabs(later_s - in_s) < 1, "its beats count, not the clock: %g", later_s);
    world_clear(&w);
}

int main(void)
{
    test_line(&backfill, "a line");
    test_line(&fifo, "a line, strictly in order");
    test_hole();
    test_unknown();
    test_expected();
    test_sizes();
    return tap_done();
}
