/* why.c - what the daemon says about why a job waits, about its nodes, its
 * allocator and its own loop. */
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/event_loop.h"
#include "tests/unit/ctld/rig.h"

static struct rig r;

static struct alloc_node nodes[] = {
    {.name = "n1",
     .gpu_type = "h100",
     .gpus_total = 4,
     .gpus_free = 3,
     .is_up = 1,
     .used = "0-2 mgpu 1.1; 3 anna 4711",
     .partitions = "batch*,urgent",
     .features = "ib",
     .address = "10.0.0.1"},
    {.name = "n2",
     .gpu_type = "h100",
     .gpus_total = 4,
     .gpus_free = 4,
     .why = "drained: bad fan",
     .partitions = "batch*"},
    {.name = "n3",
     .gpu_type = "h100",
     .gpus_total = 4,
     .gpus_free = 4,
     .is_up = 1,
     .partitions = "batch*",
     .reservation = "maint"},
    {.name = "n4",
     .gpu_type = "a100",
     .gpus_total = 8,
     .gpus_free = 8,
     .is_up = 1,
     .partitions = "other"},
    {.name = "n5",
     .gpu_type = "h100",
     .gpus_total = 4,
     .gpus_free = 4,
     .shared_total = 6,
     .shared_free = 6,
     .is_up = 1,
     .partitions = "mixed"},
    {.name = "n5",
     .gpu_type = "a100",
     .gpus_total = 2,
     .gpus_free = 2,
     .shared_total = 6,
     .shared_free = 6,
     .is_up = 1,
     .partitions = "mixed"},
};

static int submit(const char *name, const char *more)
{
    char body[400];
    (void)snprintf(body, sizeof(body),
                   "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":"
                   "\"%s\",\"command\":[\"true\"],\"resources\":{%s}}}",
                   name, more);
    return call(&r, "POST", "/v1/jobs", body, NULL);
}

static void test_refused(void)
{
    is_int(submit("never", "\"gpus\":1,\"partition\":\"nope\""), 400,
           "a partition that is not there");
    ok(has(&r, "can never fit: no node is in partition nope"), "  is said");
}

static void test_waiting(void)
{
    r.alloc.place = "n1:0-2";
    is_int(submit("hog", "\"gpus\":3,\"time_limit\":\"1h\","
                         "\"partition\":\"urgent\""),
           201, "a job");
    ok(becomes(&r, "/v1/jobs/1", "\"place\":\"n1:0-2\""), "that runs");
    pthread_mutex_lock(&r.alloc.lock);
    nodes[0].gpus_free = 0;
    pthread_mutex_unlock(&r.alloc.lock);
    is_int(submit("waits", "\"gpus\":4"), 201, "one that waits");
    ok(becomes(&r, "/v1/jobs/2/why",
               "\"would_start\":[{\"set\":\"resources.partition=other\","
               "\"gpus\":4,\"nodes\":1,\"limit_s\":null,"
               "\"partition\":\"other\"}]"),
       "elsewhere it would start");
    ok(has(&r, "\"start_expected\":null"), "it is not known when");
    is_int(submit("behind", "\"gpus\":1"), 201, "and one behind it");
    ok(becomes(&r, "/v1/jobs/2/why", "WaitingForGpus: needs 4, 0 free"),
       "the policy's reason first");
    ok(has(&r, "{\"token\":\"NodesDown\",\"text\":\"NodesDown: n2 (drained: "
               "bad fan)\"}"),
       "then which nodes are down, and why");
    ok(has(&r, "\"text\":\"NodesReserved: n3 (maint)\""), "or reserved");
    ok(has(&r, "\"gpus_total\":8,\"gpus_free\":0"),
       "of those it may use and that are up");
    ok(has(&r, "\"name\":\"n1\"") && !has(&r, "\"name\":\"n4\""), "no others");
    ok(has(&r, "\"holders\":[{\"job\":1,") && has(&r, "\"name\":\"hog\"") &&
           has(&r, "\"display_id\":\"1\"}]"),
       "who has them");
    ok(has(&r, "\"basis\":null"), "fifo estimates nothing");
    ok(has(&r, "\"since\":\"20"), "since when");
    ok(becomes(&r, "/v1/jobs/3/why", "\"token\":\"Priority\""), "the other");
    ok(has(&r, "Priority: 1 ahead, first job 2") &&
           !has(&r, "\"Priority: 1 ahead\""),
       "  says it once");
    is_int(call(&r, "POST", "/v1/jobs/3/hold", NULL, NULL), 200, "held");
    is_int(get(&r, "/v1/jobs/3/why"), 200, "  why");
    ok(has(&r, "\"token\":\"Held\"") && has(&r, "\"holders\":[]"), "  so");
    is_int(get(&r, "/v1/jobs/9/why"), 404, "no such job");
}

static void test_in_slurm(void)
{
    r.alloc.wait = "Slurm(Priority)";
    is_int(submit("there", "\"gpus\":1,\"partition\":\"other\""), 201,
           "one that Slurm holds");
    ok(becomes(&r, "/v1/jobs/4/why", "\"token\":\"Slurm\""), "says what for");
    ok(has(&r, "\"text\":\"Slurm(Priority)\""), "  in Slurm's words");
    ok(has(&r, "\"native_id\":\"pid:7\""), "  and under which id");
    ok(has(&r, "\"position\":2,") && has(&r, "\"start_estimate\":null") &&
           has(&r, "\"basis\":null"),
       "  behind one of the queue, and it does not know when it starts");
    r.alloc.expected_s = 4102444800; /* 2100 */
    is_int(submit("then", "\"gpus\":1,\"partition\":\"other\""), 201,
           "another one");
    ok(becomes(&r, "/v1/jobs/5/why",
               "\"start_estimate\":\"2100-01-01T00:00:00.000Z\""),
       "  starts when Slurm says");
    ok(has(&r, "\"basis\":\"Slurm's own estimate holds\"") &&
           has(&r, "\"position\":3,"),
       "  and says that it is so");
    r.alloc.wait = NULL;
    r.alloc.expected_s = 0;
}

static void test_nodes(void)
{
    is_int(get(&r, "/v1/nodes"), 200, "the nodes");
    ok(has(&r, "\"used\":\"0-2 mgpu 1.1; 3 anna 4711\"") &&
           has(&r, "\"partitions\":\"batch*,urgent\"") &&
           has(&r, "\"features\":\"ib\"") &&
           has(&r, "\"reservation\":\"maint\"") &&
           has(&r, "\"address\":\"10.0.0.1\"") && has(&r, "\"used\":null"),
       "say who uses them, and what they are");
}

/* n5 has CPUs for 6 GPUs, 3 of which others use. */
static void test_types(void)
{
    pthread_mutex_lock(&r.alloc.lock);
    nodes[4].shared_free = nodes[5].shared_free = nodes[4].gpus_free = 3;
    nodes[5].is_up = nodes[4].is_up = 0;
    pthread_mutex_unlock(&r.alloc.lock);
    is_int(submit("mixed", "\"gpus\":3,\"partition\":\"mixed\""), 201,
           "one for GPUs of either type");
    ok(becomes(&r, "/v1/jobs/6/why", "NodesDown: n5\""),
       "its node is down, once");
    pthread_mutex_lock(&r.alloc.lock);
    nodes[5].is_up = nodes[4].is_up = 1;
    pthread_mutex_unlock(&r.alloc.lock);
    r.alloc.wait = "Slurm(Priority)";
    is_int(submit("nudge", "\"gpus\":0"), 201, "it is up again");
    ok(becomes(&r, "/v1/jobs/6/why", "\"state\":\"DISPATCHING\""), "it starts");
    ok(becomes(&r, "/v1/jobs/6/why", "\"gpus_total\":6,\"gpus_free\":3"),
       "no more are free than there are CPUs for");
    ok(has(&r, "\"gpu_type\":\"h100\",\"gpu_memory\":null"),
       "one type is chosen");
    r.alloc.wait = NULL;
    is_int(get(&r, "/v1/gpus"), 200, "the GPUs");
    ok(has(&r, "{\"name\":\"n5\",\"gpu_type\":\"h100\",\"gpus_from\":0,"
               "\"gpus_total\":4") &&
           has(&r, "{\"name\":\"n5\",\"gpu_type\":\"a100\",\"gpus_from\":4,"
                   "\"gpus_total\":2"),
       "are numbered through");
}

static void test_away(void)
{
    is_int(get(&r, "/v1/status"), 200, "status");
    ok(has(&r, "\"allocator_state\":{\"name\":\"puppet\",\"is_ok\":true,"
               "\"since\":null,\"why\":null}"),
       "the allocator is there");
    r.alloc.is_away = true;
    is_int(submit("later", "\"gpus\":1"), 201, "it goes away");
    ok(becomes(&r, "/v1/status", "\"is_ok\":false"), "and that is told");
    ok(has(&r, "\"why\":\"no answer from the puppet\"") &&
           has(&r, "\"since\":\"20"),
       "  with why and since when");
    is_int(get(&r, "/v1/jobs/2/why"), 200, "a job that waits");
    ok(has(&r, "SlurmUnavailable: no answer from the puppet"), "  says so");
    is_int(get(&r, "/v1/jobs?limit=1"), 200, "the queue");
    ok(has(&r, "\"is_ok\":false"), "  has it at its head");
    is_int(get(&r, "/metrics"), 200, "metrics");
    ok(has(&r, "mgpu_allocator_up 0\n") && has(&r, "mgpu_steps_failed_total 0"),
       "  too, and no step failed");
    r.alloc.is_away = false;
    ok(becomes(&r, "/v1/status", "\"is_ok\":true"), "it is back");
}

/* Of a node by its index; the next plan looks, and something is to be planned.
 */
static void tell_memory(size_t i, int64_t bytes)
{
    char want[100];
    pthread_mutex_lock(&r.alloc.lock);
    nodes[i].gpu_bytes = bytes;
    pthread_mutex_unlock(&r.alloc.lock);
    is_int(submit("nudge", "\"gpus\":1"), 201, "a plan");
    ok(!has(&r, "warnings"), "  and nothing to say of who asks for no memory");
    (void)snprintf(want, sizeof(want),
                   "\"name\":\"%s\",\"gpu_type\":\"h100\",\"gpu_bytes\":%lld,",
                   nodes[i].name, (long long)bytes);
    ok(becomes(&r, "/v1/nodes", want), "  sees what %s has", nodes[i].name);
}

/* What the answer to a submit says of GPUs of whose memory nobody has said
 * anything: of the three nodes of the partition that all have. */
static void test_warnings(void)
{
    static const char all[] =
        "\"warnings\":[{\"code\":\"W201\",\"path\":\"resources.gpu_memory\","
        "\"message\":\"what memory the GPUs of 3 of 3 nodes have is not known, "
        "and these are not left out\"}]";

    is_int(submit("blind", "\"gpus\":1,\"gpu_memory\":\"40G..\""), 201,
           "one for much memory");
    ok(has(&r, all), "hears that nobody knows");
    is_int(call(&r, "POST", "/v1/jobs",
                "{\"spec\":{\"version\":1,\"kind\":\"command\",\"command\":"
                "[\"true\"],\"sweep\":{\"grid\":{\"resources.gpu_memory\":"
                "[null,\"40G..\"]}}}}",
                NULL),
           201, "a sweep of which the second task does");
    ok(has(&r, all), "  too");
    tell_memory(1, INT64_C(80) << 30);
    tell_memory(2, INT64_C(24) << 30);
    is_int(submit("one-eyed", "\"gpus\":1,\"gpu_memory\":\"40G..\""), 201,
           "where one has less, and one is not known");
    ok(has(&r, "GPUs of 1 of 2 nodes have"), "  is what is said");
    tell_memory(0, INT64_C(80) << 30);
    is_int(submit("seeing", "\"gpus\":1,\"gpu_memory\":\"40G..\""), 201,
           "where all is known");
    ok(!has(&r, "warnings"), "  nothing is said");
}

/* ---- the loop ------------------------------------------------------------
 */
static struct loop *loop;

static void slow(void *arg)
{
    (void)arg;
    (void)poll(NULL, 0, 30);
    loop_stop(loop);
}

static void test_turns(void)
{
    const struct loop_clocks from = {
        .s = 10, .ran_s = 1, .waited_s = 2, .n_runs = 3};
    struct loop_turn t = loop_turn_between(
        &from,
        &(struct loop_clocks){.s = 14, .ran_s = 5, .waited_s = 2, .n_runs = 3});
    ok(t.s == 4 && t.waited_s == 0 && t.slept_s == 0, "a turn of work");
    t = loop_turn_between(
        &from, &(struct loop_clocks){
                   .s = 14, .ran_s = 1.5, .waited_s = 3, .n_runs = 5});
    ok(t.s == 4 && t.waited_s == 1 && t.slept_s == 2.5,
       "one that had no core, and slept");
    t = loop_turn_between(
        &from, &(struct loop_clocks){
                   .s = 14, .ran_s = 1.5, .waited_s = 2, .n_runs = 3});
    ok(t.s == 4 && t.waited_s == 3.5 && t.slept_s == 0,
       "one whose machine had no core");
    t = loop_turn_between(&(struct loop_clocks){.s = 10},
                          &(struct loop_clocks){.s = 14, .ran_s = 1});
    ok(t.s == 4 && t.waited_s == 0 && t.slept_s == 3,
       "one of which the kernel tells nothing");
}

static void test_loop(void)
{
    struct error err = ERROR_INIT;
    struct loop_source *timer = NULL;
    uint64_t n = 0;

    is_int(loop_create(&loop, &err), 0, "a loop");
    is_int((long long)loop_times(loop)->n, 0, "that did nothing");
    is_int(loop_timer_create(loop, slow, NULL, &timer, &err), 0, "a callback");
    loop_timer_set(timer, 0);
    is_int(loop_run(loop, &err), 0, "of 30 ms");
    const struct loop_times *t = loop_times(loop);
    ok(t->longest_s >= 0.03 && t->sum_s >= 0.03 && t->n == 1, "is counted");
    ok(t->buckets[0] + t->buckets[1] + t->buckets[2] + t->buckets[3] == 0,
       "  as one that took more than 25 ms");
    ok(t->waited_s >= 0 && t->waited_s <= t->sum_s &&
           t->longest_own_s <= t->longest_s,
       "  of which it had no core for a part");
    ok(t->slept_s + t->waited_s >= 0.025 && t->longest_slept_s == t->slept_s,
       "  and slept for another");
    loop_took(loop, "test", &(struct loop_turn){.s = 0.05});
    loop_took(loop, "test", &(struct loop_turn){.s = 0.051, .waited_s = 0.01});
    loop_took(loop, "test",
              &(struct loop_turn){.s = 7, .waited_s = 6.5, .slept_s = 0.2});
    ok(t->buckets[4] >= 1 && t->buckets[5] >= 1 &&
           t->buckets[LOOP_BUCKETS - 1] >= 1 && t->longest_s >= 7,
       "bounds belong to the lower bucket");
    for (int i = 0; i < LOOP_BUCKETS; i++)
        n += t->buckets[i];
    is_int((long long)n, 4, "each in one");
    ok(t->longest_own_s >= 0.5 && t->longest_own_s < 6.9,
       "waiting for a core is told apart");
    ok(t->longest_slept_s >= 0.2 && t->longest_slept_s < 7,
       "  and so is sleep");
    uint64_t before = t->n;
    loop_enter(loop);
    loop_enter(loop);
    loop_leave(loop, "inner");
    ok(t->n == before, "one within another");
    loop_leave(loop, "outer");
    ok(t->n == before + 1, "  is part of it");
    loop_source_destroy(timer);
    loop_destroy(loop);

    is_int(get(&r, "/v1/status"), 200, "the daemon's");
    const char *longest = strstr(buf_str(&r.body), "\"longest_s\":");
    ok(longest && strtod(longest + 12, NULL) > 0, "is in its status");
    is_int(get(&r, "/metrics"), 200, "and among the metrics");
    ok(has(&r, "mgpu_loop_stall_seconds_bucket{le=\"0.05\"} ") &&
           has(&r, "mgpu_loop_stall_longest_seconds ") &&
           has(&r, "mgpu_loop_stall_own_longest_seconds ") &&
           has(&r, "mgpu_loop_waited_seconds_total ") &&
           has(&r, "mgpu_loop_slept_longest_seconds ") &&
           has(&r, "mgpu_loop_slept_seconds_total ") &&
           !has(&r, "mgpu_loop_stall_seconds_count 0\n"),
       "  with its buckets");
}

int main(void)
{
    rig_init(&r);
    r.alloc.nodes = nodes;
    r.alloc.n_nodes = sizeof(nodes) / sizeof(nodes[0]);
    rig_up(&r, NULL);
    test_refused();
    test_waiting();
    test_in_slurm();
    test_nodes();
    test_types();
    test_away();
    test_warnings();
    test_turns();
    test_loop();
    rig_down(&r);
    rig_clear(&r);
    return tap_done();
}
