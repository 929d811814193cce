/* engine_resize_patience.c - a size that the allocator does not grant is given
 * up: the job has its old size again, before all others, and the other one is
 * not tried for a while.
 */
#include "tests/contract/engine_play.h"

static struct error err;

static const struct job *job_of(int i)
{
    return engine_job(w.engine, w.ids[i]);
}

static void begin(const struct world_script *s)
{
    world_init(&w, s);
    if (!world_start(&w))
        abort();
}

/* ---- clusters that do not grant everything ---------------------------------
 */
static void never_four(int32_t gpus, struct alloc_fake_outcome *io)
{
    if (gpus < 4)
        return;
    io->wait_s = INFINITY;
    io->wait_why = "Fake(Resources)";
}

static void quota_of_two(int32_t gpus, struct alloc_fake_outcome *io)
{
    if (gpus <= 2)
        return;
    io->wait_s = INFINITY;
    io->wait_why = "Slurm(AssocGrpGRES)";
    io->over_size = 1;
}

static void refuses_four(int32_t gpus, struct alloc_fake_outcome *io)
{
    io->refuse = gpus >= 4;
}

static void late_two(int32_t gpus, struct alloc_fake_outcome *io)
{
    if (gpus == 2)
        io->wait_s = 100;
}

/* ---- policies that want as much as there is --------------------------------
 */
static int32_t seen_min, seen_max; /* bounds of the only job, last seen */

static int plan_most(const struct policy_view *v,
                     struct policy_decision *decisions, size_t cap,
                     size_t *ret_n, struct error *e)
{
    if (policy_backfill.plan(v, decisions, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; i < v->n_jobs; i++) {
        seen_min = v->jobs[i].gpus_min;
        seen_max = v->jobs[i].gpus_max;
    }
    for (size_t i = 0; i < *ret_n; i++)
        if (decisions[i].act == POLICY_START &&
            v->nodes[0].gpus_free >= seen_max)
            decisions[i].gpus_per_node = seen_max;
    return 0;
}

static const struct policy most = {
    .name = "most", .summary = "for tests", .plan = plan_most};

#define FOREVER                                                            \
    {                                                                      \
        {.run_s = INFINITY}, {.run_s = INFINITY}, {.run_s = INFINITY},     \
            {.run_s = INFINITY}, {.run_s = INFINITY}, {.run_s = INFINITY}, \
            {.run_s = INFINITY},                                           \
        {                                                                  \
            .run_s = INFINITY                                              \
        }                                                                  \
    }

static const struct world_script grow = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &most,
    .outcome = never_four,
    .resize_patience_s = 60,
    .jobs = {{.gpus = 1, .gpus_max = 4, .attempts = FOREVER},
             {.gpus = 4,
              .spec_more = "},\"policy\":{\"priority\":50},"
                           "\"retry\":{\"max\":0}}",
              .attempts = {{.run_s = 10}}}},
    .acts = {{.job = 0},
             {.at_s = 20, .job = 0, .verb = W_RESIZE, .gpus = 4},
             {.at_s = 30, .job = 1},
             {.at_s = 100, .job = 1, .verb = W_CANCEL},
             {.at_s = 200, .job = 0, .verb = W_CANCEL}},
    .n_acts = 5,
};

/* The first attempt has to be on one GPU: the policy takes all that it sees. */
static struct world_script with_backfill(const struct world_script *from)
{
    struct world_script s = *from;
    s.policy = &policy_backfill;
    return s;
}

static void test_patience(bool dies)
{
    struct world_script s = with_backfill(&grow);

    begin(&s);
    play(10);
    is_int(job_of(0)->gpus, 1,
           dies ? "---- never granted, over restarts" : "---- never granted");
    play(50);
    is_int(job_of(0)->state, JOB_DISPATCHING, "  it waits for four");
    if (dies)
        world_die(&w);
    play(79);
    is_int(job_of(0)->state, JOB_DISPATCHING, "  for its minute");
    is_int(job_of(0)->gpus, 4, "  with the size that was asked for");
    if (dies)
        world_die(&w);
    play(85);
    is_int(job_of(0)->gpus, 1, "then it has one again");
    ok(job_state_is_live(job_of(0)->state) && job_of(0)->native_id[0],
       "  and runs, before a job of a higher priority");
    is_int(job_of(1)->state, JOB_QUEUED, "  which waits");
    is_int(job_of(0)->resize.barred_gpus, 4, "  four are not tried again");
    ok(job_of(0)->resize.barred_s > 299 && job_of(0)->resize.barred_s < 301,
       "  for %.0f s", job_of(0)->resize.barred_s);
    ok(!job_of(0)->resize.is_back, "  it goes before no one now");
    ok(isnan(job_of(0)->resize.end_asked_s), "  nothing was measured");
    if (dies)
        world_die(&w);
    is_int(job_of(0)->resize.barred_gpus, 4, "  which stays known");
    is_int(job_of(0)->retries, 0, "  no retry was used");
    play_out("k0:CANCELLED/130/3[101] k1:CANCELLED/130/0[]");
}

/* The same size once more, which a person may request. */
static void test_doubles(void)
{
    struct world_script s = with_backfill(&grow);
    const struct engine_size four = {.gpus = 4};

    s.acts[2] = (struct world_act){.at_s = 900, .job = 0, .verb = W_CANCEL};
    s.n_acts = 3;
    begin(&s);
    play(100);
    is_int(job_of(0)->gpus, 1, "---- four were not granted");
    is_int(engine_resize(w.engine, w.ids[0], 1000, "anna", &four, &err), 0,
           "a person asks again");
    play(110);
    is_int(job_of(0)->gpus, 4, "  that is tried");
    play(170);
    is_int(job_of(0)->gpus, 1, "  and not granted");
    ok(job_of(0)->resize.barred_s > 599 && job_of(0)->resize.barred_s < 601,
       "  the time doubles: %.0f s", job_of(0)->resize.barred_s);
    play_out("k0:CANCELLED/130/5[10101]");
}

/* The old size waits in the allocator's line; a job of a higher priority waits
 * in the own queue. */
static void test_positions(void)
{
    struct world_script s = with_backfill(&grow);

    s.jobs[0].attempts[2].wait_s = 20;
    begin(&s);
    play(85);
    ok(job_of(0)->resize.is_back && job_of(0)->pending_id[0],
       "---- the old size is pending");
    is_int(engine_queue_position(w.engine, w.ids[0]), 1, "  it is the first");
    is_int(job_of(1)->state, JOB_QUEUED, "  before a higher priority");
    is_int(engine_queue_position(w.engine, w.ids[1]), 2,
           "  which is the second");
    play_out("k0:CANCELLED/130/3[101] k1:CANCELLED/130/0[]");
}

/* Waits in the engine's own queue: other jobs have the GPUs. */
static void test_own_queue(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .resize_patience_s = 60,
        .jobs = {{.gpus = 1, .gpus_max = 4, .attempts = FOREVER},
                 {.gpus = 2, .attempts = {{.run_s = 300}}}},
        .acts = {{.job = 0},
                 {.job = 1},
                 {.at_s = 20, .job = 0, .verb = W_RESIZE, .gpus = 4},
                 {.at_s = 200, .job = 0, .verb = W_CANCEL}},
        .n_acts = 4,
    };
    begin(&s);
    play(70);
    is_int(job_of(0)->state, JOB_QUEUED, "---- it waits in the own queue");
    play(85);
    is_int(job_of(0)->gpus, 1, "  not longer than its minute");
    is_int(job_of(0)->resize.barred_gpus, 4, "  four are not tried again");
    play_out("k0:CANCELLED/130/2[11] k1:COMPLETED/0/1[1]");
}

/* ---- a cluster that does not answer ----------------------------------------
 */
static const struct alloc_ops *real;
static struct alloc_ops absent;
static bool is_away;

static int away_inventory(struct alloc *a, struct alloc_node *nodes, size_t cap,
                          size_t *ret_n, struct error *e)
{
    return is_away ? error_set(e, ERR_UNAVAIL, "no answer")
                   : real->inventory(a, nodes, cap, ret_n, e);
}

static struct alloc *at_times_away(struct alloc *a)
{
    real = a->ops;
    absent = *real;
    absent.inventory = away_inventory;
    a->ops = &absent;
    return a;
}

/* It cannot grant anything meanwhile. */
static void test_away(void)
{
    struct world_script s = with_backfill(&grow);

    s.acts[2] = (struct world_act){.at_s = 300, .job = 0, .verb = W_CANCEL};
    s.n_acts = 3;
    world_init(&w, &s);
    w.wrap = at_times_away;
    if (!world_start(&w))
        abort();
    play(50);
    is_away = true;
    if (alloc_fake_changed(w.cluster, &err) < 0)
        abort();
    play(100);
    is_away = false;
    play(130);
    is_int(job_of(0)->gpus, 4, "---- the cluster was away: its minute is new");
    play(170);
    is_int(job_of(0)->gpus, 1, "  and ends");
    play_out("k0:CANCELLED/130/3[101]");
}

/* Without a patience, as on one machine, it waits on. */
static void test_no_patience(void)
{
    struct world_script s = with_backfill(&grow);

    s.resize_patience_s = 0;
    s.acts[2] = (struct world_act){.at_s = 900, .job = 0, .verb = W_CANCEL};
    s.n_acts = 3;
    begin(&s);
    play(800);
    is_int(job_of(0)->state, JOB_DISPATCHING, "---- no patience: it waits");
    play_out("k0:CANCELLED/130/2[10]");
}

static void test_start(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &most,
        .outcome = quota_of_two,
        .resize_patience_s = 60,
        .jobs = {{.gpus = 1, .gpus_max = 4, .attempts = FOREVER}},
        .acts = {{.job = 0}, {.at_s = 500, .job = 0, .verb = W_CANCEL}},
        .n_acts = 2,
    };
    begin(&s);
    play(20);
    is_int(job_of(0)->gpus, 2, "---- a quota of two: it starts on two");
    ok(job_of(0)->native_id[0], "  without a wait for its patience");
    is_int(seen_min, 1, "  the policy sees 1");
    is_int(seen_max, 2, "  to 2 GPUs");
    world_die(&w);
    play(30);
    is_int(seen_max, 2, "  also after a restart");
    play(330);
    world_die(&w); /* plans */
    play(340);
    is_int(seen_max, 4, "  and all of them when their time is over");
    play_out("k0:CANCELLED/130/3[001]");
}

/* A resize above a quota waits for no patience. */
static void test_quota(void)
{
    struct world_script s = with_backfill(&grow);

    s.outcome = quota_of_two;
    s.acts[2] = (struct world_act){.at_s = 300, .job = 0, .verb = W_CANCEL};
    s.n_acts = 3;
    begin(&s);
    play(30);
    is_int(job_of(0)->gpus, 1, "---- above a quota: back at once");
    ok(job_of(0)->native_id[0], "  it runs");
    play_out("k0:CANCELLED/130/3[101]");
}

static void test_refused(void)
{
    struct world_script s = with_backfill(&grow);

    s.outcome = refuses_four;
    s.acts[2] = (struct world_act){.at_s = 300, .job = 0, .verb = W_CANCEL};
    s.n_acts = 3;
    begin(&s);
    play(30);
    is_int(job_of(0)->gpus, 1, "---- refused: back at once, and not held");
    ok(job_of(0)->native_id[0], "  it runs");
    is_int(job_of(0)->resize.barred_gpus, 4, "  four are not tried again");
    play_out("k0:CANCELLED/130/3[101]");
}

/* It would wait longer for its old size. */
static void test_shrink(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &most,
        .outcome = late_two,
        .resize_patience_s = 60,
        .jobs = {{.gpus = 1, .gpus_max = 4, .attempts = FOREVER}},
        .acts = {{.job = 0},
                 {.at_s = 20, .job = 0, .verb = W_RESIZE, .gpus = 2},
                 {.at_s = 200, .job = 0, .verb = W_CANCEL}},
        .n_acts = 3,
    };
    begin(&s);
    play(19);
    is_int(job_of(0)->gpus, 4, "---- from four");
    play(150);
    is_int(job_of(0)->gpus, 2, "  to two, when they are granted");
    is_int(job_of(0)->resize.barred_gpus, 0, "  however late");
    play_out("k0:CANCELLED/130/2[11]");
}

static void test_crashes(void)
{
    static const char want[] = "k0:CANCELLED/130/3[101] k1:CANCELLED/130/0[]";
    const struct world_script s = with_backfill(&grow);
    struct world a;
    int n_bad = 0;

    char *got = world_run(&a, &s, (struct store_fault){.n = 0}, 0, false);
    int n_steps = a.n_steps;
    is_str(got, want, "---- crashes");
    free(got);
    world_clear(&a);
    for (int k = 1; k < n_steps; k++) {
        got = world_run(&a, &s, (struct store_fault){.n = 0}, k, false);
        bool is_good = strcmp(got, want) == 0 && a.n_bad == 0;
        if (!is_good)
            tap_diag("step %d: %s", k, got);
        n_bad += !is_good;
        free(got);
        world_clear(&a);
    }
    is_int(n_bad, 0, "it dies after each step");
}

int main(void)
{
    test_patience(false);
    test_patience(true);
    test_positions();
    test_doubles();
    test_own_queue();
    test_away();
    test_no_patience();
    test_start();
    test_quota();
    test_refused();
    test_shrink();
    test_crashes();
    return tap_done();
}
