/* engine_ends.h - a script is played, and how its jobs ended is compared. */
#ifndef MGPU_TESTS_ENGINE_ENDS_H
#define MGPU_TESTS_ENGINE_ENDS_H

#include "tests/contract/engine_world.h"

static const struct store_fault no_fault = {.n = 0};

/* Plays the script and compares the end. */
static inline void ends(const struct world_script *s, const char *want,
                        const char *what)
{
    struct world w;
    char *got = world_run(&w, s, no_fault, 0, false);

    is_str(got, want, what);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

static inline struct world_script one(struct world_attempt first)
{
    struct world_script s = {.nodes = 1, .gpus_per_node = 4, .n_acts = 1};
    s.jobs[0] = (struct world_job){.gpus = 1, .attempts = {first}};
    return s;
}

#endif
