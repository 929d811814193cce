/* engine_per_node.c - resources.gpus_per_node: never another number of GPUs on
 * a node, whatever is free, also after a restart; what never fits is refused.
 */
#include "tests/contract/engine_queue.h"

static struct world w;
static struct error err;

static const struct world_script script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .policy = &policy_backfill,
    .jobs = {{.gpus = 3, .attempts = {{.run_s = 100000}}}},
};

static uint64_t submit(const char *resources)
{
    static int n;
    char spec[300], key[16];
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.p%d", n++);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{%s}}",
                   resources);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec};
    if (engine_submit(w.engine, &req, &id, NULL, &err) < 0)
        return 0;
    world_settle(&w);
    return id;
}

static void end(uint64_t id)
{
    is_int(engine_cancel(w.engine, id, 1, &err), 0, "one goes");
    world_settle(&w);
    w.clock.t_s += 200; /* the cluster sees that it is gone */
    world_settle(&w);
    world_settle(&w);
}

int main(void)
{
    world_init(&w, &script);
    ok(world_start(&w), "---- two nodes of four");
    uint64_t hog = world_command(&w, 3, 5000), other = world_command(&w, 3, 0);
    uint64_t id = submit("\"gpus\":\"2..4\",\"nodes\":\"1..2\","
                         "\"gpus_per_node\":2");
    const struct job *job = engine_job(w.engine, id);
    ok(job_state_is_live(engine_job(w.engine, hog)->state) &&
           job_state_is_live(engine_job(w.engine, other)->state),
       "one GPU is free on each");
    is_int(job->state, JOB_QUEUED, "who wants two of one waits");
    ok(strstr(job->reason, "of 2 each"), "  and says so: %s", job->reason);
    world_die(&w);
    world_settle(&w);
    job = engine_job(w.engine, id);
    is_int(job->state, JOB_QUEUED, "  also after a restart");
    is_int(job->per_node, 2, "  which knows it");
    end(other);
    job = engine_job(w.engine, id);
    ok(job_state_is_live(job->state), "it starts where two are free");
    ok(job->nodes > 0 && job->gpus == 2 * job->nodes, "  two on a node");
    is_int((long long)submit("\"gpus\":10,\"gpus_per_node\":5"), 0,
           "five of a node are refused");
    ok(strstr(err.msg, "can never fit") && strstr(err.msg, "of 5 each"),
       "  with what is there: %s", err.msg);
    is_int(w.n_bad, 0, "nothing was odd");
    world_clear(&w);
    return tap_done();
}
