/* preempt.c - from whom devices are taken back, for whom, and who gets them.
 */
#include <stdlib.h>

#include "tests/unit/policy/view.h"

static const struct policy *const bf = &policy_backfill;

/* n nodes of 4 GPUs; a job may be told to go after 600 s, and has 60 s. */
static void setup(struct view *t, int n)
{
    view_init(t, n, 4);
    t->v.now_s = 10000;
    t->v.preempt = (struct policy_preempt){
        .is_on = 1, .grace_s = 120, .min_runtime_s = 600};
}

/* It runs since ran_s, without a limit. */
static struct policy_job *runs(struct view *t, int32_t node, int32_t gpus,
                               double ran_s)
{
    struct policy_job *job = view_run(t, node, gpus, ran_s, INFINITY);
    job->may_go = 1;
    job->grace_s = 60;
    job->preempted_s = -INFINITY;
    return job;
}

/* A view is in the policy's order; the tests make theirs as it comes. */
static struct policy_job *urgent(struct view *t, int32_t gpus, int32_t priority)
{
    struct policy_job *job = view_job(t, gpus, gpus, INFINITY);
    job->priority = priority;
    return job;
}

static int by_order(const void *a, const void *b)
{
    return policy_view_in_order(a, b) ? -1 : 1;
}

static void sort(struct view *t)
{
    qsort(t->jobs, t->v.n_jobs, sizeof(t->jobs[0]), by_order);
}

static struct policy_job *job(struct view *t, uint64_t id)
{
    size_t i = 0;
    while (t->jobs[i].id != id)
        i++;
    return &t->jobs[i];
}

static const struct policy_decision *decision(const struct view *t, uint64_t id)
{
    size_t i = 0;
    while (t->decisions[i].id != id)
        i++;
    return &t->decisions[i];
}

/* One node, full: job 1 with 4 GPUs. Job 2 wants them. */
static void one(struct view *t)
{
    setup(t, 1);
    (void)runs(t, 0, 4, 3600);
    (void)urgent(t, 4, 50);
    sort(t);
}

static void test_guards(void)
{
    static const char no[] = "2:WaitingForGpus";
    struct view t;

    one(&t);
    is_plan(&t, bf, "-1>2 2:WaitingForPreemption", "it goes");
    is_plan(&t, &policy_fifo, "-1>2 2:WaitingForPreemption", "in fifo, too");
    is_str(decision(&t, 2)->reason,
           "WaitingForPreemption: needs 4, released by job 1",
           "and who waits says who goes");
    ok(decision(&t, 2)->start_s == 10060, "and when he is gone");
    ok(decision(&t, 2)->has_reservation && decision(&t, 2)->nodes == 1 &&
           decision(&t, 2)->gpus_per_node == 4,
       "and what it gets");
    is_str(decision(&t, 1)->reason, "Preempted: for job 2, priority 50 over 0",
           "and who goes says for whom");

    t.v.preempt.is_on = 0;
    is_plan(&t, bf, no, "not where it is switched off");
    one(&t);
    job(&t, 1)->priority = 50;
    sort(&t);
    is_plan(&t, bf, no, "not one of the same priority");
    one(&t);
    job(&t, 1)->may_go = 0;
    is_plan(&t, bf, no, "not one that may not");
    one(&t);
    job(&t, 1)->start_s = 10000 - 599;
    is_plan(&t, bf, no, "not one that has just begun");
    job(&t, 1)->start_s = 10000 - 600;
    is_plan(&t, bf, "-1>2 2:WaitingForPreemption", "a second later it goes");
    job(&t, 1)->preempted_s = 10000 - 599;
    is_plan(&t, bf, no, "not one that went 599 s ago");
    job(&t, 1)->preempted_s = 10000 - 600;
    is_plan(&t, bf, "-1>2 2:WaitingForPreemption", "  but 600 s ago");
    job(&t, 1)->at = NULL;
    is_plan(&t, bf, no, "not one of which nobody knows where it is");
    one(&t);
    job(&t, 1)->limit_s = 3600 + 120;
    is_plan(&t, bf, no, "not one that ends as soon by itself");
    ok(decision(&t, 2)->has_reservation,
       "  whose devices are kept all the same");
    job(&t, 1)->limit_s = 3600 + 121;
    is_plan(&t, bf, "-1>2 2:WaitingForPreemption",
            "a second more, and it goes");
    t.nodes[0].is_up = 0;
    is_plan(&t, bf, no, "not on a node that is down");
    one(&t);
    t.nodes[0].class_id = 3;
    job(&t, 2)->classes = job(&t, 2)->classes_ever = 1 << 4;
    is_plan(&t, bf, "2:NeverFits", "nor on one that is of no use");
}

/* Two nodes of 4. */
static void test_enough(void)
{
    struct view t;

    setup(&t, 2);
    (void)runs(&t, 0, 3, 3600);
    (void)runs(&t, 1, 4, 3600);
    job(&t, 2)->may_go = 0;
    (void)urgent(&t, 4, 50);
    sort(&t);
    is_plan(&t, bf, "-1>3 3:WaitingForPreemption",
            "what is free counts with what is left");
    job(&t, 3)->gpus_min = job(&t, 3)->gpus_max = 8;
    job(&t, 3)->nodes_max = 2;
    is_plan(&t, bf, "3:WaitingForGpus", "nobody goes if that is not enough");
    job(&t, 2)->may_go = 1;
    is_plan(&t, bf, "-2>3 -1>3 3:WaitingForPreemption", "two, for two nodes");
    job(&t, 3)->gpus_min = job(&t, 3)->gpus_max = 2;
    job(&t, 3)->nodes_min = 2;
    is_plan(&t, bf, "-2>3 3:WaitingForPreemption",
            "the shape counts: one of each node");
}

/* Whom: the least work lost, then the fewest jobs, then the fewest GPUs. */
static void test_cheapest(void)
{
    struct view t;

    setup(&t, 2);
    (void)runs(&t, 0, 2, 3600);
    (void)runs(&t, 0, 2, 3600);
    (void)runs(&t, 1, 4, 7200);
    (void)urgent(&t, 4, 50);
    sort(&t);
    is_plan(&t, bf, "-3>4 4:WaitingForPreemption", "one rather than two");
    job(&t, 3)->lost_s = 10;
    is_plan(&t, bf, "-2>4 -1>4 4:WaitingForPreemption",
            "two rather than one that loses work");
    job(&t, 2)->lost_s = 21;
    is_plan(&t, bf, "-3>4 4:WaitingForPreemption",
            "less work, by the number of GPUs it is done on");
    job(&t, 2)->lost_s = job(&t, 3)->lost_s = 0;
    job(&t, 4)->gpus_min = job(&t, 4)->gpus_max = 1;
    is_plan(&t, bf, "-2>4 4:WaitingForPreemption",
            "a small one for a small one");
    job(&t, 1)->priority = -1;
    sort(&t);
    is_plan(&t, bf, "-1>4 4:WaitingForPreemption", "the least important");
    job(&t, 1)->priority = 0;
    job(&t, 1)->start_s += 1;
    sort(&t);
    is_plan(&t, bf, "-1>4 4:WaitingForPreemption", "who has begun last");

    setup(&t, 1);
    (void)runs(&t, 0, 1, 3600);
    (void)runs(&t, 0, 1, 3600);
    urgent(&t, 1, 50)->is_exclusive = 1;
    sort(&t);
    is_plan(&t, bf, "-2>3 -1>3 3:WaitingForPreemption",
            "all of a node that one wants to itself");
}

/* 3 GPUs leave for job 2, which wants 4; one is free. */
static void leaving(struct view *t, int n_nodes)
{
    setup(t, n_nodes);
    struct policy_job *v = runs(t, 0, 3, 3600);
    v->may_go = 0;
    v->is_leaving = 1;
    v->leaves_s = 10030;
    v->leaves_for = 2;
    urgent(t, 4, 50)->has_reservation = 1;
}

static void test_kept(void)
{
    struct view t;

    leaving(&t, 1);
    view_job(&t, 1, 1, 10);
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption 3:Reserved",
            "what is free meanwhile is kept, too");
    is_plan(&t, &policy_fifo, "2:WaitingForPreemption 3:Reserved", "in fifo");
    is_str(decision(&t, 3)->reason,
           "Reserved: would delay job 2, which starts by 1970-01-01T00:00:30Z",
           "  until then");
    (void)urgent(&t, 1, 60);
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption 4:Reserved 3:Reserved",
            "also from one that is more important");
    job(&t, 1)->state = JOB_QUEUED;
    job(&t, 1)->at = NULL;
    job(&t, 1)->is_leaving = 0;
    t.nodes[0].gpus_free = 4;
    sort(&t);
    is_plan(&t, bf, "+2:1x4 4:WaitingForGpus 1:WaitingForGpus 3:WaitingForGpus",
            "it starts when all have gone");
    t.nodes[0].gpus_free = 3;
    is_plan(&t, bf, "2:WaitingForPreemption 4:Reserved 1:Reserved 3:Reserved",
            "nobody passes while one of its GPUs is not there yet");

    leaving(&t, 2);
    (void)runs(&t, 1, 4, 3600);
    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 4;
    t.jobs[0].leaves_s = 10000 - 61;
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption",
            "nobody else goes for one that is owed");
    job(&t, 2)->has_reservation = 0;
    sort(&t);
    is_plan(&t, bf, "-3>2 2:WaitingForPreemption",
            "but when it is not any more");
    job(&t, 1)->leaves_s = 10000 - 59;
    job(&t, 1)->leaves_for = 0;
    is_plan(&t, bf, "2:WaitingForGpus", "nor where somebody is cancelled");
    ok(decision(&t, 2)->has_reservation, "  which is waited for");
}

/* What comes free first fits both who are owed something. */
static void test_owed(void)
{
    struct view t;

    leaving(&t, 2);
    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 3;
    t.nodes[0].gpus_free = 0;
    urgent(&t, 4, 10)->has_reservation = 1;
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption +3:1x4",
            "nobody starts with what another is owed");
    is_plan(&t, &policy_fifo, "2:WaitingForPreemption +3:1x4", "in fifo, too");
    t.jobs[2].is_leaving = 0;
    is_plan(&t, bf, "+2:1x3 3:WaitingForPreemption",
            "but where nobody leaves any more");
}

/* All have left: 2 GPUs of one node, and 4 of the other. */
static void test_owed_wide(void)
{
    struct view t;

    setup(&t, 2);
    t.nodes[0].gpus_free = 2;
    urgent(&t, 2, 50)->has_reservation = 1;
    struct policy_job *wide = urgent(&t, 4, 10);
    wide->nodes_min = wide->nodes_max = 2;
    wide->has_reservation = 1;
    sort(&t);
    is_plan(&t, bf, "1:WaitingForPreemption +2:2x2",
            "of two who have room the wide one goes first");
    is_plan(&t, &policy_fifo, "1:WaitingForPreemption +2:2x2", "in fifo, too");
    t.nodes[1].gpus_free = 2;
    is_plan(&t, bf, "+1:1x2 2:WaitingForPreemption",
            "but who is first, where there is none for both");
}

/* Job 1 leaves node 1 for job 2, which wants 3 GPUs; one more of that node
 * stays with job 3. Node 0 is free. */
static void half_left(struct view *t, int n_nodes)
{
    setup(t, n_nodes);
    struct policy_job *v = runs(t, 1, 3, 3600);
    v->may_go = 0;
    v->is_leaving = 1;
    v->leaves_s = 10030;
    v->leaves_for = 2;
    urgent(t, 3, 50)->has_reservation = 1;
    runs(t, 1, 1, 3600)->may_go = 0;
}

/* The allocator places a start when it grants it, and somebody has gone by
 * then. */
static void test_late(void)
{
    struct view t;

    half_left(&t, 2);
    t.nodes[0].gpus_free = 2;
    (void)urgent(&t, 2, 10);
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption 4:Reserved",
            "nobody starts who could be put where another is to go");
    is_plan(&t, &policy_fifo, "2:WaitingForPreemption 4:Reserved", "in fifo");
    job(&t, 4)->gpus_min = job(&t, 4)->gpus_max = 1;
    t.nodes[1].gpus_total = 5;
    job(&t, 1)->gpus = 4;
    is_plan(&t, bf, "2:WaitingForPreemption +4:1x1",
            "but who leaves room there");

    half_left(&t, 2);
    urgent(&t, 2, 60)->has_reservation = 1;
    (void)urgent(&t, 2, 10);
    sort(&t);
    is_plan(&t, bf, "+4:1x2 2:WaitingForPreemption 5:Reserved",
            "one of two: either leaves room, both together may not");
    is_plan(&t, &policy_fifo, "+4:1x2 2:WaitingForPreemption 5:Reserved",
            "in fifo, too");

    half_left(&t, 2);
    t.nodes[0].gpus_free = 2;
    urgent(&t, 2, 10)->has_reservation = 1;
    sort(&t);
    is_plan(&t, bf, "2:WaitingForPreemption +4:1x2",
            "one who is owed something is not held up for another by that");
}

/* Job 2 gets one GPU on each of two nodes; 5 goes to node 3, or to node 0, and
 * then 6 finds no room there. */
static void test_late_queue(void)
{
    struct view t;

    setup(&t, 4);
    for (int32_t i = 1; i <= 2; i++) {
        struct policy_job *v = runs(&t, i, 4, 3600);
        v->is_leaving = 1;
        v->leaves_s = 10030;
        v->leaves_for = 3;
        t.nodes[i].class_id = 1;
    }
    struct policy_job *o = urgent(&t, 2, 50);
    o->nodes_min = o->nodes_max = 2;
    o->classes = o->classes_ever = 1 | 2;
    o->has_reservation = 1;
    runs(&t, 3, 3, 3600)->may_go = 0;
    t.nodes[3].class_id = 2;
    urgent(&t, 1, 20)->classes = 1 | 4;
    urgent(&t, 4, 10)->classes = 1;
    sort(&t);
    is_plan(&t, bf, "3:WaitingForPreemption +5:1x1 6:Reserved",
            "nor one who may wait in the allocator, before another");
    job(&t, 5)->state = JOB_DISPATCHING;
    job(&t, 5)->gpus = job(&t, 5)->nodes = 1;
    job(&t, 5)->start_s = t.v.now_s;
    t.at[4][0] = 3;
    job(&t, 5)->at = t.at[4];
    t.nodes[3].gpus_free = 0;
    is_plan(&t, bf, "3:WaitingForPreemption +6:1x4",
            "  but one whose place is sure");
}

/* Jobs 3 and 4 have just been given node 0. */
static void test_late_told(void)
{
    struct view t;

    setup(&t, 2);
    (void)runs(&t, 1, 3, 3600);
    runs(&t, 1, 1, 3600)->may_go = 0;
    (void)urgent(&t, 2, 60);
    (void)urgent(&t, 2, 60);
    (void)urgent(&t, 3, 50);
    sort(&t);
    is_plan(&t, bf, "+3:1x2 +4:1x2 5:WaitingForGpus",
            "nobody goes while others may be put there instead");
    is_plan(&t, &policy_fifo, "+3:1x2 +4:1x2 5:WaitingForGpus", "in fifo");
    for (uint64_t id = 3; id <= 4; id++) {
        job(&t, id)->state = JOB_DISPATCHING;
        job(&t, id)->gpus = 2;
        job(&t, id)->nodes = 1;
        job(&t, id)->start_s = t.v.now_s;
        job(&t, id)->at = t.at[id - 1];
        job(&t, id)->is_promised = 1;
    }
    t.nodes[0].gpus_free = 0;
    is_plan(&t, bf, "5:WaitingForGpus", "  nor as long as that is not granted");
    job(&t, 3)->is_promised = job(&t, 4)->is_promised = 0;
    is_plan(&t, bf, "-1>5 5:WaitingForPreemption", "  but when it is");
}

static void test_several(void)
{
    struct view t;

    setup(&t, 1);
    (void)runs(&t, 0, 2, 3600);
    (void)runs(&t, 0, 2, 3600);
    (void)urgent(&t, 2, 50);
    (void)urgent(&t, 2, 40);
    (void)urgent(&t, 2, 30);
    sort(&t);
    is_plan(&t, bf,
            "-2>3 3:WaitingForPreemption -1>4 4:WaitingForPreemption "
            "5:WaitingForGpus",
            "each has its own");
    is_plan(&t, &policy_fifo,
            "-2>3 3:WaitingForPreemption -1>4 4:WaitingForPreemption "
            "5:WaitingForGpus",
            "in fifo, too");

    setup(&t, 2);
    runs(&t, 0, 4, 3600)->may_go = 0;
    (void)runs(&t, 1, 4, 3600);
    urgent(&t, 8, 50)->nodes_max = 2;
    (void)urgent(&t, 1, 40);
    sort(&t);
    is_plan(&t, bf, "3:WaitingForGpus 4:WaitingForGpus",
            "nobody goes for one that stands behind another");
    t.nodes[1].class_id = 1;
    job(&t, 3)->classes = job(&t, 3)->classes_ever = 1;
    job(&t, 3)->gpus_min = job(&t, 3)->gpus_max = 4;
    job(&t, 4)->classes = 2;
    is_plan(&t, bf, "3:WaitingForGpus -2>4 4:WaitingForPreemption",
            "but for other nodes");
}

int main(void)
{
    test_guards();
    test_enough();
    test_cheapest();
    test_kept();
    test_owed();
    test_owed_wide();
    test_late();
    test_late_queue();
    test_late_told();
    test_several();
    return tap_done();
}
