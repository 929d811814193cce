/* alloc_fake.h - an allocator in virtual time, with scripted failures.
 *
 * It starts nothing. A grant takes grant_delay_s, an attempt runs for the
 * time that run_s() says and ends with its exit code. The world outlives the
 * allocator, as slurmctld outlives a daemon: create one world, attach any
 * number of allocators to it one after the other.
 */
#ifndef MGPU_SLURM_ALLOC_FAKE_H
#define MGPU_SLURM_ALLOC_FAKE_H

#include "jobs/base/clock.h"
#include "slurm/alloc.h"

struct alloc_fake_outcome {
    double run_s; /* INFINITY: until released */
    int32_t exit_code;
    int32_t signal;
    int32_t refuse;  /* 1: REFUSED instead of GRANTED */
    int32_t lose;    /* 1: LOST after run_s instead of EXITED */
    int32_t unknown; /* 1: request() says ERR_BUSY, yet it was accepted */
};

struct alloc_fake_conf {
    int32_t nodes, gpus_per_node;
    double grant_delay_s;
    const struct clock *clock; /* borrowed */
    /* What becomes of an attempt; NULL: runs 1 s, exits 0. */
    void (*outcome)(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret);
    void *arg;
};

struct alloc_fake_world;
int alloc_fake_world_create(const struct alloc_fake_conf *conf,
                            struct alloc_fake_world **ret,
                            struct error *err) MUST_CHECK;
void alloc_fake_world_destroy(struct alloc_fake_world *w);

/* How often the world really started (job, attempt): more than once is the
 * bug that the dispatch protocol exists to prevent. */
int32_t alloc_fake_starts(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt);
/* When something happens next, on the world's clock; INFINITY for never. */
double alloc_fake_next_s(const struct alloc_fake_world *w);

int alloc_fake_create(struct alloc_fake_world *w, struct alloc **ret,
                      struct error *err) MUST_CHECK;

#endif
