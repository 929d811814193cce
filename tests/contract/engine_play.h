/* engine_play.h - one world (engine_world.h), played moment by moment. */
#ifndef MGPU_TESTS_ENGINE_PLAY_H
#define MGPU_TESTS_ENGINE_PLAY_H

#include "tests/contract/engine_world.h"

static struct world w;

/* Until `until` (since the start), or the end of all jobs. */
static inline void play(double until)
{
    for (int i = 0; i < 2000 && !world_is_over(&w); i++) {
        (void)world_step(&w);
        world_advance(&w);
        if (w.clock.t_s > 1000 + until) {
            w.clock.t_s = 1000 + until;
            return;
        }
    }
}

/* The end of all jobs, as world_result() writes it; the world goes. */
static inline void play_out(const char *want)
{
    play(INFINITY);
    char *got = world_result(&w);
    is_str(got, want, "  how all ended");
    world_check_log(&w);
    is_int(w.n_bad, 0, "  nothing was odd on the way");
    free(got);
    world_clear(&w);
}

#endif
