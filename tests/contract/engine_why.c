/* engine_why.c - why a job waits: one that has everything in its way, and of
 * which one obstacle after the other is removed, says each in its turn, in the
 * order of mgpu-stat(1). What it is that each policy says is in unit/policy/.
 */
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

/* ---- a cluster that is away at times ------------------------------------ */
static bool is_away;
static const struct alloc_ops *there;

static int no_inventory(struct alloc *a, struct alloc_node *nodes, size_t cap,
                        size_t *ret_n, struct error *e)
{
    if (is_away)
        return error_set(e, ERR_UNAVAIL, "no answer since 10:00");
    return there->inventory(a, nodes, cap, ret_n, e);
}

static struct alloc *sometimes_away(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.inventory = no_inventory;
    a->ops = &ops;
    return a;
}

static const struct world_script script = {
    .nodes = 1,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = 100000}}}},
};

/* Two tasks of one GPU, one at a time, after the job, on hold. The second. */
static uint64_t submit_sweep(uint64_t after)
{
    static char spec[2][300];
    struct engine_task tasks[2];
    uint64_t id = 0;
    bool again;

    for (int i = 0; i < 2; i++) {
        (void)snprintf(spec[i], sizeof(spec[i]),
                       "{\"name\":\"s\",\"kind\":\"command\",\"command\":[\"a\""
                       "],\"depends_on\":[\"afterany:%" PRIu64 "\"],"
                       "\"policy\":{\"begin\":\"+300s\"},"
                       "\"resources\":{\"gpus\":1,\"time_limit\":\"9000s\"}}",
                       after);
        tasks[i] = (struct engine_task){.spec = spec[i], .vary = "{}"};
    }
    const struct engine_sweep sweep = {
        .tasks = tasks, .n = 2, .max_parallel = 1};
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = "k0.s", .hold = true};
    if (engine_submit_sweep(w.engine, &req, &sweep, &id, &again, &err) < 0)
        tap_diag("%s", err.msg);
    world_settle(&w);
    return id + 1;
}

static void end(uint64_t id)
{
    is_int(engine_cancel(w.engine, id, 1, &err), 0, "one goes");
    world_settle(&w);
    w.clock.t_s += 200; /* the cluster sees that it is gone */
    world_settle(&w);
    world_settle(&w);
}

static void says(uint64_t id, const char *reason, const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    ok(strncmp(job->reason, reason, strlen(reason)) == 0, "%s: %s", what,
       job->reason);
    ok(!job_state_is_live(job->state), "  it waits");
}

static void test_order(void)
{
    char reserved[64];

    world_init(&w, &script);
    w.wrap = sometimes_away;
    ok(world_start(&w), "---- one obstacle after the other");
    uint64_t hog = world_command(&w, 3, 5000);
    uint64_t first = world_command(&w, 0, 0);
    uint64_t head = world_command(&w, 4, 5000);
    uint64_t id = submit_sweep(first);

    (void)snprintf(reserved, sizeof(reserved),
                   "Reserved: would delay job %" PRIu64 ", which starts by 20",
                   head);
    w.conf.limits.running_per_user = 2;
    engine_drain(w.engine, "new disks");
    is_int(engine_hold(w.engine, id, 0, true, &err), 0, "an administrator");
    world_settle(&w);
    says(id, "Held: by an administrator", "W1 an administrator's hold");
    is_int(engine_hold(w.engine, id, 0, false, &err), 0, "who releases it");
    is_int(engine_hold(w.engine, id, 1, true, &err), 0, "and its user's own");
    world_settle(&w);
    says(id, "Held: by its user", "W2 a user's hold");
    is_int(engine_hold(w.engine, id, 1, false, &err), 0, "released");
    is_int(engine_hold(w.engine, id - 1, 1, false, &err), 0, "both");
    world_settle(&w);
    says(id, "Dependency: waits for afterany:2", "W3 what it waits for");
    end(first);
    says(id, "BeginTime: not before ", "a time that has not come");
    w.clock.t_s += 300;
    world_settle(&w);
    says(id, "Paused: nothing new is started: new disks", "W4 a pause");
    is_away = true;
    engine_drain(w.engine, NULL);
    world_settle(&w);
    says(id, "SlurmUnavailable: no answer since 10:00", "W5 nobody to ask");
    is_away = false;
    w.conf.limits.running_per_user = 1;
    w.clock.t_s += 10;
    world_settle(&w);
    says(id, "SweepLimit: max_parallel 1 of 2 jobs", "W6 the other task");
    end(id - 1);
    says(id, "LimitUserJobs: 1 run, of 1 allowed", "W7 its user's limit");
    w.conf.limits = (struct engine_limits){.gpus_per_user = 3};
    (void)world_command(&w, 0, 60); /* an occasion to plan */
    says(id, "LimitUserGpus: 3 in use, needs 1, of 3 allowed", "W8 of GPUs");
    w.conf.limits.gpus_per_user = 0;
    (void)world_command(&w, 0, 60);
    says(id, reserved, "W9 one that is before it");
    end(hog);
    says(id, "WaitingForGpus: needs 1, 0 free", "W10 nothing is free");
    end(head);
    const struct job *job = engine_job(w.engine, id);
    ok(job_state_is_live(job->state), "and then it runs");
    is_str(job->reason, "", "  and says nothing");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

int main(void)
{
    test_order();
    return tap_done();
}
