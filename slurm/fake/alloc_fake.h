/* alloc_fake.h - an allocator in virtual time, with scripted failures.
 *
 * It starts nothing. A grant takes grant_delay_s, an attempt runs for the
 * time that run_s() says and ends with its exit code. The world outlives the
 * allocator, as slurmctld outlives a daemon: create one world, attach any
 * number of allocators to it one after the other.
 */
#ifndef MGPU_SLURM_FAKE_ALLOC_FAKE_H
#define MGPU_SLURM_FAKE_ALLOC_FAKE_H

#include "jobs/base/clock.h"
#include "slurm/alloc.h"

struct alloc_fake_outcome {
    double run_s; /* INFINITY: until released */
    int32_t exit_code;
    int32_t signal;
    int32_t refuse;  /* 1: REFUSED instead of GRANTED */
    int32_t lose;    /* 1: LOST after run_s instead of EXITED; 2: forgotten
                        by the cluster's scheduler itself */
    int32_t unknown; /* 1: request() says ERR_BUSY, yet it was accepted */
    int32_t twice;   /* 1: started twice, and the notes name the one that has
                        no worker until claimed() tells better */
    double wait_s;   /* held for its own sake for so long, with WAITING;
                        others overtake it */
    enum alloc_ended_by ended_by;
    const char *wait_why, *why; /* of WAITING; of LOST and ended_by other;
                                   NULL: one of its own */
};

struct alloc_fake_conf {
    int32_t nodes, gpus_per_node;
    /* So many of them in a row are one machine, whose GPUs are of the types
     * "fake0", "fake1", .., numbered through, and which runs no more than
     * `shared` GPUs at a time; nodes is a multiple. 0, 1: all are "fake". A
     * request for GPUs that names no type is refused then. */
    int32_t parts, shared;
    double grant_delay_s;
    const struct clock *clock; /* borrowed */
    /* What becomes of an attempt; NULL: runs 1 s, exits 0. */
    void (*outcome)(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret);
    /* Changes a node (from 0) as the inventory has it: type, partitions,
     * is_up, gpus_free (less than it was: others have them) ... A node that
     * is down gets nothing new. NULL: all alike. */
    void (*node)(void *arg, int32_t i, struct alloc_node *io);
    /* Whether an attempt that is asked for with w may go there; NULL: yes. */
    bool (*may_use)(void *arg, int32_t i, const struct alloc_where *w);
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
/* How often the allocators were told that it was claimed. */
int32_t alloc_fake_claims(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt);
/* How many signals reached its ranks, and the last. */
int32_t alloc_fake_signals(const struct alloc_fake_world *w, uint64_t job,
                           int32_t attempt, int32_t *ret_last);
/* Where its worker is, whatever the notes say; NULL: it was not started. */
const char *alloc_fake_native_id(const struct alloc_fake_world *w, uint64_t job,
                                 int32_t attempt);
/* When something happens next, on the world's clock; INFINITY for never. */
double alloc_fake_next_s(const struct alloc_fake_world *w);

int alloc_fake_create(struct alloc_fake_world *w, struct alloc **ret,
                      struct error *err) MUST_CHECK;

#endif
