/* engine_limit_left.c - a resized attempt has what was left of the time limit
 * of the attempt that it continues; every other attempt has the whole limit. A
 * limit that the partition has for jobs without one is not asked for.
 */
#include "scheduler/engine/update.h"
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

/* ---- what the allocator is asked for, and what the policy sees -------------
 */
static const struct alloc_ops *real;
static struct alloc_ops spied;
static double asked_s[WORLD_ATTEMPTS + 1]; /* limit of each attempt of a job */
static double queued_s, live_s;            /* of the only job in the view */

static int spy_request(struct alloc *a, const struct alloc_req *req,
                       struct error *e)
{
    if (req->attempt <= WORLD_ATTEMPTS)
        asked_s[req->attempt] = req->limit_s;
    return real->request(a, req, e);
}

static const struct alloc_partition *partition; /* the only one; NULL: none */

static size_t spy_partitions(struct alloc *a,
                             const struct alloc_partition **ret)
{
    (void)a;
    *ret = partition;
    return partition ? 1 : 0;
}

static int n_told; /* changes of a limit that the allocator was told */

static int spy_limit(struct alloc *a, uint64_t job, int32_t attempt,
                     double limit_s, struct error *e)
{
    (void)a, (void)job, (void)attempt, (void)limit_s, (void)e;
    n_told++;
    return 0;
}

static struct alloc *spy(struct alloc *a)
{
    real = a->ops;
    spied = *real;
    spied.partitions = spy_partitions;
    spied.limit = spy_limit;
    spied.request = spy_request;
    a->ops = &spied;
    return a;
}

static int plan_looking(const struct policy_view *v,
                        struct policy_decision *decisions, size_t cap,
                        size_t *ret_n, struct error *e)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        *(v->jobs[i].state == JOB_QUEUED ? &queued_s : &live_s) =
            v->jobs[i].limit_s;
    return policy_backfill.plan(v, decisions, cap, ret_n, e);
}

static const struct policy looking = {
    .name = "looking", .summary = "for tests", .plan = plan_looking};

static void begin(const struct world_script *s)
{
    world_init(&w, s);
    w.wrap = spy;
    memset(asked_s, 0, sizeof(asked_s));
    queued_s = live_s = 0;
    if (!world_start(&w))
        abort();
}

/* The resize is asked at `at_s`, of a job that started at about 0. */
static bool is_left(double got_s, double at_s, double limit_s)
{
    return got_s > limit_s - at_s - 3 && got_s <= limit_s - at_s + 3;
}

/* ---- cases -----------------------------------------------------------------
 */
static void test_left(bool dies)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &looking,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = ",\"time_limit\":\"100s\"},"
                               "\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = INFINITY},
                               {.run_s = INFINITY},
                               {.run_s = INFINITY}}}},
        .acts = {{.job = 0},
                 {.at_s = 40, .job = 0, .verb = W_RESIZE, .gpus = 2},
                 {.at_s = 70, .job = 0, .verb = W_RESIZE, .gpus = 1}},
        .n_acts = 3,
    };
    begin(&s);
    play(30);
    ok(asked_s[1] > 99.9 && asked_s[1] < 100.1,
       "---- %s: the first attempt has the whole limit",
       dies ? "over restarts" : "a resize");
    if (dies)
        world_die(&w);
    play(50);
    is_int(job_of(0)->gpus, 2, "it is resized");
    ok(is_left(asked_s[2], 40, 100), "  it asks for what was left: %.1f s",
       asked_s[2]);
    ok(is_left(queued_s, 40, 100), "  the policy sees that: %.1f s", queued_s);
    if (dies)
        world_die(&w);
    play(65);
    ok(is_left(job_of(0)->attempt_limit_s, 40, 100), "  its limit is %.1f s",
       job_of(0)->attempt_limit_s);
    ok(job_of(0)->limit_s > 99.9, "  of the job's 100 s");
    play(80);
    ok(is_left(asked_s[3], 70, 100), "once more: %.1f s are left", asked_s[3]);
    ok(is_left(live_s, 70, 100) || is_left(live_s, 40, 100),
       "  the policy sees the limit of the live one, too: %.1f s", live_s);
    play(96);
    is_int(job_of(0)->limit_hit, false, "the limit has not come");
    play(125);
    is_int(job_of(0)->state, JOB_TIMEOUT, "  it comes when all is used");
    ok(strstr(job_of(0)->reason, "s reached"), "  %s", job_of(0)->reason);
    play_out("k0:TIMEOUT/124/3[111]");
}

/* Four attempts: the first, a resize, a retry, and what a person requeued. */
static struct world_script four_attempts(const char *spec_more)
{
    return (struct world_script){
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &looking,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = spec_more,
                  .attempts = {{.run_s = INFINITY},
                               {.run_s = 5, .exit_code = 3},
                               {.run_s = INFINITY},
                               {.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 40, .job = 0, .verb = W_RESIZE, .gpus = 2},
                 {.at_s = 70, .job = 0, .verb = W_REQUEUE}},
        .n_acts = 3,
    };
}
#define THREE_RETRIES \
    "},\"retry\":{\"max\":3,\"on\":[\"exit\"],\"backoff\":\"0s\"}}"

static void test_whole(void)
{
    const struct world_script s =
        four_attempts(",\"time_limit\":\"100s\"" THREE_RETRIES);
    begin(&s);
    play_out("k0:COMPLETED/0/4[1111]");
    ok(is_left(asked_s[2], 40, 100), "---- a resize leaves %.1f s", asked_s[2]);
    ok(asked_s[3] > 99.9, "  a retry has all: %.1f s", asked_s[3]);
    ok(asked_s[4] > 99.9, "  one that a person requeued, too: %.1f s",
       asked_s[4]);
}

/* An attempt that nobody claimed has used nothing. */
static void test_unclaimed(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = ",\"time_limit\":\"100s\"},\"retry\":{"
                               "\"max\":1,\"backoff\":\"0s\"}}",
                  .attempts = {{.run_s = INFINITY},
                               {.run_s = 20, .lose = 1, .no_claim = 1},
                               {.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 40, .job = 0, .verb = W_RESIZE, .gpus = 2}},
        .n_acts = 2,
    };
    begin(&s);
    play_out("k0:COMPLETED/0/3[111]");
    ok(asked_s[2] > 1 && asked_s[3] >= asked_s[2] && asked_s[3] <= asked_s[2],
       "---- nobody claimed it: the next one has the same %.1f s", asked_s[3]);
}

static void test_little(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = ",\"time_limit\":\"40s\"},"
                               "\"checkpoint\":{\"grace\":\"60s\"},"
                               "\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = INFINITY}, {.run_s = INFINITY}}}},
        .acts = {{.job = 0},
                 {.at_s = 39, .job = 0, .verb = W_RESIZE, .gpus = 2}},
        .n_acts = 2,
    };
    begin(&s);
    play(45);
    ok(asked_s[2] >= 1 && asked_s[2] < 3,
       "---- nothing left: a limit all the same, of %.1f s", asked_s[2]);
    play_out("k0:TIMEOUT/124/2[11]");
}

static void test_none(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 1, .gpus_max = 2, .attempts = {{.run_s = 30}}}},
        .acts = {{.job = 0},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 2}},
        .n_acts = 2,
    };
    begin(&s);
    play(20);
    ok(asked_s[2] <= 0, "---- no limit: none after a resize");
    ok(isinf(job_of(0)->attempt_limit_s), "  nor is one known");
    play_out("k0:COMPLETED/0/2[11]");
}

/* The daemon tells it to stop and dies; the attempt ends long before the next
 * daemon comes. */
static void test_away(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = ",\"time_limit\":\"100s\"},"
                               "\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = INFINITY, .silent = 1},
                               {.run_s = 20}}}},
        .acts = {{.job = 0}},
        .n_acts = 1,
    };
    const struct engine_size two = {.gpus = 2};
    begin(&s);
    play(40);
    is_int(engine_resize(w.engine, w.ids[0], 1000, "anna", &two, &err), 0,
           "---- a daemon that goes right after the word to stop");
    (void)world_step(&w);
    world_stop(&w);
    w.clock.t_s += 3600;
    if (!world_start(&w))
        abort();
    play_out("k0:COMPLETED/0/2[11]");
    ok(is_left(asked_s[2], 41, 100), "  an hour without a daemon: %.1f s left",
       asked_s[2]);
}

/* The cluster's scheduler gives the limit, and may know a shorter one. */
static void test_default(bool dies)
{
    static const struct alloc_partition batch = {
        .name = "batch", .is_default = true, .default_minutes = 2};
    const struct engine_update first = {.has_priority = true, .priority = 1};
    const struct engine_update named = {.has_limit = true, .limit_s = 90};
    const struct world_script s = four_attempts(THREE_RETRIES);
    partition = &batch;
    begin(&s);
    n_told = 0;
    play(20);
    ok(asked_s[1] <= 0, "---- %s: a default is not asked for",
       dies ? "over restarts" : "a partition's limit");
    is_int((long long)job_of(0)->limit_s, 120, "  the job has it");
    is_int((long long)queued_s, 120, "  the policy sees it");
    is_int(engine_update(w.engine, w.ids[0], 0, &first, &err), 0,
           "  another priority");
    if (dies)
        world_die(&w);
    play(50);
    is_int(n_told, 0, "  is no change of a limit");
    ok(is_left(asked_s[2], 40, 120), "  a resize asks for what is left: %.1f s",
       asked_s[2]);
    play(60);
    ok(asked_s[3] <= 0, "  a retry for nothing");
    is_int((long long)job_of(0)->attempt_limit_s, 120, "  it has the default");
    if (dies)
        world_die(&w);
    play(65);
    is_int(engine_update(w.engine, w.ids[0], 1000, &named, &err), 0,
           "  a person names a limit");
    play(68);
    is_int(n_told, 1, "  it is told");
    play_out("k0:COMPLETED/0/4[1111]");
    ok(asked_s[4] > 89.9 && asked_s[4] < 90.1, "  and asked for later");
    partition = NULL;
}

int main(void)
{
    test_left(false);
    test_left(true);
    test_whole();
    test_unclaimed();
    test_little();
    test_none();
    test_away();
    test_default(false);
    test_default(true);
    return tap_done();
}
