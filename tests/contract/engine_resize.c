/* engine_resize.c - a job changes its number of GPUs: what it gets and when,
 * what is refused, what undoes it, what it costs; a policy that resizes; the
 * daemon dies at every moment of a resize, and the world ends the same.
 */
#include "scheduler/engine/teach.h"
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

static int resize(int i, int32_t gpus, int32_t nodes)
{
    const struct engine_size to = {.gpus = gpus, .nodes = nodes};
    return engine_resize(w.engine, w.ids[i], 1000, "anna", &to, &err);
}

static void begin(const struct world_script *s)
{
    world_init(&w, s);
    if (!world_start(&w))
        abort();
}

/* ---- one job ---------------------------------------------------------------
 */
static void test_grow(const struct policy *policy)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = policy,
        .grant_delay_s = 2,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 100}, {.run_s = 100}}}},
        .acts = {{.job = 0}},
        .n_acts = 1,
    };
    begin(&s);
    play(10);
    ok(job_of(0)->gpus == 1, "---- %s: it has the least of its range",
       policy->name);
    is_int(resize(0, 4, 0), 0, "four are asked for");
    is_str(job_of(0)->reason, "Resizing: from 1 to 4 GPUs, asked by anna",
           "  which is its reason");
    is_int(job_of(0)->state, JOB_CHECKPOINTING, "  it is told to stop");
    is_int(job_of(0)->resize.gpus, 4, "  and will have four");
    is_int(resize(0, 4, 0), 0, "once more changes nothing");
    uint64_t staged = engine_staged(w.engine);
    is_int(resize(0, 4, 0), 0, "  nor does that");
    is_int((long long)engine_staged(w.engine), (long long)staged,
           "  not even an event");
    world_die(&w); /* before any of it is stored */
    is_int(job_of(0)->resize.gpus, 0, "what was not stored is undone");
    is_int(job_of(0)->gpus, 1, "  the job is as it was");
    is_int(resize(0, 4, 0), 0, "it is asked again");
    (void)world_step(&w);
    world_die(&w);
    is_int(job_of(0)->resize.gpus, 4, "what was stored is known after a crash");
    play(30);
    is_int(job_of(0)->gpus, 4, "it runs on four");
    is_int(job_of(0)->attempt, 2, "  in its next attempt");
    is_int(job_of(0)->retries, 0, "  which cost no retry");
    is_int(job_of(0)->resize.gpus, 0, "  nothing is under way");
    is_int(resize(0, 4, 0), -1, "it has four");
    ok(err.code == ERR_STATE && strstr(err.msg, "has 4 GPUs already"), "  %s",
       err.msg);
    const struct job_resize *r = &job_of(0)->resize;
    ok(r->checkpoint_s >= 0 && r->checkpoint_s < 5 && r->allocator_s >= 1 &&
           r->start_s >= 0,
       "what it cost is known: %.1f, %.1f and %.1f s", r->checkpoint_s,
       r->allocator_s, r->start_s);
    play_out("k0:COMPLETED/0/2[11]");
}

static void test_waiting(void)
{
    const struct world_script s = {
        .nodes = 2,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 8,
                  .spec_more = ",\"nodes\":2},\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = 50}}},
                 {.gpus = 1,
                  .gpus_max = 8,
                  .spec_more = ",\"nodes\":\"1..2\"},\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = 30}}},
                 {.gpus = 1, .gpus_max = 4, .attempts = {{.run_s = 30}}}},
        .acts = {{.job = 0}, {.job = 1}, {.job = 2, .hold = true}},
        .n_acts = 3,
    };
    begin(&s);
    play(10);
    is_int(job_of(1)->state, JOB_QUEUED, "---- a pending job");
    is_int(resize(1, 6, 2), 0, "  is to have six on two nodes");
    is_int(resize(2, 3, 0), 0, "  a held one three");
    play(20);
    ok(strstr(job_of(1)->reason, "needs 6"), "it waits for them: %s",
       job_of(1)->reason);
    is_int(job_of(2)->state, JOB_HELD, "the held one stays held");
    is_int(job_of(2)->resize.gpus, 3, "  with its size");
    is_int(engine_hold(w.engine, w.ids[2], 1000, false, &err), 0,
           "  until it is released");
    play(55);
    is_int(job_of(1)->gpus, 6, "it starts on six");
    is_int(job_of(1)->nodes, 2, "  on two nodes");
    is_int(job_of(1)->attempt, 1, "  in its first attempt");
    play(83);
    is_int(job_of(2)->gpus, 3, "the other one on three");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

/* A job behind it, that came later, does not get its place: neither while it
 * leaves nor while it waits. */
static void test_order(const struct policy *policy)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = policy,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = "},\"checkpoint\":{\"grace\":\"20s\"}}",
                  .attempts = {{.run_s = 100}, {.run_s = 100}}},
                 {.gpus = 1, .attempts = {{.run_s = 40}}},
                 {.gpus = 1, .attempts = {{.run_s = 1000}}}},
        .acts = {{.job = 0},
                 {.job = 1},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 4},
                 {.at_s = 10, .job = 2}},
        .n_acts = 4,
    };
    begin(&s);
    play(30);
    ok(job_of(0)->state == JOB_QUEUED, "---- %s: it needs all four",
       policy->name);
    is_int(job_of(2)->state, JOB_QUEUED, "  a later one gets none of them");
    play(60);
    is_int(job_of(0)->gpus, 4, "it has them when they are free");
    is_int(job_of(2)->state, JOB_QUEUED, "  the later one waits");
    is_int(engine_cancel(w.engine, w.ids[2], 1000, &err), 0, "  no longer");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1] k2:CANCELLED/130/0[]");
}

static void test_place_beside(const struct policy *policy)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = policy,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 100}, {.run_s = 100}}},
                 {.gpus = 3, .attempts = {{.run_s = 20}}},
                 {.gpus = 2, .attempts = {{.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 2},
                 {.at_s = 10, .job = 1},
                 {.at_s = 10, .job = 2}},
        .n_acts = 4,
    };
    begin(&s);
    play(14);
    ok(job_of(0)->gpus == 2, "---- %s: beside other jobs", policy->name);
    is_int(job_of(1)->state, JOB_QUEUED, "  three do not fit beside it");
    is_int(engine_cancel(w.engine, w.ids[1], 1000, &err), 0, "  they go");
    play(20);
    ok(job_state_is_live(job_of(2)->state), "  two do");
    play_out("k0:COMPLETED/0/2[11] k1:CANCELLED/130/0[] k2:COMPLETED/0/1[1]");
}

/* ---- what is refused, what undoes it ---------------------------------------
 */
static void refused(int i, int32_t gpus, int32_t nodes, enum err_code code,
                    const char *why)
{
    ok(resize(i, gpus, nodes) == -1, "%d GPUs on %d nodes are refused",
       (int)gpus, (int)nodes);
    ok(err.code == code && strstr(err.msg, why), "  %s", err.msg);
}

static void test_refused(void)
{
    const struct world_script s = {
        .nodes = 2,
        .gpus_per_node = 4,
        .policy = &policy_fifo,
        .jobs = {{.gpus = 1,
                  .gpus_max = 16,
                  .spec_more = ",\"nodes\":\"1..3\"},\"retry\":{\"max\":0}}",
                  .attempts = {{.run_s = 50}}},
                 {.gpus = 2, .attempts = {{.run_s = 50}}},
                 {.gpus = 1, .gpus_max = 2, .attempts = {{.run_s = 20}}}},
        .acts = {{.job = 0}, {.job = 1}, {.job = 2}},
        .n_acts = 3,
    };
    struct engine_size two = {.gpus = 2};
    begin(&s);
    play(10);
    refused(0, 17, 0, ERR_INVAL, "it may have: 1..16");
    refused(0, 5, 2, ERR_INVAL, "equally among 2 nodes");
    refused(0, 8, 4, ERR_INVAL, "its nodes are 1..3");
    refused(0, 12, 0, ERR_INVAL, "the nodes that are up");
    refused(0, 1, 0, ERR_STATE, "has 1 GPU already");
    refused(1, 2, 0, ERR_STATE, "saves: true");
    is_int(engine_resize(w.engine, w.ids[0], 1001, "bob", &two, &err), -1,
           "another user may not");
    is_int(err.code, ERR_DENIED, "  as with all jobs of others");
    is_int(engine_resize(w.engine, w.ids[0], 0, "root", &two, &err), 0,
           "an administrator may");
    ok(strstr(job_of(0)->reason, "asked by root"), "  %s", job_of(0)->reason);
    is_int(resize(0, 0, 0), 0, "any size, in the middle");
    is_int(job_of(0)->resize.gpus, 0, "  undoes it");
    is_int(resize(2, 0, 0), 0, "any size of one that has no other");
    is_int(job_of(2)->state, JOB_RUNNING, "  changes nothing");
    is_int(engine_report(w.engine, w.ids[2], 1, 0, "", NULL, NULL, &err), 0,
           "one that has reported");
    refused(2, 2, 0, ERR_STATE, "has completed its work");
    play(15);
    is_int(job_of(0)->gpus, 1, "it has the least again");
    is_int(engine_cancel(w.engine, w.ids[0], 1000, &err), 0, "it ends");
    refused(0, 2, 0, ERR_STATE, "is being ended");
    play(40);
    refused(2, 2, 0, ERR_STATE, "has ended");
    play_out("k0:CANCELLED/130/2[11] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

/* More GPUs than a job has need GPU-hours, which its user has used up. */
static void test_spent(void)
{
    static const char why[] = "to 4 GPUs: LimitGpuHours: anna used 7 of 5";
    const struct engine_spent spent = {
        .name = "anna", .why = "LimitGpuHours: anna used 7 of 5"};
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .grant_delay_s = 3,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 60}, {.run_s = 60}, {.run_s = 60}}},
                 {.gpus = 1, .gpus_max = 4, .attempts = {{.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 3},
                 {.at_s = 11, .job = 1, .hold = true}},
        .n_acts = 3,
    };
    begin(&s);
    play(20);
    ok(job_of(0)->gpus == 3, "---- a job on three, and its user's hours end");
    if (engine_teach_spent(w.engine, &spent, 1, &err) < 0)
        abort();
    refused(0, 4, 0, ERR_STATE, why);
    is_int(job_of(0)->state, JOB_RUNNING, "  it goes on");
    is_int(resize(0, 2, 0), 0, "two are less than three");
    refused(0, 4, 0, ERR_STATE, why);
    for (int i = 0; i < 20 && job_of(0)->state != JOB_DISPATCHING; i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
    refused(0, 4, 0, ERR_STATE, "cannot grow from 2 to 4 GPUs");
    play(30);
    is_int(job_of(0)->gpus, 2, "  and it goes on with them");
    is_int(resize(1, 4, 0), 0, "a held one may ask for any number");
    if (engine_teach_spent(w.engine, NULL, 0, &err) < 0)
        abort();
    is_int(resize(0, 4, 0), 0, "as may both when there are hours again");
    is_int(engine_hold(w.engine, w.ids[1], 1000, false, &err), 0, "  released");
    play_out("k0:COMPLETED/0/4[1111] k1:COMPLETED/0/1[1]");
}

static void says(int i, int32_t gpus, const char *want)
{
    const struct engine_size to = {.gpus = gpus};
    char text[JOB_REASON_CAP];

    engine_resize_says(job_of(i), "bob", &to, text);
    is_str(text, want, "  and says what a resize would do");
}

/* What a second resize says while the first is under way. */
static void test_says(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .grant_delay_s = 20,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = "},\"checkpoint\":{\"grace\":\"20s\"}}",
                  .attempts = {{.run_s = 100}, {.run_s = 100}, {.run_s = 9}}},
                 {.gpus = 2, .attempts = {{.run_s = 60}}}},
        .acts = {{.job = 0, .hold = true}, {.at_s = 50, .job = 1}},
        .n_acts = 2,
    };

    begin(&s);
    play(5);
    ok(job_of(0)->state == JOB_HELD, "---- a held job");
    says(0, 0, "Resizing: no size was asked for");
    says(0, 2, "Resizing: to 2 GPUs, asked by bob");
    is_int(resize(0, 2, 0), 0, "is to have two");
    says(0, 2, "Resizing: to 2 GPUs is asked for already");
    says(0, 4, "Resizing: to 4 GPUs, asked by bob, in place of 2");
    is_int(resize(0, 1, 0), 0, "no, one");
    is_int(engine_hold(w.engine, w.ids[0], 1000, false, &err), 0, "released");
    play(10);
    ok(job_of(0)->state == JOB_DISPATCHING, "it is requested with one");
    says(0, 1, "Resizing: to 1 GPU is asked for already");
    says(0, 4, "Resizing: to 4 GPUs, asked by bob, in place of 1");
    play(40);
    ok(job_of(0)->state == JOB_RUNNING, "it runs");
    is_int(resize(0, 2, 0), 0, "and is to have two");
    is_int(job_of(0)->state, JOB_CHECKPOINTING, "  its checkpoint");
    says(0, 2, "Resizing: from 1 to 2 GPUs is under way already");
    says(0, 4, "Resizing: from 1 to 4 GPUs, asked by bob, in place of 2");
    const struct engine_report_extra stopped = {
        .cpu_ms = -1, .cores_ms = -1, .stopped = 1};
    is_int(engine_report(w.engine, w.ids[0], 1, 0, "", NULL, &stopped, &err), 0,
           "its worker reports that it was stopped");
    is_int(resize(0, 2, 0), 0, "  and a resize is no error");
    says(0, 1, "Resizing: on 1 GPU again, asked by bob, in place of 2");
    says(0, 0, "Resizing: any size of its range, asked by bob, in place of 2");
    play(55);
    ok(job_of(0)->state == JOB_DISPATCHING && job_of(0)->gpus == 2,
       "two are requested for it");
    says(0, 2, "Resizing: from 1 to 2 GPUs is under way already");
    says(0, 4, "Resizing: from 1 to 4 GPUs, asked by bob, in place of 2");
    is_int(resize(0, 4, 0), 0, "it is to have four");
    is_str(job_of(0)->reason,
           "Resizing: from 1 to 4 GPUs, asked by anna, in place of 2",
           "  which is its reason");
    play(100);
    ok(job_of(0)->state == JOB_QUEUED, "it waits for them");
    says(0, 4, "Resizing: from 1 to 4 GPUs is under way already");
    says(0, 3, "Resizing: from 1 to 3 GPUs, asked by bob, in place of 4");
    play_out("k0:COMPLETED/0/3[101] k1:COMPLETED/0/1[1]");
}

static void test_twice(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 60}, {.run_s = 60}, {.run_s = 60}}},
                 {.gpus = 1,
                  .gpus_max = 2,
                  .spec_more = ",\"time_limit\":\"30s\"},\"retry\":{\"max\":0},"
                               "\"checkpoint\":{\"grace\":\"60s\"}}",
                  .attempts = {{.run_s = INFINITY}, {.run_s = INFINITY}}}},
        .acts = {{.job = 0},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 4},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 2},
                 {.at_s = 20, .job = 0, .verb = W_RESIZE, .gpus = 3},
                 {.at_s = 30, .job = 0, .verb = W_RESIZE, .gpus = 1},
                 {.at_s = 30, .job = 0, .verb = W_CANCEL},
                 {.at_s = 31, .job = 1},
                 {.at_s = 40, .job = 1, .verb = W_RESIZE, .gpus = 2}},
        .n_acts = 8,
    };
    begin(&s);
    play(18);
    is_int(job_of(0)->gpus, 2, "---- the last word counts");
    is_int(job_of(0)->attempt, 2, "  one stop was enough");
    play(28);
    is_int(job_of(0)->gpus, 3, "and another resize");
    play(60);
    is_int(job_of(0)->state, JOB_CANCELLED, "a cancel in the middle wins");
    is_int(job_of(1)->gpus, 2, "the other one has two");
    play_out("k0:CANCELLED/130/3[111] k1:TIMEOUT/124/2[11]");
}

/* An attempt with the size that nobody could start leaves it to the next. */
static void test_not_started(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_fifo,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .spec_more = "},\"retry\":{\"max\":1}}",
                  .attempts = {{.run_s = 60},
                               {.run_s = 5, .lose = 1, .no_claim = 1},
                               {.run_s = 20}}}},
        .acts = {{.job = 0},
                 {.at_s = 10, .job = 0, .verb = W_RESIZE, .gpus = 3}},
        .n_acts = 2,
    };
    begin(&s);
    play(INFINITY);
    is_int(job_of(0)->attempt, 3, "---- an attempt that nobody claimed");
    is_int(job_of(0)->gpus, 3, "  leaves its size to the next one");
    play_out("k0:COMPLETED/0/3[111]");
}

/* ---- a policy that resizes -------------------------------------------------
 */
static int32_t wished_gpus, wished_nodes;
static bool wishes_now;

static int plan_resizing(const struct policy_view *v,
                         struct policy_decision *decisions, size_t cap,
                         size_t *ret_n, struct error *e)
{
    if (policy_backfill.plan(v, decisions, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; wishes_now && i < v->n_jobs && *ret_n < cap; i++)
        if (v->jobs[i].may_resize)
            decisions[(*ret_n)++] =
                (struct policy_decision){.act = POLICY_RESIZE,
                                         .id = v->jobs[i].id,
                                         .nodes = wished_nodes,
                                         .gpus_per_node = wished_gpus};
    return 0;
}

static const struct policy resizing = {
    .name = "resizing", .summary = "for tests", .plan = plan_resizing};

static void test_policy(void)
{
    static const struct {
        int32_t gpus, nodes;
        const char *why;
    } bad[] = {{1, 1, "it has them"},
               {5, 1, "it may not have them"},
               {2, 2, "it may not have them"},
               {0, 1, "it may not have them"}};
    const struct world_script s = {
        .nodes = 2,
        .gpus_per_node = 4,
        .policy = &resizing,
        .preempt = {.min_runtime_s = 20},
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 90}, {.run_s = 30}}},
                 {.gpus = 1, .attempts = {{.run_s = 1}}},
                 {.gpus = 1, .attempts = {{.run_s = 1}}}},
        .acts = {{.job = 0}, {.at_s = 12, .job = 1}, {.at_s = 30, .job = 2}},
        .n_acts = 3,
    };
    wishes_now = false;
    begin(&s);
    play(10);
    wished_nodes = 1;
    wished_gpus = 4;
    wishes_now = true;
    play(11.5);
    w.clock.t_s = 1012;
    is_int(engine_explain(w.engine, NULL, NULL, &err), -1,
           "---- a policy resizes too early");
    ok(strstr(err.msg, "minimum run time"), "  %s", err.msg);
    wishes_now = false;
    play(29);
    wishes_now = true;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        wished_gpus = bad[i].gpus;
        wished_nodes = bad[i].nodes;
        is_int(engine_explain(w.engine, NULL, NULL, &err), -1, "a bad size");
        ok(strstr(err.msg, bad[i].why), "  %s", err.msg);
    }
    wished_nodes = 1;
    wished_gpus = 4;
    play(33);
    wishes_now = false;
    ok(strstr(job_of(0)->reason, "chosen by policy resizing") ||
           job_of(0)->gpus == 4,
       "it is told: %s", job_of(0)->reason);
    play(45);
    is_int(job_of(0)->gpus, 4, "it runs on four");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

/* ---- crashes ---------------------------------------------------------------
 */
static const struct world_script crash_script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .grant_delay_s = 0.5,
    .jobs = {{.gpus = 1,
              .gpus_max = 4,
              .attempts = {{.run_s = 60}, {.run_s = 60}, {.run_s = 20}}},
             {.gpus = 2,
              .gpus_max = 8,
              .spec_more = ",\"nodes\":\"1..2\"},\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 60}}},
             {.gpus = 4, .attempts = {{.run_s = 20}}}},
    .acts = {{.at_s = 0, .job = 0},
             {.at_s = 0, .job = 1},
             {.at_s = 5, .job = 0, .verb = W_RESIZE, .gpus = 3},
             {.at_s = 6, .job = 1, .verb = W_RESIZE, .gpus = 4, .nodes = 2},
             {.at_s = 7, .job = 2},
             {.at_s = 20, .job = 0, .verb = W_RESIZE, .gpus = 1}},
    .n_acts = 6,
};

static int crash_once(const struct world_script *s, struct store_fault fault,
                      int die_after, bool survives, const char *want)
{
    struct world a;
    char *got = world_run(&a, s, fault, die_after, survives);
    const struct job *one = engine_job(a.engine, a.ids[0]);
    const struct job *two = engine_job(a.engine, a.ids[1]);
    bool is_good = strcmp(got, want) == 0 && a.n_bad == 0 && one->gpus == 1 &&
                   two->gpus == 4 && two->nodes == 2 && one->retries == 0;
    if (!is_good)
        tap_diag("call %d, step %d: %s, %d and %d GPUs", (int)fault.n,
                 die_after, got, one->gpus, two->gpus);
    free(got);
    world_clear(&a);
    return !is_good;
}

static void test_crashes(bool in_flight)
{
    static const char want[] = "k0:COMPLETED/0/3[111] k1:COMPLETED/0/2[11] "
                               "k2:COMPLETED/0/1[1]";
    struct world_script s = crash_script;
    struct store_fault fault = {.n = 0};
    struct world a;
    int n_bad = 0;
    s.in_flight = in_flight;
    char *got = world_run(&a, &s, fault, 0, false);
    int n_calls = (int)a.n_calls, n_steps = a.n_steps;
    tap_diag("%d store calls, %d steps", n_calls, n_steps);
    is_str(got, want, in_flight ? "---- on a slow disk" : "---- crashes");
    free(got);
    world_clear(&a);
    for (fault.after = 0; fault.after < 2; fault.after++)
        for (fault.n = 1; fault.n <= n_calls; fault.n++)
            n_bad += crash_once(&s, fault, 0, false, want);
    is_int(n_bad, 0, "it dies at each store call");
    fault = (struct store_fault){.n = 0};
    for (int k = 1; k < n_steps; k++)
        n_bad += crash_once(&s, fault, k, false, want);
    is_int(n_bad, 0, "it dies after each step");
    for (fault.n = 2; fault.n <= n_calls; fault.n++)
        n_bad += crash_once(&s, fault, 0, true, want);
    is_int(n_bad, 0, "it lives on after each failed call");
}

int main(void)
{
    test_grow(&policy_fifo);
    test_grow(&policy_backfill);
    test_waiting();
    test_order(&policy_fifo);
    test_order(&policy_backfill);
    test_place_beside(&policy_fifo);
    test_place_beside(&policy_backfill);
    test_refused();
    test_spent();
    test_says();
    test_twice();
    test_not_started();
    test_policy();
    test_crashes(false);
    test_crashes(true);
    return tap_done();
}
