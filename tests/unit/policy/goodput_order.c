/* goodput_order.c - who goes before whom under goodput: probes of new classes,
 * priorities, and what a pause costs. */
#include "tests/unit/policy/goodput_view.h"

/* One job of a class that never ran. */
static void test_probe(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = 2;
    t.nodes[0].gpus_free = 1;
    c.curve[1].largest = 0;
    elastic(&t, &c, 0, 100);
    elastic(&t, &c, 1, NAN);
    elastic(&t, &c, 1, NAN);
    is_text(&t, "+2:1 1- 3-", "it goes before the shortest");
    t.nodes[0].gpus_free = 2;
    is_text(&t, "+1:1 +2:1 3-", "one of each class");
    t.v.n_jobs = 1;
    running(&t, &c, 1, NAN, 0, 1, 10);
    elastic(&t, &c, 1, NAN);
    is_text(&t, "+1:1 3-", "  or the one that runs");
    t.jobs[2].goodput.curve = &c.curve[2];
    set_curve(&c, 2, poor, 4);
    c.curve[2].largest = 0;
    is_text(&t, "+3:1 1-", "  and of each other one");
}

/* A probe ages, too: known jobs that have waited for their own length or more
 * are there all the time in a backlog. */
static void test_probe_ages(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
    t.v.goodput.aging = 2;
    c.curve[1].largest = 0;
    struct policy_job *known = elastic(&t, &c, 0, 500);
    known->goodput.one_s = 500;
    known->submit_s = t.v.now_s - 2000;
    elastic(&t, &c, 1, NAN)->submit_s = t.v.now_s - 600;
    is_text(&t, "+2:1 1-", "a class that never ran has waited for ten minutes");
    t.jobs[1].goodput.curve = &c.curve[0];
    is_text(&t, "+1:1 2-",
            "a known class whose job tells no length: as the others");

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
    t.v.goodput.aging = 2;
    elastic(&t, &c, 0, NAN)->submit_s = t.v.now_s - 20000;
    known = elastic(&t, &c, 0, 500);
    known->submit_s = t.v.now_s - 2000;
    is_text(&t, "+1:1 2-", "  and it ages with the length of the others");
}

/* The time in which a job may not start, by its own wish, is no slowdown. */
static void test_eligible(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
    t.v.goodput.aging = 2;
    struct policy_job *late = elastic(&t, &c, 0, 600);
    late->submit_s = t.v.now_s - 86400;
    elastic(&t, &c, 0, 500)->submit_s = t.v.now_s - 1500;
    is_text(&t, "+1:1 2-", "a job that has waited for a day goes first");
    late->eligible_s = t.v.now_s - 60;
    is_text(&t, "+2:1 1-", "  not if it could not start until now");
    t.jobs[1].eligible_s = t.v.now_s;
    late->eligible_s = t.v.now_s + 86400;
    is_text(&t, "+2:1 1-", "  nor by a clock that was set back");
}

/* Two GPUs that a job cannot do without are worth what they do. */
static void test_least(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 2;
    elastic(&t, &c, 0, 500)->gpus_min = 2;
    elastic(&t, &c, 0, 600);
    is_text(&t, "+1:2 2-", "a shorter job that needs two GPUs goes first");
    t.jobs[0].goodput.curve = &c.curve[1];
    is_text(&t, "+2:2 1-", "  not one that hardly uses the second");
}

static struct policy_job *fixed(struct view *t, int32_t gpus, double one_s,
                                double speed)
{
    struct policy_job *job = view_job(t, gpus, gpus, INFINITY);

    job->cost_s = NAN;
    job->submit_s = t->v.now_s - 100;
    job->goodput.left_one_s = job->goodput.one_s = one_s;
    job->goodput.speed = speed;
    return job;
}

/* A job of one size has no advantage over one with a range, until it is late.
 */
static void test_fixed(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    struct policy_job *job = fixed(&t, 4, 1000, 3.4);
    elastic(&t, &c, 0, 900)->submit_s = t.v.now_s;
    is_text(&t, "+2:4 1-", "one size competes with ranges");
    job->goodput.left_one_s = 800;
    is_text(&t, "+1:4 2-", "  by what it has left to do");
    job->goodput.speed = 1.3;
    is_text(&t, "+2:4 1-", "  and by its speed");
    job->goodput.left_one_s = 1000;
    job->goodput.speed = 3.4;
    job->submit_s = t.v.now_s - 2 * 1000 / 3.4 - 1;
    is_text(&t, "+1:4 2-", "one that is late goes first");
    job->eligible_s = t.v.now_s - 100;
    is_text(&t, "+2:4 1-", "  if it could have started before");
    job->goodput.one_s = NAN;
    is_text(&t, "+1:4 2-", "of unknown length: as under backfill");

    setup(&t, &c, 1);
    (void)view_run(&t, 0, 2, 600, INFINITY);
    fixed(&t, 2, 900, 1.9)->submit_s = t.v.now_s;
    elastic(&t, &c, 0, 1000)->submit_s = t.v.now_s;
    is_text(&t, "+2:2 3-", "it takes what is free");
    t.v.n_jobs = 0;
    setup(&t, &c, 1);
    fixed(&t, 4, 1000, 3.4)->priority = 10;
    (void)view_run(&t, 0, 2, 600, INFINITY);
    fixed(&t, 2, 900, 1.9)->submit_s = t.v.now_s;
    (void)elastic(&t, &c, 0, 1e6);
    t.jobs[3].submit_s = t.v.now_s;
    is_text(&t, "+4:2 1- 3-", "one of lower priority does not pass it");
}

static void test_priority(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 1000)->priority = 10;
    elastic(&t, &c, 0, 900);
    is_text(&t, "+1:4 2-", "a higher priority chooses first");
    t.v.goodput.efficiency_floor = 0.91;
    is_text(&t, "+1:2 +2:2", "  what it uses well");
    t.v.goodput.efficiency_floor = 0.4;
    t.v.goodput.priority = POLICY_PRIORITY_WEIGHT;
    is_text(&t, "+2:3 +1:1", "or weighs more");

    setup(&t, &c, 1);
    elastic(&t, &c, 0, 1e6)->priority = 10;
    running(&t, &c, 0, 1e5, 0, 4, 600);
    is_text(&t, "1- 2=1", "a live one keeps its smallest size");
    t.v.goodput.priority = POLICY_PRIORITY_WEIGHT;
    is_text(&t, "1- 2=2", "  or what its weight gives");

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 2;
    elastic(&t, &c, 0, 1e5)->priority = 10;
    running(&t, &c, 0, 1000, 0, 1, 600);
    running(&t, &c, 0, 1000, 0, 1, 600);
    is_text(&t, "1- 3=0", "one of two goes for the start of a higher one");
    t.jobs[1].goodput.paid_s = t.jobs[2].goodput.paid_s = t.v.now_s + 1;
    is_text(&t, "1-", "  once it has paid for its own");

    setup(&t, &c, 1);
    set_curve(&c, 2, jumps, 4);
    running(&t, &c, 2, 1e5, 0, 1, 600)->priority = 10;
    running(&t, &c, 0, 1000, 0, 2, 10);
    elastic(&t, &c, 0, 10);
    is_text(&t, "3- 1=2", "it grows as far as GPUs are free");

    static const double linear[] = {1, 2, 3, 4};
    setup(&t, &c, 1);
    set_curve(&c, 2, linear, 4);
    struct policy_job *fast = elastic(&t, &c, 2, 1e5);
    fast->priority = 50;
    fast->goodput.goal = POLICY_GOAL_SPEED;
    (void)view_run(&t, 0, 2, 600, INFINITY);
    running(&t, &c, 0, 1000, 0, 1, 600);
    running(&t, &c, 0, 1000, 0, 1, 600);
    is_text(&t, "1- 4=0", "its first step is too large: the smallest size");
}

/* A pause costs a restart. */
static void test_pause(void)
{
    static struct view t;
    static struct curves c;

    setup(&t, &c, 1);
    t.nodes[0].gpus_total = t.nodes[0].gpus_free = 1;
    struct policy_job *job = running(&t, &c, 0, 5000, 0, 1, 600);
    elastic(&t, &c, 0, 4000);
    is_text(&t, "2- 1=0", "a shorter job takes the GPU of a long one");
    job->cost_s = 900;
    is_text(&t, "2-", "not if that takes long to start again");
    t.jobs[1].goodput.left_one_s = 300;
    t.v.goodput.length_weight = 1;
    is_text(&t, "2- 1=0", "but if it is worth the restart");
    job->goodput.left_one_s = 400;
    is_text(&t, "2-", "not if the other is about to end");
}

int main(void)
{
    test_probe();
    test_probe_ages();
    test_eligible();
    test_least();
    test_fixed();
    test_priority();
    test_pause();
    return tap_done();
}
