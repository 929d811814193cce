/* backfill.c - the reservation: when it is, who may pass it, who may not. */
#include "tests/unit/policy/view.h"

static const struct policy *const bf = &policy_backfill;

/* 4 GPUs, 2 busy for 90 s more; job 2 wants all 4. */
static void setup(struct view *t)
{
    view_init(t, 1, 4);
    view_run(t, 0, 2, 10, 100);
    view_job(t, 4, 4, 1000);
}

static void test_time(void)
{
    struct view t;

    setup(&t);
    view_job(&t, 2, 2, 90);
    is_plan(&t, bf, "2:WaitingForGpus +3:1x2", "ends just in time");
    ok(t.decisions[0].start_s == 1090, "the head knows when it starts");

    t.jobs[2].limit_s = 91;
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved", "ends a second late");
    is_str(t.decisions[1].reason,
           "Reserved: would delay job 2, which starts by 1970-01-01T00:01:30Z",
           "and says whom it would delay");
    t.jobs[2].limit_s = INFINITY;
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved", "no limit");

    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 3;
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved", "one left beside the head");
    t.jobs[2].gpus_min = 1;
    is_plan(&t, bf, "2:WaitingForGpus +3:1x1", "one is enough for this one");
    view_job(&t, 1, 1, INFINITY);
    is_plan(&t, bf, "2:WaitingForGpus +3:1x1 4:Reserved",
            "the head's share is given away once");
}

static void test_order(void)
{
    struct view t;

    view_init(&t, 1, 4);
    view_job(&t, 3, 3, 50);
    view_job(&t, 2, 2, 50);
    view_job(&t, 1, 1, 50);
    view_job(&t, 1, 1, 50);
    is_plan(&t, bf, "+1:1x3 2:WaitingForGpus +3:1x1 4:WaitingForGpus",
            "jobs that this plan starts count for the reservation");
    ok(t.decisions[1].start_s == 1050, "the head follows the first");
    t.jobs[2].limit_s = 51;
    is_plan(&t, bf, "+1:1x3 2:WaitingForGpus +3:1x1 4:WaitingForGpus",
            "3 GPUs come free, 2 are needed");
    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 4;
    is_plan(&t, bf, "+1:1x3 2:WaitingForGpus 3:Reserved +4:1x1",
            "the later one ends in time");
}

static void test_unlimited(void)
{
    struct view t;

    view_init(&t, 1, 4);
    view_run(&t, 0, 2, 10, INFINITY);
    view_job(&t, 4, 4, 10);
    view_job(&t, 1, 1, 5000);
    view_job(&t, 1, 1, INFINITY);
    is_plan(&t, bf, "2:WaitingForGpus +3:1x1 4:Reserved",
            "behind an endless job only what ends passes");
    ok(isnan(t.decisions[0].start_s), "the time is not known");
    is_str(t.decisions[2].reason, "Reserved: would delay job 2",
           "nor promised");
    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 3;
    is_plan(&t, bf, "2:WaitingForGpus +3:1x1 +4:1x1",
            "or what leaves the head its place");

    view_init(&t, 1, 4);
    view_run(&t, 0, 2, 200, 100);
    view_job(&t, 4, 4, 10);
    view_job(&t, 1, 1, 1);
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved",
            "a job past its limit ends any moment");
}

static void test_nodes(void)
{
    struct view t;

    view_init(&t, 2, 4);
    view_run(&t, 0, 2, 0, 100);
    view_run(&t, 1, 2, 0, 200);
    view_job(&t, 4, 4, 10);
    view_job(&t, 2, 2, 150);
    view_job(&t, 2, 2, 150);
    is_plan(&t, bf, "3:Fragmented 4:Reserved 5:Reserved",
            "best fit would put it on the head's node: it waits");
    t.nodes[1].gpus_free = 1;
    t.jobs[3].gpus_min = t.jobs[3].gpus_max = 1;
    is_plan(&t, bf, "3:WaitingForGpus +4:1x1 5:Reserved",
            "beside the head, on the other node");
    ok(t.decisions[0].start_s == 1100, "the earliest whole node counts");

    view_init(&t, 2, 4);
    t.nodes[1].is_up = 0;
    view_job(&t, 8, 8, 10)->nodes_max = 2;
    view_job(&t, 4, 4, INFINITY);
    is_plan(&t, bf, "1:WaitingForGpus +2:1x4",
            "no reservation while its node is down");

    view_init(&t, 2, 4);
    view_run(&t, 0, 4, 0, 100)->at = NULL;
    view_job(&t, 8, 8, 10)->nodes_max = 2;
    view_job(&t, 4, 4, INFINITY);
    view_job(&t, 4, 4, 10);
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved +4:1x4",
            "a running job of unknown place promises nothing");

    view_init(&t, 1, 4);
    view_job(&t, 5, 5, 10);
    view_job(&t, 1, 1, INFINITY);
    is_plan(&t, bf, "1:NeverFits +2:1x1", "the impossible reserves nothing");
}

/* Two kinds of nodes; a job of each that waits has a reservation. */
static void test_classes(void)
{
    struct view t;

    view_init(&t, 2, 4);
    t.nodes[1].class_id = 1;
    view_run(&t, 0, 4, 0, 100);
    view_run(&t, 1, 4, 0, 200);
    view_job(&t, 4, 4, 10)->classes = 1;
    view_job(&t, 4, 4, 10)->classes = 2;
    view_job(&t, 1, 1, 10);
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus 5:WaitingForGpus",
            "one waits on each");
    ok(t.decisions[0].start_s == 1100 && t.decisions[1].start_s == 1200,
       "and knows when it starts");
    ok(isnan(t.decisions[2].start_s), "who is behind both does not");
    t.nodes[1].gpus_free = t.nodes[0].gpus_free = 2;
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus +5:1x1",
            "it passes both in time");
    is_str(t.decisions[0].reason, "WaitingForGpus: needs 4, 2 free",
           "only their own nodes count");

    /* Job 5 would go to node 0, in the way of job 3. */
    t.jobs[4].limit_s = 150;
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus 5:Reserved",
            "not one that is in the way");
    t.jobs[4].classes = 2;
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus +5:1x1",
            "but where it is none");

    /* Head 3 has one to spare, head 4 has not. What was taken from the first
     * for job 5, which the second refuses, is there for job 6. */
    view_init(&t, 2, 4);
    t.nodes[1].class_id = 1;
    view_run(&t, 0, 3, 0, 100);
    view_run(&t, 1, 3, 0, 100);
    view_job(&t, 3, 3, 10)->classes = 1;
    view_job(&t, 4, 4, 10)->classes = 2;
    view_job(&t, 2, 2, INFINITY);
    t.jobs[4].nodes_min = t.jobs[4].nodes_max = 2;
    view_job(&t, 1, 1, INFINITY)->classes = 1;
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus 5:Reserved +6:1x1",
            "both heads are asked");
    is_str(t.decisions[2].reason,
           "Reserved: would delay job 4, which starts by 1970-01-01T00:01:40Z",
           "and the one in the way is named");
}

static void test_closed(void)
{
    struct view t;

    view_init(&t, 2, 4);
    t.nodes[1].class_id = 7;
    view_job(&t, 4, 4, INFINITY);
    view_job(&t, 8, 8, 10)->nodes_max = 2;
    t.jobs[0].classes = t.jobs[1].classes = 1;
    view_job(&t, 4, 4, INFINITY)->classes = 1 << 7;
    is_plan(&t, bf, "+1:1x4 2:WaitingForGpus +3:1x4",
            "no reservation while some nodes are closed to it");
    is_str(t.decisions[1].reason,
           "WaitingForGpus: needs 8, 0 free (1 node is down, drained "
           "or reserved)",
           "and it says so");
    t.jobs[1].classes_ever = 1;
    is_plan(&t, bf, "+1:1x4 2:NeverFits +3:1x4", "nor when they always are");
}

static void test_exclusive(void)
{
    struct view t;

    view_init(&t, 2, 4);
    view_run(&t, 0, 1, 0, 100);
    view_job(&t, 1, 1, 50)->is_exclusive = 1;
    view_job(&t, 1, 1, 50)->is_exclusive = 1;
    view_job(&t, 3, 3, INFINITY);
    is_plan(&t, bf, "+2:1x1 3:WaitingForGpus +4:1x3", "a node to itself");
    ok(t.decisions[1].start_s == 1050,
       "the next has the one that is empty first");
    is_str(t.decisions[1].reason,
           "WaitingForGpus: needs 1 on 1 empty node, 0 are empty",
           "and says what it waits for");
    t.jobs[1].limit_s = INFINITY;
    is_plan(&t, bf, "+2:1x1 3:WaitingForGpus 4:Reserved",
            "nobody goes where it will be alone");
}

int main(void)
{
    test_time();
    test_order();
    test_unlimited();
    test_nodes();
    test_classes();
    test_closed();
    test_exclusive();
    return tap_done();
}
