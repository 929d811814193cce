/* engine_preempt.c - devices are taken back from jobs that run: what becomes of
 * both, over restarts, beside limits, and in a cluster's own line. */
#include "tests/contract/engine_slow.h"

#define HIGH "},\"policy\":{\"priority\":\"high\"},\"retry\":{\"max\":0}}"

static struct world_job of(int32_t gpus, double run_s, const char *more)
{
    struct world_job job = {.gpus = gpus, .spec_more = more};
    for (int k = 0; k < WORLD_ATTEMPTS; k++)
        job.attempts[k].run_s = run_s;
    return job;
}

/* Job 1 has all 4 GPUs from 0 s on; job 2, which is urgent, comes at at_s. */
static struct world_script two(double at_s)
{
    return (struct world_script){
        .nodes = 1,
        .gpus_per_node = 4,
        .policy = &policy_backfill,
        .preempt = {.is_on = 1, .grace_s = 60, .min_runtime_s = 600},
        .n_acts = 2,
        .jobs = {of(4, 5000, NULL), of(4, 100, HIGH)},
        .acts = {{.job = 0}, {.at_s = at_s, .job = 1}},
    };
}

static void begin(const struct world_script *s, double stops_s,
                  const char *what)
{
    slow_begin(s, stops_s);
    ok(world_start(&w), "---- %s", what);
}

static void is_at(uint64_t id, enum job_state state, const char *reason,
                  const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    is_str(job_state_name(job->state), job_state_name(state), what);
    if (reason)
        is_str(job->reason, reason, "  and says why");
}

static const char by_2[] = "preempted by job 2 of anna, priority 50 over 0";
static const char from_1[] = "WaitingForPreemption: needs 4, released by job 1";

static void test_one(void)
{
    const struct world_script s = two(700);

    begin(&s, 20, "an urgent job comes");
    play(710);
    is_at(1, JOB_CHECKPOINTING, by_2, "one that runs is told");
    is_at(2, JOB_QUEUED, from_1, "the other waits for it");
    ok(engine_job(w.engine, 2)->start_estimate_s == 1760, "  and until when");
    play(730);
    is_at(2, JOB_RUNNING, NULL, "then it runs");
    is_at(1, JOB_QUEUED, NULL, "and the first waits at its old place");
    is_int(engine_job(w.engine, 1)->retries, 0, "  at no cost");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");

    begin(&s, 20, "the daemon dies meanwhile");
    play(705);
    world_die(&w);
    is_at(1, JOB_CHECKPOINTING, by_2, "the next one knows");
    play(719);
    is_at(1, JOB_CHECKPOINTING, NULL, "it is told again");
    is_at(2, JOB_QUEUED, from_1, "  and waited for");
    play(730);
    is_at(2, JOB_RUNNING, NULL, "then the other runs");
    world_die(&w);
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");
}

static void test_guards(void)
{
    struct world_script s = two(100);

    begin(&s, 5, "one that has just begun");
    play(590);
    is_at(1, JOB_RUNNING, NULL, "goes on");
    is_at(2, JOB_QUEUED, "WaitingForGpus: needs 4, 0 free",
          "and is waited for");
    play(602);
    is_at(1, JOB_CHECKPOINTING, by_2, "until its time has come");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");

    s = two(700);
    s.jobs[0].spec_more = "},\"policy\":{\"preemptible\":false},"
                          "\"retry\":{\"max\":0}}";
    begin(&s, 5, "one that does not make room");
    play(4000);
    is_at(1, JOB_RUNNING, NULL, "goes on");
    world_die(&w);
    play(4100);
    is_at(1, JOB_RUNNING, NULL, "also with the next daemon");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");

    s = two(700);
    begin(&s, 5, "a limit of the user");
    w.conf.limits.gpus_per_user = 4;
    play(4000);
    is_at(1, JOB_RUNNING, NULL, "nobody goes for who may not start");
    play_out("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");

    s = two(700);
    s.preempt.is_on = 0;
    begin(&s, 5, "switched off");
    play(800);
    is_at(1, JOB_RUNNING, NULL, "nobody goes");
    w.conf.preempt.is_on = 1;
    engine_drain(w.engine, "");
    play(900);
    is_at(1, JOB_RUNNING, NULL, "nor, switched on, while it is paused");
    engine_drain(w.engine, NULL);
    play(903);
    is_at(1, JOB_CHECKPOINTING, NULL, "but then");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");
}

/* Several of one user, whose limit has room for one. */
static void test_limit(void)
{
    struct world_script s = two(700);

    s.jobs[0] = of(2, 5000, NULL);
    s.jobs[1] = of(2, 100, HIGH);
    s.jobs[2] = of(2, 5000, NULL);
    s.jobs[3] = of(2, 100, HIGH);
    s.n_acts = 4;
    s.acts[2] = (struct world_act){.job = 2};
    s.acts[3] = (struct world_act){.at_s = 700, .job = 3};
    begin(&s, 5, "a limit that has room for one of two");
    w.conf.limits.running_per_user = 3;
    play(702);
    int n = 0;
    for (uint64_t id = 1; id <= 4; id++)
        n += engine_job(w.engine, id)->is_preempted;
    is_int(n, 1, "one goes, and the other when there is room");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1] k2:COMPLETED/0/2[11] "
             "k3:COMPLETED/0/1[1]");
}

/* While the first goes one comes that is more important still, and small ones
 * that would fit where GPUs have come free. */
static void test_kept(void)
{
    struct world_script s = two(700);

    s.jobs[0] = of(3, 5000, NULL);
    s.jobs[2] = of(1, 300, NULL);
    s.jobs[3] = of(4, 100, HIGH);
    s.n_acts = 5;
    s.acts[2] = (struct world_act){.at_s = 705, .job = 2};
    s.acts[3] = (struct world_act){.at_s = 706, .job = 3};
    s.acts[4] = (struct world_act){.at_s = 707, .verb = W_TOP, .job = 3};
    begin(&s, 20, "what is taken back is kept");
    play(719);
    is_at(3, JOB_QUEUED, NULL, "from who would fit meanwhile");
    play(730);
    is_at(2, JOB_RUNNING, NULL, "and from who is more important");
    is_at(4, JOB_QUEUED, "WaitingForGpus: needs 4, 0 free", "  which waits");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1] "
             "k3:COMPLETED/0/1[1]");

    begin(&s, 20, "unless nobody wants it any more");
    play(710);
    is_int(engine_cancel(w.engine, 2, 1000, NULL), 0, "cancelled");
    play(730);
    is_at(4, JOB_RUNNING, NULL, "then the next has it");
    play_out("k0:COMPLETED/0/2[11] k1:CANCELLED/130/0[] k2:COMPLETED/0/1[1] "
             "k3:COMPLETED/0/1[1]");
}

/* What was told to go is cancelled, or ends by itself. */
static void test_ends(void)
{
    struct world_script s = two(700);

    s.n_acts = 3;
    s.acts[2] = (struct world_act){.at_s = 705, .verb = W_CANCEL, .job = 0};
    begin(&s, 20, "cancelled while it goes");
    play_out("k0:CANCELLED/130/1[1] k1:COMPLETED/0/1[1]");

    s = two(700);
    s.jobs[0].attempts[0].run_s = 703;
    begin(&s, 20, "it ends while it goes");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");
}

/* Who waits stands in the cluster's line. */
static void test_ahead(void)
{
    struct world_script s = two(700);

    s.submit_ahead = 1;
    begin(&s, 20, "a cluster with a line of its own");
    play(710);
    is_at(1, JOB_CHECKPOINTING, by_2, "one that runs is told");
    is_at(2, JOB_DISPATCHING, NULL, "the other stands in line");
    world_die(&w);
    play(720);
    is_at(1, JOB_CHECKPOINTING, NULL, "nobody else goes for it");
    play(735);
    is_at(2, JOB_RUNNING, NULL, "then it runs");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");
}

int main(void)
{
    test_one();
    test_guards();
    test_limit();
    test_kept();
    test_ends();
    test_ahead();
    return tap_done();
}
