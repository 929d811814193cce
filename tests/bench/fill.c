/* fill.c - a state directory with a long past, for tests/bench/ctld.sh.
 *
 *   fill DIR QUEUED ENDED       jobs of uid 0..; written by the engine itself
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "scheduler/engine/engine.h"
#include "slurm/alloc_fake.h"

enum { AT_ONCE = 1000 };

static void check(int rc, const struct error *err)
{
    if (rc < 0) {
        (void)fprintf(stderr, "fill: %s\n", err->msg);
        exit(1);
    }
}

static int secret_of(void *arg, enum engine_secret which, uint64_t job,
                     int32_t attempt, char ret[ENGINE_SECRET_CAP],
                     struct error *err)
{
    (void)arg;
    (void)which;
    (void)job;
    (void)attempt;
    (void)err;
    (void)snprintf(ret, ENGINE_SECRET_CAP, "0");
    return 0;
}

/* Those that ended were cancelled while they waited. */
static void add(struct engine *e, int i, bool is_over)
{
    struct error err = ERROR_INIT;
    char key[32];
    uint64_t id;
    (void)snprintf(key, sizeof(key), "fill-%d", i);
    struct engine_submit req = {
        .uid = (int64_t)getuid(),
        .user = "load",
        .key = key,
        .spec = "{\"version\":1,\"name\":\"fill\",\"kind\":\"command\","
                "\"command\":[\"true\"],\"resources\":{\"gpus\":1}}"};
    check(engine_submit(e, &req, &id, NULL, &err), &err);
    if (is_over)
        check(engine_cancel(e, id, req.uid, &err), &err);
}

int main(int argc, char **argv)
{
    struct error err = ERROR_INIT;
    struct clock_virtual clock;
    struct alloc_fake_world *world = NULL;
    struct engine *e = NULL;
    struct engine_conf conf = {.cluster = "fill", .jobs_dir = "/nonexistent"};
    struct alloc_fake_conf cluster = {
        .nodes = 1, .gpus_per_node = 1, .clock = &clock.base};
    struct engine_parts parts = {.clock = &clock.base,
                                 .policy = policy_find("fifo"),
                                 .conf = &conf,
                                 .secret_of = secret_of};
    if (argc != 4)
        return 64;
    int queued = (int)strtol(argv[2], NULL, 10);
    int ended = (int)strtol(argv[3], NULL, 10);
    clock_virtual_init(&clock, 1000, clock_real.wall_s(&clock_real) - 1000);
    check(alloc_fake_world_create(&cluster, &world, &err), &err);
    check(alloc_fake_create(world, &parts.alloc, &err), &err);
    check(store_sqlite_open(argv[1], &parts.store, &err), &err);
    check(engine_create(&parts, &e, &err), &err);
    engine_drain(e, ""); /* nothing starts */
    for (int i = 0; i < queued + ended; i++) {
        add(e, i, i < ended);
        if (i % AT_ONCE == AT_ONCE - 1)
            check(engine_step(e, &err), &err);
    }
    check(engine_step(e, &err), &err);
    engine_destroy(e);
    parts.store->ops->destroy(parts.store);
    parts.alloc->ops->destroy(parts.alloc);
    alloc_fake_world_destroy(world);
    return 0;
}
