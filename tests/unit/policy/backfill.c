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
    ok(t.wishes[0].start_s == 1090, "the head knows when it starts");

    t.jobs[2].limit_s = 91;
    is_plan(&t, bf, "2:WaitingForGpus 3:Reserved", "ends a second late");
    is_str(t.wishes[1].reason,
           "Reserved: would delay job 2, which starts in 90 s",
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
    ok(t.wishes[1].start_s == 1050, "the head follows the first");
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
    ok(isnan(t.wishes[0].start_s), "the time is not known");
    is_str(t.wishes[2].reason, "Reserved: would delay job 2", "nor promised");
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
    ok(t.wishes[0].start_s == 1100, "the earliest whole node counts");

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

int main(void)
{
    test_time();
    test_order();
    test_unlimited();
    test_nodes();
    return tap_done();
}
