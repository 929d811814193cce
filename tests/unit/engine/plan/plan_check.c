/* plan_check.c - plans that a wrong policy could make are refused. */
#include <math.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "tests/tap.h"

static struct policy_node nodes[2];
static struct policy_job jobs[3];
static struct policy_view view = {
    .nodes = nodes, .n_nodes = 2, .jobs = jobs, .n_jobs = 3};

static void reset(void)
{
    nodes[0] = nodes[1] =
        (struct policy_node){.gpus_total = 4, .gpus_free = 4, .is_up = 1};
    for (int i = 0; i < 3; i++)
        jobs[i] = (struct policy_job){.id = (uint64_t)i + 1,
                                      .state = JOB_QUEUED,
                                      .gpus_min = 2,
                                      .gpus_max = 4,
                                      .nodes_min = 1,
                                      .nodes_max = 2,
                                      .classes = POLICY_ANY_CLASS};
    jobs[2].state = JOB_RUNNING;
}

static void verdict(struct policy_decision a, struct policy_decision b,
                    size_t n, const char *why, const char *what)
{
    struct policy_decision decisions[3] = {a, b, b};
    struct error err = ERROR_INIT;

    int rc = eng_check_plan(&view, decisions, n, &err);
    is_str(rc == 0 ? "good" : err.msg, why, what);
}

static struct policy_decision start(uint64_t id, int32_t n, int32_t per)
{
    return (struct policy_decision){
        .act = POLICY_START, .id = id, .nodes = n, .gpus_per_node = per};
}

static struct policy_decision wait(uint64_t id)
{
    return (struct policy_decision){.act = POLICY_WAIT, .id = id};
}

/* Job 3 has what job 1 wants; job 2 waits for something else. */
static void reset_full(void)
{
    static const int32_t at[] = {0};

    reset();
    view.preempt = (struct policy_preempt){
        .is_on = 1, .grace_s = 60, .min_runtime_s = 600};
    view.now_s = 5000;
    view.n_nodes = 1;
    nodes[0].gpus_free = 0;
    jobs[0].priority = 50;
    jobs[2].gpus = 4;
    jobs[2].nodes = jobs[2].may_go = 1;
    jobs[2].at = at;
    jobs[2].start_s = 4000;
    jobs[2].limit_s = INFINITY;
    jobs[2].preempted_s = -INFINITY;
}

/* Job 3, which runs with two GPUs on a node, changes its size. */
static void resizes(int32_t n, int32_t per, const char *why, const char *what)
{
    const struct policy_decision decisions[] = {
        {.act = POLICY_RESIZE, .id = 3, .nodes = n, .gpus_per_node = per},
        wait(1),
        wait(2)};
    struct error err = ERROR_INIT;
    int rc = eng_check_plan(&view, decisions, 3, &err);
    const char *got = rc == 0 ? "good" : strrchr(err.msg, ':');
    is_str(rc == 0 ? got : got ? got + 2 : err.msg, why, what);
}

static void reset_running(void)
{
    reset();
    view.preempt = (struct policy_preempt){.min_runtime_s = 600};
    view.now_s = 5000;
    jobs[2].gpus = 2;
    jobs[2].nodes = jobs[2].may_resize = 1;
    jobs[2].start_s = 4000;
}

static void test_resize(void)
{
    reset_running();
    resizes(1, 4, "good", "four on a node");
    resizes(2, 2, "good", "on two nodes");
    resizes(2, 1, "good", "as many, on two nodes");
    resizes(1, 2, "it has them", "what it has");
    resizes(1, 1, "it may not have them", "less than its range");
    resizes(2, 3, "it may not have them", "more than its range");
    resizes(3, 1, "it may not have them", "more nodes than it may have");
    jobs[2].parts = 3;
    resizes(1, 4, "it may not have them", "four of three micro-batches");
    resizes(1, 3, "good", "  three");
    nodes[1].is_up = 0;
    jobs[2].parts = 0;
    resizes(2, 2, "the nodes that are up have fewer", "a node is down");
    nodes[0].gpus_free = 0;
    resizes(1, 4, "good", "what is free now does not count");
    jobs[2].start_s = 4500;
    resizes(1, 4, "it is below its minimum run time", "too early");
    reset_running();
    jobs[2].is_leaving = 1;
    resizes(1, 4, "it cannot be resized", "one that leaves");
    reset_running();
    jobs[2].may_resize = 0;
    resizes(1, 4, "it cannot be resized", "one that does not save");
    reset();
}

static void goes(int32_t gpus, const char *why, const char *what)
{
    struct policy_decision decisions[] = {
        {.act = POLICY_PREEMPT, .id = 3, .for_id = 1},
        {.act = POLICY_WAIT,
         .id = 1,
         .has_reservation = 1,
         .nodes = 1,
         .gpus_per_node = gpus},
        wait(2)};
    struct error err = ERROR_INIT;

    int rc = eng_check_plan(&view, decisions, 3, &err);
    is_str(rc == 0 ? "good" : err.msg, why, what);
}

static void test_goes(void)
{
#define NO "job 3 cannot be preempted for job 1: "
    reset_full();
    goes(4, "good", "a job goes for another");
    goes(5, "job 1 may not have 1 nodes with 5 GPUs", "within its bounds");
    jobs[2].gpus = 3;
    goes(4, "no room for 1 nodes with 4 GPUs of job 1", "if that is enough");
    nodes[0].gpus_free = 1;
    goes(4, "good", "with what is free");
    reset_full();
    view.preempt.is_on = 0;
    goes(4, NO "preemption is off", "not where that is off");
    reset_full();
    jobs[2].may_go = 0;
    goes(4, NO "it is not preemptible", "not who may not");
    reset_full();
    jobs[2].is_leaving = 1;
    goes(4, NO "it is not preemptible", "not who does already");
    reset_full();
    jobs[2].start_s = 4401;
    goes(4, NO "it is below its minimum run time", "not so early");
    reset_full();
    jobs[2].preempted_s = 4401;
    goes(4, NO "it was preempted recently", "not so soon again");
    reset_full();
    jobs[2].priority = 50;
    goes(4, NO "its priority is not lower", "not for an equal");
    reset_full();
    verdict(
        (struct policy_decision){.act = POLICY_PREEMPT, .id = 3, .for_id = 1},
        wait(1), 3, NO "no pending job gets its GPUs",
        "not for one that gets none");
    jobs[1].state = JOB_RUNNING;
    verdict(
        (struct policy_decision){.act = POLICY_PREEMPT, .id = 3, .for_id = 1},
        wait(1), 2, NO "no pending job gets its GPUs", "not for nobody");
    verdict(
        (struct policy_decision){.act = POLICY_PREEMPT, .id = 1, .for_id = 1},
        wait(1), 2, "a stray decision for job 1", "not who waits");
    view.preempt = (struct policy_preempt){.is_on = 0};
    view.n_nodes = 2;
}

int main(void)
{
    test_goes();
    reset();
    verdict(start(1, 1, 4), start(2, 1, 4), 2, "good", "all that is free");
    verdict(start(1, 2, 2), start(2, 2, 2), 2, "good", "spread");
    verdict(wait(2), wait(1), 2, "good", "in any order");
    verdict(start(1, 1, 4), wait(2), 1, "1 decisions for 2 queued jobs",
            "one is missing");
    verdict(wait(1), wait(1), 2, "a second decision for job 1", "one twice");
    verdict(wait(1), wait(3), 2, "a stray decision for job 3", "one that runs");
    verdict(wait(1), wait(9), 2, "a stray decision for job 9", "one unknown");
    verdict(start(1, 1, 1), wait(2), 2,
            "job 1 may not have 1 nodes with 1 GPUs", "too few");
    verdict(start(1, 2, 3), wait(2), 2,
            "job 1 may not have 2 nodes with 3 GPUs", "too many");
    verdict(start(1, 3, 1), wait(2), 2,
            "job 1 may not have 3 nodes with 1 GPUs", "too many nodes");
    verdict(start(1, 2, -1), wait(2), 2,
            "job 1 may not have 2 nodes with -1 GPUs", "less than none");
    verdict((struct policy_decision){.act = POLICY_RESIZE, .id = 1}, wait(2), 2,
            "1 decisions for 2 queued jobs", "a pending job is not resized");
    nodes[1].is_up = 0;
    verdict(start(1, 1, 4), start(2, 1, 2), 2,
            "no room for 1 nodes with 2 GPUs of job 2", "a node is down");
    reset();
    nodes[1].class_id = 5;
    jobs[1].classes = 1;
    verdict(start(1, 1, 4), start(2, 1, 4), 2,
            "no room for 1 nodes with 4 GPUs of job 2",
            "another class than its own");
    jobs[1].classes = 1 << 5;
    verdict(start(2, 1, 4), start(1, 1, 4), 2, "good", "each in its own");
    reset();
    jobs[0].is_exclusive = 1;
    verdict(start(1, 2, 1), start(2, 1, 2), 2,
            "no room for 1 nodes with 2 GPUs of job 2",
            "nothing is left beside an exclusive job");
    nodes[0].gpus_free = 3;
    verdict(start(1, 2, 1), wait(2), 2,
            "no room for 2 nodes with 1 GPUs of job 1",
            "nor does it share itself");
    reset();
    nodes[0].gpus_free = 3;
    verdict(start(1, 1, 4), start(2, 1, 4), 2,
            "no room for 1 nodes with 4 GPUs of job 2", "given out twice");
    is_int(nodes[0].gpus_free, 3, "the view is left as it was");
    test_resize();
    return tap_done();
}
