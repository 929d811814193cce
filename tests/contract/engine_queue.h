/* engine_queue.h - commands that are submitted to a world one by one. */
#ifndef MGPU_TESTS_CONTRACT_ENGINE_QUEUE_H
#define MGPU_TESTS_CONTRACT_ENGINE_QUEUE_H

#include "tests/contract/engine_world.h"

static inline void world_settle(struct world *w)
{
    for (int i = 0; i < 5; i++)
        (void)world_step(w);
}

/* Lets s seconds pass, with some steps in each. */
static inline void world_play(struct world *w, double s)
{
    double until_s = w->clock.t_s + s;
    while (w->clock.t_s < until_s) {
        for (int i = 0; i < 4; i++)
            (void)world_step(w);
        w->clock.t_s += 1;
    }
}

/* Its id; 0: refused. in  limit_s  0: none */
static inline uint64_t world_command(struct world *w, int gpus, double limit_s)
{
    static int n;
    char spec[300], limit[48] = "", key[16];
    struct error err = ERROR_INIT;
    uint64_t id = 0;
    (void)snprintf(key, sizeof(key), "k0.%d", n++);
    if (limit_s > 0)
        (void)snprintf(limit, sizeof(limit), ",\"time_limit\":\"%.0fs\"",
                       limit_s);
    (void)snprintf(spec, sizeof(spec),
                   "{\"name\":\"j\",\"kind\":\"command\",\"command\":[\"a\"],"
                   "\"resources\":{\"gpus\":%d%s}}",
                   gpus, limit);
    struct engine_submit req = {
        .uid = 1, .user = "anna", .key = key, .spec = spec};
    int rc = engine_submit(w->engine, &req, &id, NULL, &err);
    world_settle(w);
    return rc < 0 ? 0 : id;
}

#endif
