/* engine_actor.c - the event that queues a job again names who wanted that: its
 * user, an administrator, a job of higher priority or the policy. So do the row
 * of the attempt and the end of a job that was cancelled.
 */
#include "tests/contract/engine_cluster.h"

static struct error err;

/* A policy that lets the first job make room: it has no GPUs for a while. */
static bool pauses;

static int plan_pausing(const struct policy_view *v,
                        struct policy_decision *decisions, size_t cap,
                        size_t *ret_n, struct error *e)
{
    if (policy_backfill.plan(v, decisions, cap, ret_n, e) < 0)
        return -1;
    for (size_t i = 0; pauses && i < v->n_jobs && *ret_n < cap; i++)
        if (v->jobs[i].may_resize)
            decisions[(*ret_n)++] = (struct policy_decision){
                .act = POLICY_RESIZE, .id = v->jobs[i].id};
    return 0;
}

static const struct policy pausing = {
    .name = "pausing", .summary = "for tests", .plan = plan_pausing};

struct last {
    enum job_event ev;
    char detail[600];
};

static int take(void *arg, const struct store_event *ev, struct error *e)
{
    struct last *last = arg;
    (void)e;
    if (ev->ev == last->ev && ev->job == 1)
        (void)snprintf(last->detail, sizeof(last->detail), "%s",
                       ev->detail ? ev->detail : "");
    return 0;
}

/* The detail of the job's last event of this kind. */
static void event_says(enum job_event ev, const char *who, const char *what)
{
    struct last last = {.ev = ev};
    if (w.store->ops->load(w.store, take, &last, &err) < 0)
        tap_diag("%s", err.msg);
    if (!ok(strstr(last.detail, who), "%s: %s", what, job_event_name(ev)))
        tap_diag("it says %s", last.detail);
}

static void attempt_says(const char *who, const char *what)
{
    const struct store_attempt *row = store_mem_attempt(w.db, 1, 1);
    const char *why = row && row->reason ? row->reason : "";
    if (!ok(strstr(why, who), "%s: its attempt", what))
        tap_diag("it says %s", why);
}

static struct world_script elastic(void)
{
    struct world_script s = one((struct world_attempt){.run_s = 60});
    s.jobs[0].gpus_max = 2;
    s.jobs[0].attempts[1].run_s = 5;
    s.policy = &pausing;
    s.preempt = (struct policy_preempt){.min_runtime_s = 2};
    return s;
}

static void is_queued_again(const char *who, const char *what)
{
    for (int i = 0; i < 100 && engine_job(w.engine, 1)->attempt < 2; i++) {
        (void)world_step(&w);
        pauses = pauses && !engine_job(w.engine, 1)->requeue_asked;
        world_advance(&w);
    }
    event_says(EV_REQUEUE, who, what);
    attempt_says(who, what);
    finish("k0:COMPLETED/0/2[11]", "");
}

static void test_pause(void)
{
    struct world_script s = elastic();
    begin(&s, "paused by the policy");
    play(10);
    pauses = true;
    is_int(engine_prioritise(w.engine, 1, 1000, 1, &err), 0, "a plan is due");
    is_queued_again("makes room for other jobs and waits, chosen by policy "
                    "pausing",
                    "a pause");
    pauses = false;
}

static void test_requeue(int64_t uid, const char *who)
{
    struct world_script s = elastic();
    begin(&s, who);
    play(10);
    is_int(engine_requeue(w.engine, 1, uid, &err), 0, "it is asked for");
    is_queued_again(who, "a requeue");
}

static void test_resize(void)
{
    const struct engine_size two = {.gpus = 2};
    struct world_script s = elastic();
    begin(&s, "resized");
    play(10);
    is_int(engine_resize(w.engine, 1, 0, "root", &two, &err), 0,
           "it is asked for");
    is_queued_again("from 1 to 2 GPUs, asked by root", "a resize");
}

static void test_preempted(void)
{
    struct world_script s = elastic();
    s.preempt =
        (struct policy_preempt){.is_on = 1, .grace_s = 5, .min_runtime_s = 2};
    s.jobs[0].gpus = s.jobs[0].gpus_max = 4;
    s.jobs[1] =
        (struct world_job){.gpus = 4,
                           .spec_more = "},\"policy\":{\"priority\":\"high\"}}",
                           .attempts = {{.run_s = 5}}};
    s.acts[1] = (struct world_act){.at_s = 20, .job = 1};
    s.n_acts = 2;
    begin(&s, "preempted");
    play(INFINITY);
    event_says(EV_REQUEUE, "preempted by job 2 of anna", "a preemption");
    attempt_says("preempted by job 2 of anna", "a preemption");
    play_out("k0:COMPLETED/0/2[11] k1:COMPLETED/0/1[1]");
}

static void test_cancel(int64_t uid, const char *who, const char *want)
{
    struct world_script s = elastic();
    begin(&s, who);
    play(10);
    is_int(engine_cancel(w.engine, 1, uid, &err), 0, "it is cancelled");
    play(INFINITY);
    event_says(EV_KILLED, who, "a cancel");
    attempt_says(who, "a cancel");
    play_out(want);
}

/* An administrator has lowered the limit in Slurm, or its deadline has come. */
static void test_slurms_limit(double run_s, const char *who)
{
    struct world_script s =
        one((struct world_attempt){.run_s = run_s, .ended_by = ALLOC_BY_LIMIT});
    s.jobs[0].spec_more = ",\"time_limit\":\"60s\"},\"retry\":{\"max\":0}}";
    begin(&s, who);
    play(INFINITY);
    event_says(EV_EXPIRE, who, "a time limit");
    attempt_says(who, "a time limit");
    play_out("k0:TIMEOUT/124/1[1]");
}

int main(void)
{
    test_slurms_limit(20, "time limit in Slurm reached, before the job's own "
                          "of 60 s");
    test_slurms_limit(60, "time limit of 60 s reached");
    test_pause();
    test_requeue(1000, "requeued by its user");
    test_requeue(0, "requeued by an administrator");
    test_resize();
    test_preempted();
    test_cancel(1000, "cancelled by its user", "k0:CANCELLED/130/1[1]");
    test_cancel(0, "cancelled by an administrator", "k0:CANCELLED/143/1[1]");
    return tap_done();
}
