/* engine_what_if.c - with what a job that waits would start at once: what is
 * said is submitted then, and does start. */
#include "scheduler/engine/what_if.h"
#include "tests/contract/engine_queue.h"

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};

static struct world w;
static struct error err;

static void begin(struct engine_limits limits, const char *what)
{
    world_init(&w, &script);
    w.conf.limits = limits;
    ok(world_start(&w), "---- %s", what);
}

static bool runs(uint64_t id)
{
    return job_state_is_live(engine_job(w.engine, id)->state);
}

/* What is said of the job, and that saying it changes nothing of it. */
static struct engine_what_if suppose(uint64_t id)
{
    const struct job *job = engine_job(w.engine, id);
    struct engine_what_if s;
    char reason[JOB_REASON_CAP];
    double start_s = job->start_estimate_s;

    (void)snprintf(reason, sizeof(reason), "%s", job->reason);
    is_int(engine_what_if(w.engine, job, &s, &err), 0, "asked");
    is_str(job->reason, reason, "  its reason stays");
    ok((isnan(start_s) && isnan(job->start_estimate_s)) ||
           fabs(start_s - job->start_estimate_s) < 1e-9,
       "  and its estimate");
    return s;
}

static void test_gpus(void)
{
    begin((struct engine_limits){0}, "fewer GPUs");
    uint64_t hog = world_command(&w, 2, 0), wide = world_command(&w, 4, 0);
    ok(runs(hog) && !runs(wide), "one waits for all four");
    struct engine_what_if s = suppose(wide);
    is_int(s.gpus.gpus, 2, "two are the most that would do");
    is_int(s.gpus.nodes, 1, "  on one node");
    is_int(s.limit.nodes, 0, "no shorter limit would");
    is_int(s.partition.nodes, 0, "  nor another partition");
    ok(isnan(s.expected_s), "nobody knows when the other ends");
    s = suppose(hog);
    is_int(s.gpus.nodes, 0, "of one that runs nothing is said");
    is_int(engine_cancel(w.engine, wide, 1, &err), 0, "cancelled");
    world_settle(&w);
    ok(!runs(wide) && runs(world_command(&w, 2, 0)), "and with two it starts");
    world_clear(&w);
}

static void test_limit(void)
{
    begin((struct engine_limits){0}, "a shorter limit");
    uint64_t hog = world_command(&w, 3, 1000), head = world_command(&w, 4, 500);
    uint64_t late = world_command(&w, 1, 0);
    ok(runs(hog) && !runs(head) && !runs(late), "it would delay the first");
    struct engine_what_if s = suppose(late);
    ok(s.limit.nodes == 1 && s.limit.gpus == 1, "in less time it would not");
    ok(s.limit.limit_s <= 1000 && s.limit.limit_s >= 900 &&
           fmod(s.limit.limit_s, 60) < 1e-9,
       "  whole minutes, as many as can be: %g s", s.limit.limit_s);
    is_int(s.gpus.nodes, 0, "there is no less than one GPU");
    uint64_t more = world_command(&w, 1, s.limit.limit_s + 120);
    ok(!runs(more), "two minutes more are too many");
    ok(runs(world_command(&w, 1, s.limit.limit_s)),
       "what was said starts at once");
    world_clear(&w);
}

static void test_behind(void)
{
    begin((struct engine_limits){0}, "behind the others");
    (void)world_command(&w, 3, 1000);
    uint64_t head = world_command(&w, 4, 500), next = world_command(&w, 1, 0);
    ok(!runs(head) && !runs(next), "one GPU, and two that wait");
    struct engine_what_if s = suppose(head);
    is_int(s.gpus.nodes, 0, "who left the queue's head had none of it");
    world_clear(&w);
}

static void test_limited(void)
{
    begin((struct engine_limits){.gpus_per_user = 3}, "as its user may");
    (void)world_command(&w, 1, 0);
    uint64_t much = world_command(&w, 3, 0);
    ok(strncmp(engine_job(w.engine, much)->reason, "LimitUserGpus", 13) == 0,
       "too much for its user");
    struct engine_what_if s = suppose(much);
    is_int(s.gpus.gpus, 2, "what is left of the limit would do");
    world_clear(&w);
}

static void test_expected(void)
{
    const struct engine_beat beat = {.iteration = 10,
                                     .iterations_total = 30,
                                     .loss = NAN,
                                     .t_iter = 2,
                                     .eval_loss = NAN,
                                     .eval_accuracy = NAN};
    begin((struct engine_limits){0}, "when it may start");
    uint64_t hog = world_command(&w, 4, 1000), wide = world_command(&w, 4, 0);
    struct engine_what_if s = suppose(wide);
    ok(isnan(s.expected_s), "no speed is known");
    is_int(engine_beat(w.engine, hog, 1, &beat, &err), 0, "it tells");
    s = suppose(wide);
    double in_s = s.expected_s - w.clock.t_s;
    ok(in_s > 35 && in_s < 45, "20 more of 2 s are 40 s: %g", in_s);
    ok(s.expected_s < engine_job(w.engine, wide)->start_estimate_s,
       "  sooner than by the limit");
    ok(isnan(s.within_s) && s.n_running == 1 && s.n_measured == 1,
       "  told once, by one of one");
    world_clear(&w);
}

/* Its iterations take 2 s, and with what else it does 10: the world's worker
 * has told of the 7th when it began. */
static void test_within(void)
{
    struct engine_beat beat = {.iteration = 10,
                               .iterations_total = 30,
                               .loss = NAN,
                               .t_iter = 2,
                               .eval_loss = NAN,
                               .eval_accuracy = NAN};
    begin((struct engine_limits){0}, "how far off that may be");
    uint64_t hog = world_command(&w, 3, 1000), mute = world_command(&w, 1, 200),
             wide = world_command(&w, 4, 0);
    is_int(engine_beat(w.engine, hog, 1, &beat, &err), 0, "it tells");
    ok(runs(mute), "beside one that does not");
    w.clock.t_s += 130;
    beat.iteration = 20;
    is_int(engine_beat(w.engine, hog, 1, &beat, &err), 0, "and tells again");
    struct engine_what_if s = suppose(wide);
    double in_s = s.expected_s - w.clock.t_s;
    ok(fabs(in_s - s.within_s - 70) < 6 && fabs(in_s + s.within_s - 100) < 6,
       "the end of the mute one's limit, or 10 more of 10 s: %g +- %g", in_s,
       s.within_s);
    ok(s.n_running == 2 && s.n_measured == 1, "one of two is measured");
    w.clock.t_s += 400;
    beat.iteration = 21;
    is_int(engine_beat(w.engine, hog, 1, &beat, &err), 0, "much slower");
    s = suppose(wide);
    double by_s = engine_job(w.engine, wide)->start_estimate_s;
    ok(s.expected_s + s.within_s <= by_s + 1e-6,
       "never later than by the limits: %g +- %g, %g", s.expected_s, s.within_s,
       by_s);
    world_clear(&w);
}

int main(void)
{
    test_gpus();
    test_limit();
    test_behind();
    test_limited();
    test_expected();
    test_within();
    return tap_done();
}
