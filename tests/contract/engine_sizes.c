/* engine_sizes.c - a constant global batch: the job gets no number of GPUs that
 * does not divide its micro-batches, whatever is free, also after a restart;
 * --why offers no other. What is explained of the sizes of jobs.
 */
#include "scheduler/engine/explain_sizes.h"
#include "scheduler/engine/what_if.h"
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static uint64_t submit(const char *gpus)
{
    static int n;
    char spec[300], key[16];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.s%d", n++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"cv\","
                   "\"dataset\":{\"source\":\"synthetic\"},"
                   "\"train\":{\"batch_size\":8,\"global_batch_size\":96},"
                   "\"resources\":{\"gpus\":\"%s\"}}",
                   gpus);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        return 0;
    world_settle(&w);
    return id;
}

static void test_policy(const struct policy *policy)
{
    const struct world_script script = {
        .nodes = 1,
        .gpus_per_node = 8,
        .policy = policy,
        .jobs = {{.gpus = 3, .attempts = {{.run_s = 100000}}}},
    };
    struct engine_what_if suppose;
    world_init(&w, &script);
    ok(world_start(&w), "---- %s", policy->name);
    uint64_t hog = world_command(&w, 3, 5000);
    uint64_t id = submit("5..8");
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED,
           "5 of 8 are free, and 5 is no size of it");
    ok(engine_what_if(w.engine, engine_job(w.engine, id), &suppose, &err) == 0,
       "what would start");
    is_int(suppose.gpus.gpus, 4, "  4 would");
    world_die(&w);
    world_settle(&w);
    is_int(engine_job(w.engine, id)->parts, 12, "a restart knows its parts");
    is_int(engine_job(w.engine, id)->state, JOB_QUEUED, "  it still waits");
    is_int(engine_cancel(w.engine, hog, 1, &err), 0, "more are free");
    world_settle(&w);
    w.clock.t_s += 200;
    world_settle(&w);
    world_settle(&w);
    ok(job_state_is_live(engine_job(w.engine, id)->state), "  it starts");
    is_int(engine_job(w.engine, id)->gpus, 6, "  on the 6 that divide 12");
    is_int((long long)submit("9..11"), 0, "no size at all is refused");
    ok(strstr(err.msg, "no number of GPUs in 9..11"), "  with what it is: %s",
       err.msg);
    is_int((long long)submit("12"), 0, "more than there are is refused");
    ok(strstr(err.msg, "can never fit"), "  as that: %s", err.msg);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

static void count(void *arg, const struct goodput_row *row)
{
    (void)row;
    ++*(int *)arg;
}

static int n_sizes(void)
{
    double price;
    int n = 0;

    return engine_explain_sizes(w.engine, count, &n, &price, &err) < 0 ? -1 : n;
}

/* The engine asks the policy for sizes only while a job has several: it counts
 * these. */
static void test_explained(void)
{
    const struct world_script script = {
        .nodes = 1,
        .gpus_per_node = 8,
        .policy = &policy_goodput,
        .jobs = {{.gpus = 8, .attempts = {{.run_s = 100000}}}},
    };
    world_init(&w, &script);
    ok(world_start(&w), "---- sizes that are explained");
    (void)world_command(&w, 8, 5000);
    (void)submit("2");
    is_int(n_sizes(), 0, "no job has a choice: none");
    uint64_t id = submit("1..4");
    ok(n_sizes() > 0, "a job of several sizes waits: these");
    is_int(engine_hold(w.engine, id, 1, true, &err), 0, "it is held");
    world_settle(&w);
    is_int(n_sizes(), 0, "  none");
    is_int(engine_hold(w.engine, id, 1, false, &err), 0, "and released");
    world_settle(&w);
    ok(n_sizes() > 0, "  again");
    world_die(&w);
    world_settle(&w);
    ok(n_sizes() > 0, "after a restart, too");
    is_int(engine_cancel(w.engine, id, 1, &err), 0, "it is cancelled");
    world_settle(&w);
    is_int(n_sizes(), 0, "  none");
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
}

int main(void)
{
    test_policy(&policy_fifo);
    test_policy(&policy_backfill);
    test_explained();
    return tap_done();
}
