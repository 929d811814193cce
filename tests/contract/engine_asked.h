/* engine_asked.h - a daemon that is asked by hand, one thing after the other.
 */
#ifndef MGPU_TESTS_CONTRACT_ENGINE_ASKED_H
#define MGPU_TESTS_CONTRACT_ENGINE_ASKED_H

#include "tests/contract/engine_world.h"

static const struct world_script script = {
    .nodes = 2,
    .gpus_per_node = 4,
    .jobs = {{.gpus = 1, .attempts = {{.run_s = INFINITY, .no_claim = 1}}}},
};

static struct world w;
static struct error err;

static void begin(struct store_fault fault)
{
    world_init(&w, &script);
    w.fault = fault;
    ok(world_start(&w), "---- a daemon");
}

static const char *digest; /* of the next submit */

static int submit(const char *key, int64_t uid, const char *resources,
                  uint64_t *ret_id, bool *ret_again)
{
    char spec[512];
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{%s}}",
                   resources);
    struct engine_submit req = {
        .uid = uid, .user = "anna", .key = key, .spec = spec, .digest = digest};
    return engine_submit(w.engine, &req, ret_id, ret_again, &err);
}

static void refused(int rc, enum err_code code, const char *msg,
                    const char *what)
{
    bool good = rc < 0 && err.code == code && (!msg || strstr(err.msg, msg));
    ok(good, "%s", what);
    if (!good)
        tap_diag("got %d, %s: %s", rc, error_word(err.code), err.msg);
}

static void settle(void)
{
    for (int i = 0; i < 5; i++) {
        if (engine_step(w.engine, &err) < 0)
            tap_diag("%s", err.msg);
    }
}

#endif
