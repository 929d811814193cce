/* fifo.c - strict order, shapes, reasons with numbers, bad views. */
#include "tests/unit/policy/view.h"

static const struct policy *const fifo = &policy_fifo;

static void test_list(void)
{
    ok(policy_find("fifo") == fifo, "fifo is known by name");
    ok(policy_find("backfill") == &policy_backfill, "so is backfill");
    ok(policy_find("nope") == NULL, "an unknown name is NULL");
    size_t n = 0;
    for (; policy_at(n); n++)
        ok(policy_find(policy_at(n)->name) == policy_at(n), "%s is listed",
           policy_at(n)->name);
    is_int((long long)n, 3, "three policies");
}

static void test_order(void)
{
    struct view t;

    view_init(&t, 1, 4);
    is_plan(&t, fifo, "", "nothing to do");
    view_job(&t, 2, 4, INFINITY);
    view_job(&t, 3, 3, INFINITY);
    view_job(&t, 1, 1, 10);
    is_plan(&t, fifo, "+1:1x2 2:WaitingForGpus 3:Priority",
            "the first pending job blocks the rest");
    is_str(t.decisions[1].reason, "WaitingForGpus: needs 3, 2 free",
           "the head says what it lacks");
    is_str(t.decisions[2].reason, "Priority: 1 ahead, first job 2",
           "the others say who is ahead");
    ok(isnan(t.decisions[1].start_s), "fifo promises no time");

    t.jobs[1].gpus_min = t.jobs[1].gpus_max = 1;
    is_plan(&t, fifo, "+1:1x2 +2:1x1 +3:1x1", "all that fit start");

    view_init(&t, 1, 4);
    view_run(&t, 0, 3, 5, 50);
    view_job(&t, 1, 1, 10);
    view_job(&t, 1, 1, 10);
    is_plan(&t, fifo, "+2:1x1 3:WaitingForGpus", "live jobs get no decision");
}

static void test_never(void)
{
    struct view t;

    view_init(&t, 2, 4);
    view_job(&t, 5, 5, 10);
    view_job(&t, 1, 1, 10);
    is_plan(&t, fifo, "1:NeverFits +2:1x1", "the impossible is stepped over");
    is_str(t.decisions[0].reason,
           "NeverFits: needs 5 on 1 node, there are 8 on 2, "
           "at most 4 on one",
           "with the numbers");

    view_init(&t, 2, 4);
    t.nodes[1].is_up = 0;
    view_job(&t, 8, 8, 10)->nodes_max = 2;
    view_job(&t, 1, 1, 10);
    is_plan(&t, fifo, "1:WaitingForGpus 2:Priority",
            "a node that is down may come back");
    is_str(t.decisions[0].reason,
           "WaitingForGpus: needs 8, 4 free (1 node is down, drained "
           "or reserved)",
           "and says so");
}

static void test_shapes(void)
{
    struct view t;
    struct policy_job *job;

    view_init(&t, 3, 4);
    view_run(&t, 0, 3, 1, 10);
    view_run(&t, 1, 3, 1, 10);
    view_run(&t, 2, 2, 1, 10);
    view_job(&t, 3, 3, 10);
    is_plan(&t, fifo, "4:Fragmented", "4 free, but nowhere 3");
    is_str(t.decisions[0].reason,
           "Fragmented: needs 3 on 1 node, 4 free, at most 2 on one node",
           "with the numbers");
    t.jobs[3].nodes_max = 3;
    is_plan(&t, fifo, "+4:3x1", "3 nodes of 1");
    t.jobs[3].gpus_max = 4;
    t.jobs[3].gpus_min = 4;
    is_plan(&t, fifo, "4:Fragmented", "not 2 + 1 + 1");

    view_init(&t, 2, 4);
    job = view_job(&t, 3, 4, 10);
    job->nodes_min = job->nodes_max = 2;
    is_plan(&t, fifo, "+1:2x2", "3 cannot be halved, 4 can");

    view_init(&t, 2, 4);
    view_job(&t, 0, 0, 10);
    view_job(&t, 4, 4, 10);
    view_job(&t, 4, 4, 10);
    view_job(&t, 0, 0, 10);
    is_plan(&t, fifo, "+1:1x0 +2:1x4 +3:1x4 +4:1x0", "CPU jobs take no GPU");

    view_init(&t, 2, 4);
    view_run(&t, 1, 2, 1, 10);
    view_job(&t, 2, 2, 10);
    view_job(&t, 4, 4, 10);
    is_plan(&t, fifo, "+2:1x2 +3:1x4", "best fit keeps whole nodes whole");
}

static void test_classes(void)
{
    struct view t;

    view_init(&t, 2, 4);
    t.nodes[1].class_id = 1;
    view_job(&t, 4, 4, 10)->classes = 1;
    view_job(&t, 4, 4, 10)->classes = 1;
    view_job(&t, 4, 4, 10)->classes = 2;
    view_job(&t, 1, 1, 10)->classes = 2;
    view_job(&t, 1, 1, 10);
    is_plan(&t, fifo,
            "+1:1x4 2:WaitingForGpus +3:1x4 4:WaitingForGpus "
            "5:Priority",
            "who wants other nodes does not stand in line");
    is_str(t.decisions[4].reason, "Priority: 2 ahead, first job 2",
           "who wants any stands in each");
    t.jobs[4].classes = 2;
    is_plan(&t, fifo,
            "+1:1x4 2:WaitingForGpus +3:1x4 4:WaitingForGpus "
            "5:Priority",
            "or in one");
    is_str(t.decisions[4].reason, "Priority: 1 ahead, first job 4",
           "behind one");
}

/* More masks than there are lines: nobody passes whom he must not. */
static void test_many_lines(void)
{
    struct view t;

    view_init(&t, 8, 4);
    for (int i = 0; i < 8; i++) {
        t.nodes[i].class_id = i;
        t.nodes[i].gpus_free = 0;
    }
    for (int i = 0; i < VIEW_JOBS - 1; i++)
        view_job(&t, 1, 1, 10)->classes = (uint64_t)i + 1;
    t.nodes[7].gpus_free = 4;
    view_job(&t, 1, 1, 10)->classes = 1 << 7;
    struct error err = ERROR_INIT;
    is_int(view_plan(&t, fifo, &err), 0, "63 masks");
    is_int(t.decisions[VIEW_JOBS - 1].act, POLICY_START, "and one beside them");
}

static void is_refused(struct view *t, enum err_code code, const char *what)
{
    struct error err = ERROR_INIT;
    size_t n = 77;
    is_int(fifo->plan(&t->v, t->decisions, VIEW_JOBS, &n, &err), -1, what);
    is_int(err.code, code, "  its code");
    is_int((long long)n, 77, "  nothing is returned");
}

static void test_bad_views(void)
{
    struct view t;
    struct error err = ERROR_INIT;
    size_t n = 0;

    view_init(&t, 1, 4);
    view_job(&t, 1, 1, 10);
    view_job(&t, 1, 1, 10);
    is_int(fifo->plan(&t.v, t.decisions, 1, &n, &err), -1, "no room");
    is_int(err.code, ERR_LIMIT, "is a limit");
    is_int(fifo->plan(&t.v, t.decisions, 2, &n, &err), 0, "just enough room");

    t.jobs[1].priority = 1;
    is_refused(&t, ERR_INVAL, "wrong order of priority");
    t.jobs[1].priority = 0;
    t.jobs[1].submit_s = -1;
    is_refused(&t, ERR_INVAL, "wrong order of arrival");
    t.jobs[1].submit_s = t.jobs[0].submit_s;
    t.jobs[1].id = 1;
    is_refused(&t, ERR_INVAL, "the same job twice");
    t.jobs[1].id = 2;
    t.jobs[1].state = JOB_HELD;
    is_refused(&t, ERR_INVAL, "a held job");
    t.jobs[1].state = JOB_QUEUED;
    t.jobs[1].gpus_max = 0;
    is_refused(&t, ERR_INVAL, "an empty range");
    t.jobs[1].gpus_max = 1;
    t.jobs[1].nodes_min = 0;
    is_refused(&t, ERR_INVAL, "no node");
    t.jobs[1].nodes_min = 1;
    t.nodes[0].gpus_free = 5;
    is_refused(&t, ERR_INVAL, "more free than there are");
    t.nodes[0].gpus_free = 4;
    t.nodes[0].class_id = 64;
    is_refused(&t, ERR_INVAL, "a class beyond the last");
    t.nodes[0].class_id = 0;
    t.at[1][0] = 1;
    t.jobs[1].nodes = 1;
    t.jobs[1].at = t.at[1];
    is_refused(&t, ERR_INVAL, "a node that is not there");
}

int main(void)
{
    test_list();
    test_order();
    test_never();
    test_shapes();
    test_classes();
    test_many_lines();
    test_bad_views();
    return tap_done();
}
