/* engine_submit_ahead.c - a cluster whose devices others have, too: who waits
 * there, who gets around him, and who is taken back.
 */
#include "scheduler/engine/teach.h"
#include "scheduler/engine/what_if.h"
#include "tests/contract/engine_play.h"

static int32_t strangers; /* GPUs that others have, of each node */

static void node(void *arg, int32_t i, struct alloc_node *io)
{
    (void)arg, (void)i;
    io->gpus_free -= strangers < io->gpus_free ? strangers : io->gpus_free;
}

/* A job whose first attempt the cluster keeps waiting until wait_s later. */
static struct world_job waiting(int32_t gpus, double wait_s, const char *more)
{
    return (struct world_job){
        .gpus = gpus,
        .spec_more = more,
        .attempts = {{.run_s = 5,
                      .wait_s = wait_s,
                      .wait_why = wait_s > 0 ? "Slurm(Resources)" : NULL},
                     {.run_s = 5}}};
}

static void begin(const struct world_script *s, int32_t n, const char *what)
{
    strangers = n;
    world_init(&w, s);
    ok(world_start(&w), "---- %s", what);
}

/* The cluster has news of its nodes. */
static void leave(int32_t n)
{
    strangers = n;
    engine_drain(w.engine, NULL); /* asks for a plan */
}

static void is_at(uint64_t id, enum job_state state, const char *reason,
                  const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    is_str(job_state_name(job->state), job_state_name(state), what);
    if (reason)
        is_str(job->reason, reason, "  and says why");
}

static void finish(const char *want)
{
    leave(0);
    play_out(want);
}

static struct world_script ahead(struct world_job first,
                                 struct world_job second)
{
    return (struct world_script){
        .nodes = 1,
        .gpus_per_node = 4,
        .node = node,
        .submit_ahead = 1,
        .policy = &policy_backfill,
        .n_acts = 2,
        .jobs = {first, second},
        .acts = {{.job = 0}, {.at_s = 1, .job = 1}},
    };
}

static void test_head(void)
{
    static const char wait_4[] = "WaitingForGpus: needs 4, 1 free";
    struct world_script s = ahead(waiting(4, 20, NULL), waiting(4, 0, NULL));

    s.submit_ahead = 0;
    s.n_acts = 3;
    s.jobs[2] = waiting(1, 0, ",\"time_limit\":\"10s\"}}");
    s.acts[2] = (struct world_act){.at_s = 2, .job = 2};
    begin(&s, 3, "without it, in our queue only");
    play(1.5);
    is_at(1, JOB_QUEUED, wait_4, "a job that does not fit waits here");
    play(3);
    is_at(3, JOB_RUNNING, NULL, "a short one gets around it");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");

    s.submit_ahead = 1;
    begin(&s, 3, "one ahead");
    play(1.5);
    is_at(1, JOB_DISPATCHING, "Slurm(Resources)", "the first waits there");
    is_at(2, JOB_QUEUED, wait_4, "the second waits here");
    is_int(engine_queue_position(w.engine, 1), 1, "the first has its position");
    is_int(engine_queue_position(w.engine, 2), 2,
           "  and the second is behind it");
    play(3);
    is_at(3, JOB_RUNNING, NULL, "a short one gets around both");
    is_int(engine_queue_position(w.engine, 3), 0, "  and has none");
    world_die(&w);
    play(4);
    is_at(1, JOB_DISPATCHING, "Slurm(Resources)", "after a restart it is so");
    is_at(2, JOB_QUEUED, NULL, "  for both");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");

    s.submit_ahead = 2;
    begin(&s, 3, "two ahead");
    play(1.5);
    is_at(2, JOB_DISPATCHING, NULL, "the second stands behind it");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");

    s.submit_ahead = 1;
    s.policy = &policy_fifo;
    begin(&s, 3, "strictly in order");
    play(3);
    is_at(1, JOB_DISPATCHING, "Slurm(Resources)", "the first waits there");
    is_at(3, JOB_QUEUED, "Priority: 2 ahead, first job 1",
          "and nobody gets around it");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

static void test_order(void)
{
    struct world_script s =
        ahead(waiting(4, 1000, NULL),
              waiting(3, 10, "},\"policy\":{\"priority\":\"high\"}}"));

    s.acts[1].at_s = 2;
    begin(&s, 2, "one of more importance comes");
    play(1);
    is_at(1, JOB_DISPATCHING, NULL, "the first waits there");
    play(3);
    is_at(1, JOB_QUEUED, NULL, "it is taken back");
    is_at(2, JOB_DISPATCHING, "Slurm(Resources)", "for the other");
    is_int(alloc_fake_starts(w.cluster, 1, 1), 0, "  and never ran");
    finish("k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]");

    begin(&s, 2, "the same, and the daemon dies");
    play(1);
    while (engine_job(w.engine, 1)->state != JOB_QUEUED) {
        (void)world_step(&w);
        world_advance(&w);
    }
    world_die(&w);
    finish("k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]");
}

/* An allocator that cannot be told of an end, or that says nothing. */
static const struct alloc_ops *there;
static bool is_deaf, is_silent;

static int release(struct alloc *a, uint64_t job, int32_t attempt,
                   double grace_s, struct error *err)
{
    if (is_deaf)
        return error_set(err, ERR_UNAVAIL, "it does not listen");
    return there->release(a, job, attempt, grace_s, err);
}

static int poll_notes(struct alloc *a, struct alloc_note *notes, size_t cap,
                      size_t *ret_n, struct error *err)
{
    *ret_n = 0;
    return is_silent ? 0 : there->poll(a, notes, cap, ret_n, err);
}

static struct alloc *deafen(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.release = release;
    ops.poll = poll_notes;
    a->ops = &ops;
    return a;
}

/* Also when no job is left to end. */
static void go_on(double until_s)
{
    for (int i = 0; i < 1000 && w.clock.t_s < 1000 + until_s; i++) {
        (void)world_step(&w);
        world_advance(&w);
    }
}

/* Taken back, and then held or cancelled, and the daemon dies before the
 * cluster has heard of it: the next one has it out of there at once. */
static void test_dropped(bool is_cancelled)
{
    struct world_script s =
        ahead(waiting(4, 30, NULL),
              waiting(3, 10, "},\"policy\":{\"priority\":\"high\"}}"));
    struct error err = ERROR_INIT;

    s.acts[1].at_s = 2;
    strangers = 2;
    world_init(&w, &s);
    w.wrap = deafen;
    is_deaf = true;
    ok(world_start(&w), "---- taken back, then %s, and the daemon dies",
       is_cancelled ? "cancelled" : "held");
    play(3);
    is_at(1, JOB_QUEUED, NULL, "it is taken back");
    is_int(is_cancelled ? engine_cancel(w.engine, 1, 1000, &err)
                        : engine_hold(w.engine, 1, 1000, true, &err),
           0, "and its user does so");
    play(4);
    world_die(&w);
    is_deaf = false;
    leave(0);
    play(25);
    is_at(2, JOB_COMPLETED, NULL, "the other has run");
    world_die(&w);
    go_on(60);
    is_at(1, is_cancelled ? JOB_CANCELLED : JOB_HELD, NULL, "it has not");
    is_int(alloc_fake_starts(w.cluster, 1, 1), 0, "nor does the cluster start");
    if (!is_cancelled)
        is_int(engine_hold(w.engine, 1, 1000, false, &err), 0, "released");
    finish(is_cancelled ? "k0:CANCELLED/130/1[0] k1:COMPLETED/0/1[1]"
                        : "k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]");
}

static void test_size(void)
{
    struct world_script s =
        ahead(waiting(2, 1000, ",\"nodes\":\"1..2\"}}"), (struct world_job){0});

    s.nodes = 2;
    s.n_acts = 1;
    begin(&s, 4, "a job that may be spread");
    play(1);
    is_at(1, JOB_DISPATCHING, NULL, "waits for two of one node");
    is_int(engine_job(w.engine, 1)->nodes, 1, "  at its smallest");
    leave(3);
    play(3);
    const struct job *job = engine_job(w.engine, 1);
    is_int(job->nodes, 2, "one of each is free: it is taken back");
    is_int(job->attempt, 2, "  and asked for anew");
    finish("k0:COMPLETED/0/2[01]");
}

static void test_held(void)
{
    struct world_script s = ahead(waiting(4, 50, NULL), waiting(4, 0, NULL));

    s.jobs[0].attempts[0].is_held = 1;
    s.jobs[0].attempts[0].wait_why = "Slurm(QOSMaxGRESPerUser)";
    begin(&s, 4, "a user at a limit of the cluster");
    play(2);
    is_at(1, JOB_DISPATCHING, "Slurm(QOSMaxGRESPerUser)", "is held there");
    is_at(2, JOB_QUEUED, NULL, "with one job, not with all");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]");
}

static void test_cancel(void)
{
    struct world_script s = ahead(waiting(4, 50, NULL), waiting(4, 0, NULL));

    s.n_acts = 3;
    s.acts[2] = (struct world_act){.at_s = 2, .verb = W_CANCEL, .job = 0};
    begin(&s, 4, "cancelled while it waits there");
    play(4);
    is_at(1, JOB_CANCELLED, "cancelled by its user", "it ends");
    is_at(2, JOB_DISPATCHING, NULL, "the next takes its place");
    finish("k0:CANCELLED/130/1[0] k1:COMPLETED/0/1[1]");
}

/* The GPU-hours of all jobs' user are used up, or free again. */
static void spend(bool is_spent)
{
    const struct engine_spent spent = {
        .name = "anna", .why = "LimitGpuHours: anna used 7 of 5"};
    struct error err = ERROR_INIT;
    if (engine_teach_spent(w.engine, &spent, is_spent, &err) < 0)
        world_bad(&w, err.msg, 0);
}

static void test_spent(bool dies)
{
    struct world_script s =
        ahead(waiting(4, 20, NULL), waiting(1, 0, ",\"time_limit\":\"10s\"}}"));

    begin(&s, 3,
          dies ? "GPU-hours run out while no daemon is there"
               : "GPU-hours run out while one waits there");
    play(2);
    is_at(1, JOB_DISPATCHING, "Slurm(Resources)", "the first waits there");
    is_at(2, JOB_RUNNING, NULL, "the second runs");
    if (dies)
        world_die(&w);
    spend(true);
    play(4);
    is_at(1, JOB_QUEUED, NULL, "the first is taken back");
    is_at(2, JOB_RUNNING, NULL, "what runs goes on");
    leave(0);
    play(40);
    is_at(1, JOB_QUEUED, "LimitGpuHours: anna used 7 of 5",
          "and does not start");
    is_int(alloc_fake_starts(w.cluster, 1, 1), 0, "  nor does the cluster");
    spend(false);
    finish("k0:COMPLETED/0/2[01] k1:COMPLETED/0/1[1]");
}

/* The next daemon hears of the GPU-hours before the cluster answers. */
static void test_spent_late(void)
{
    struct world_script s = ahead(waiting(4, 20, NULL), (struct world_job){0});

    s.n_acts = 1;
    strangers = 3;
    world_init(&w, &s);
    w.wrap = deafen;
    ok(world_start(&w), "---- GPU-hours run out before the cluster answers");
    play(1);
    is_silent = true;
    world_die(&w);
    spend(true);
    play(2);
    is_at(1, JOB_DISPATCHING, NULL, "an attempt that may run is left alone");
    is_silent = false;
    play(4);
    is_at(1, JOB_QUEUED, NULL, "when it waits there, it is taken back");
    spend(false);
    finish("k0:COMPLETED/0/2[01]");
}

/* A job that gives GPUs back goes on, although its next attempt is new to the
 * cluster. */
static void test_shrinks(void)
{
    const struct world_script s = {
        .nodes = 1,
        .gpus_per_node = 4,
        .node = node,
        .submit_ahead = 1,
        .policy = &policy_backfill,
        .n_acts = 4,
        .jobs = {{.gpus = 1,
                  .gpus_max = 4,
                  .attempts = {{.run_s = 1000},
                               {.run_s = 5,
                                .wait_s = 20,
                                .wait_why = "Slurm(Priority)"}}}},
        .acts = {{.job = 0, .hold = true},
                 {.at_s = 1, .verb = W_RESIZE, .gpus = 4},
                 {.at_s = 2, .verb = W_RELEASE},
                 {.at_s = 8, .verb = W_RESIZE, .gpus = 1}},
    };

    begin(&s, 0, "one shrinks while its user has no GPU-hours");
    play(6);
    is_at(1, JOB_RUNNING, NULL, "it runs");
    spend(true);
    play(15);
    is_at(1, JOB_DISPATCHING, "Slurm(Priority)",
          "its next attempt waits there");
    finish("k0:COMPLETED/0/2[11]");
}

static bool is_first_down;

static void first_node(void *arg, int32_t i, struct alloc_node *io)
{
    node(arg, i, io);
    io->is_up = i > 0 || !is_first_down;
}

static void says_fragmented(uint64_t id, const char *want, const char *what)
{
    struct engine_what_if s;
    struct error err = ERROR_INIT;

    is_int(engine_what_if(w.engine, engine_job(w.engine, id), &s, &err), 0,
           "asked");
    is_str(s.fragmented, want, what);
}

/* On each of two nodes of 4 GPUs, 2 are free. */
static void test_fragmented(void)
{
    struct world_script s = ahead(waiting(3, 20, NULL), waiting(4, 0, NULL));

    s.nodes = 2;
    s.node = first_node;
    s.policy = &policy_fifo;
    s.n_acts = 3;
    s.jobs[2] = waiting(2, 0, NULL);
    s.acts[2] = (struct world_act){.at_s = 1, .job = 2};
    begin(&s, 2, "enough GPUs are free, but not on one node");
    play(1.5);
    is_at(1, JOB_DISPATCHING, "Slurm(Resources)", "the first waits there");
    says_fragmented(1,
                    "Fragmented: needs 3 on 1 node, 4 free, at most 2 on one "
                    "node",
                    "  and why is said");
    is_at(2, JOB_QUEUED, "Priority: 1 ahead, first job 1", "the next is here");
    says_fragmented(2,
                    "Fragmented: needs 4 on 1 node, 4 free, at most 2 on one "
                    "node",
                    "  where it would not fit, either");
    is_at(3, JOB_QUEUED, "Priority: 2 ahead, first job 1", "another one");
    says_fragmented(3, "", "  would fit");
    is_first_down = true;
    leave(2);
    play(2.5);
    says_fragmented(1, "", "GPUs of a node that is down are not free");
    is_first_down = false;
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]");
}

int main(void)
{
    test_fragmented();
    test_head();
    test_order();
    test_dropped(false);
    test_dropped(true);
    test_size();
    test_held();
    test_cancel();
    test_spent(false);
    test_spent(true);
    test_spent_late();
    test_shrinks();
    return tap_done();
}
