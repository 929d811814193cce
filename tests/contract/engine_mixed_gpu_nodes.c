/* engine_mixed_gpu_nodes.c - machines with GPUs of two types: both are given
 * out, each job has GPUs of one, and what they share is not given out twice. */
#include "tests/contract/engine_cluster.h"

#define MORE(text) "," text "},\"retry\":{\"max\":0}}"
static const char of_0[] = MORE("\"gpu_type\":\"fake0\"");
static const char of_1[] = MORE("\"gpu_type\":\"fake1\"");
static const char alone_1[] = MORE("\"gpu_type\":\"fake1\",\"exclusive\":true");

/* One machine with 4 GPUs of each, and CPUs for so many of them. A job each
 * second that wants so many GPUs and runs for 20 s. */
static struct world_script parts(int32_t shared, int n, int32_t gpus)
{
    struct world_script s = several(n);
    s.nodes = s.parts = 2;
    s.shared = shared;
    for (int i = 0; i < n; i++) {
        s.jobs[i].gpus = gpus;
        s.jobs[i].attempts[0].run_s = 20;
    }
    return s;
}

static void has(uint64_t id, const char *place, const char *type,
                const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    const char *of = engine_where(w.engine, job).gpu_type;
    is_str(job->place, place, what);
    is_str(of ? of : "any", type, "  of one type");
}

static void waits(uint64_t id, const char *reason, const char *what)
{
    const struct job *job = engine_job(w.engine, id);
    ok(job->state == JOB_QUEUED, "%s", what);
    is_str(job->reason, reason, "  and says why");
}

static void test_any(void)
{
    struct world_script s = parts(8, 3, 4);

    begin(&s, "jobs that name no type");
    play(5);
    has(1, "n1:0-3", "fake0", "the first has all of one type");
    has(2, "n1:4-7", "fake1", "the second all of the other, at the same time");
    waits(3, "WaitingForGpus: needs 4, 0 free", "then nothing is free");
    world_die(&w);
    play(7);
    has(1, "n1:0-3", "fake0", "a daemon that comes after it knows that");
    has(2, "n1:4-7", "fake1", "of both");
    waits(3, "WaitingForGpus: needs 4, 0 free", "and gives nothing out twice");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");

    s = parts(8, 2, 3);
    s.jobs[0].spec_more = of_0;
    s.jobs[1].gpus = 2;
    begin(&s, "two GPUs, one of each type");
    play(5);
    has(2, "n1:4,5", "fake1", "are not of two types");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]", "");
}

static void test_typed(void)
{
    struct world_script s = parts(8, 3, 4);

    s.jobs[0].spec_more = s.jobs[1].spec_more = of_1;
    s.jobs[2].spec_more = of_0;
    begin(&s, "jobs that name theirs");
    play(5);
    has(1, "n1:4-7", "fake1", "one type");
    waits(2, "WaitingForGpus: needs 4, 0 free", "no more of it");
    has(3, "n1:0-3", "fake0", "nobody waits behind it for the other");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");

    s.jobs[2].spec_more = NULL;
    for (int fifo = 0; fifo < 2; fifo++) {
        s.policy = fifo ? &policy_fifo : &policy_backfill;
        begin(&s, "behind one that names its type, one that does not");
        play(5);
        waits(2, "WaitingForGpus: needs 4, 0 free", "the one waits");
        has(3, "n1:0-3", "fake0", "the other has what nobody waits for");
        finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]",
               "");
    }
}

static void test_shared(void)
{
    struct world_script s = parts(5, 3, 4);

    s.jobs[0].spec_more = of_0;
    s.jobs[1].spec_more = of_1;
    s.jobs[2].spec_more = of_1;
    s.jobs[2].gpus = 1;
    s.acts[1].at_s = s.acts[2].at_s = 0; /* one plan for all */
    begin(&s, "CPUs for 5 of 8 GPUs");
    play(5);
    has(1, "n1:0-3", "fake0", "4 of one type");
    waits(2, "WaitingForGpus: needs 4, 1 free", "no CPUs are left for 4 more");
    play(30);
    has(2, "n1:4-7", "fake1", "later they are");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");

    s.jobs[1].spec_more = of_1;
    s.jobs[1].gpus = 1;
    begin(&s, "the fifth is of the other type");
    play(5);
    has(1, "n1:0-3", "fake0", "4 of one type");
    has(2, "n1:4", "fake1", "and one");
    waits(3, "WaitingForGpus: needs 1, 0 free", "not two");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

static void test_alone(void)
{
    struct world_script s = parts(8, 3, 1);

    s.jobs[0].spec_more = of_0;
    s.jobs[1].spec_more = alone_1;
    s.jobs[2].spec_more = of_0;
    begin(&s, "one that wants the machine to itself");
    play(5);
    waits(2, "WaitingForGpus: needs 1 on 1 empty node, 0 are empty",
          "it waits for the end of a job on the other type");
    waits(3, "Reserved: would delay job 2", "which no other may follow");
    play(30);
    has(2, "n1:0-7", "fake1", "then it has all");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] k2:COMPLETED/0/1[1]", "");
}

/* It stands in the line for one type when the other comes free. */
static void test_ahead(void)
{
    struct world_script s = parts(8, 3, 4);

    s.submit_ahead = 1;
    s.jobs[0].spec_more = of_0;
    s.jobs[1].spec_more = of_1;
    s.jobs[0].attempts[0].run_s = 100;
    s.jobs[1].attempts[0].run_s = 10;
    s.jobs[2].attempts[0].run_s = s.jobs[2].attempts[1].run_s = 10;
    begin(&s, "any type, and it waits in the cluster's line");
    play(5);
    const struct job *job = engine_job(w.engine, 3);
    ok(job->state == JOB_DISPATCHING, "asked for");
    play(20);
    has(3, "n1:4-7", "fake1", "it has what comes free first");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1] "
           "k2:COMPLETED/0/2[01]",
           "");
}

static void test_never(void)
{
    struct world_script s = parts(8, 1, 4);
    struct engine_submit req = {.uid = 1000, .user = "anna", .key = "x"};
    struct error err = ERROR_INIT;
    uint64_t id;

    begin(&s, "what no machine can hold");
    play(1);
    req.spec = "{\"version\":1,\"kind\":\"command\",\"command\":[\"true\"],"
               "\"resources\":{\"gpus\":5}}";
    ok(engine_submit(w.engine, &req, &id, NULL, &err) < 0, "5 of one type: %s",
       err.msg);
    req.spec = "{\"version\":1,\"kind\":\"command\",\"command\":[\"true\"],"
               "\"resources\":{\"gpus\":2,\"nodes\":2}}";
    ok(engine_submit(w.engine, &req, &id, NULL, &err) < 0,
       "two types are not two nodes: %s", err.msg);
    req.spec = "{\"version\":1,\"kind\":\"command\",\"command\":[\"true\"],"
               "\"resources\":{\"gpus\":0,\"nodes\":2}}";
    ok(engine_submit(w.engine, &req, &id, NULL, &err) < 0,
       "neither without GPUs: %s", err.msg);
    finish("k0:COMPLETED/0/1[1]", "");
}

static void test_drained(void)
{
    struct world_script s = parts(8, 2, 1);
    static const struct engine_drained n1 = {"n1", "fan"};

    s.nodes = 4;
    s.jobs[0].spec_more = of_0;
    s.jobs[1].spec_more = of_1;
    world_init(&w, &s);
    w.conf.drained = &n1;
    w.conf.n_drained = 1;
    ok(world_start(&w), "---- a machine that is drained by its name");
    play(5);
    has(1, "n2:0", "fake0", "nothing of one type there");
    has(2, "n2:4", "fake1", "nor of the other");
    finish("k0:COMPLETED/0/1[1] k1:COMPLETED/0/1[1]", "");
}

int main(void)
{
    test_any();
    test_typed();
    test_shared();
    test_alone();
    test_ahead();
    test_never();
    test_drained();
    return tap_done();
}
