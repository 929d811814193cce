/* alloc_fake.h - an allocator in virtual time, with scripted failures.
 *
 * It starts no process. A grant takes grant_delay_s; an attempt runs for the
 * time that outcome() sets and ends with its exit code, or when the caller of
 * alloc_fake_end() says so. The world outlives the
 * allocator, as slurmctld outlives a daemon: create one world, attach any
 * number of allocators to it one after the other. */
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
                        by the cluster's scheduler itself; 3: preempted by it */
    int32_t unknown; /* 1: request() fails with ERR_BUSY, yet it was accepted */
    int32_t twice;   /* 1: started twice; until claimed() corrects it, the
                      * notes name the copy without a worker */
    double stop_s;   /* from a signal to the end of the ranks; 0: 0.1 s */
    int32_t over_size; /* 1: it waits for wait_s, or is refused, for a limit
                          of its size */
    double wait_s;     /* held for this time, with WAITING; other requests
                        * overtake it */
    enum alloc_ended_by ended_by;
    const char *wait_why, *why; /* of WAITING; of LOST and ended_by other;
                                 * NULL: a default text */
};

struct alloc_fake_conf {
    int32_t nodes, gpus_per_node;
    /* How many consecutive nodes are one machine, whose GPUs are of the types
     * "fake0", "fake1", .., one type per node, and which runs at most `shared`
     * GPUs at a time; nodes is a multiple of parts. 0, 1: all GPUs are "fake".
     * Otherwise a request for GPUs without a type is refused. */
    int32_t parts, shared;
    /* [nodes] GPUs of each node, at most gpus_per_node; NULL: all of them.
     * Borrowed. */
    const int32_t *gpus;
    /* An attempt that has ended is forgotten once two polls have passed. Only
     * for a world with one allocator that repeats no request. */
    bool forgets;
    double grant_delay_s;
    const struct clock *clock; /* borrowed */
    /* Sets what happens to an attempt; NULL: runs 1 s, exits 0. */
    void (*outcome)(void *arg, uint64_t job, int32_t attempt, int32_t gpus,
                    struct alloc_fake_outcome *ret);
    /* Changes a node (from 0) of the inventory: type, partitions, is_up,
     * gpus_free (less: other users have them) ... A node that is down gets no
     * new attempts. NULL: all nodes are alike. */
    void (*node)(void *arg, int32_t i, struct alloc_node *io);
    /* As alloc_ops.quotas; NULL: none. */
    size_t (*quotas)(void *arg, const struct alloc_quota **ret);
    /* Whether a request with w may use the node; NULL: yes. */
    bool (*may_use)(void *arg, int32_t i, const struct alloc_where *w);
    void *arg;
};

struct alloc_fake_world;
int alloc_fake_world_create(const struct alloc_fake_conf *conf,
                            struct alloc_fake_world **ret,
                            struct error *err) MUST_CHECK;
void alloc_fake_world_destroy(struct alloc_fake_world *w);

/* How often the world started (job, attempt): more than once is the bug that
 * the dispatch protocol exists to prevent. */
int32_t alloc_fake_starts(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt);
/* How often claimed() was called for it. */
int32_t alloc_fake_claims(const struct alloc_fake_world *w, uint64_t job,
                          int32_t attempt);
/* How many signals reached its ranks, and the last one. */
int32_t alloc_fake_signals(const struct alloc_fake_world *w, uint64_t job,
                           int32_t attempt, int32_t *ret_last);
/* Where its worker really runs, whatever the notes say; NULL: not started. */
const char *alloc_fake_native_id(const struct alloc_fake_world *w, uint64_t job,
                                 int32_t attempt);
/* Ends a running attempt now, as `how` says: exit_code, signal, lose, ended_by
 * and why. err  ERR_NOTFOUND it does not run */
int alloc_fake_end(struct alloc_fake_world *w, uint64_t job, int32_t attempt,
                   const struct alloc_fake_outcome *how,
                   struct error *err) MUST_CHECK;
/* Tells the allocator that nodes went down or came back (conf.node). */
int alloc_fake_changed(struct alloc_fake_world *w,
                       struct error *err) MUST_CHECK;
/* Time of the next event, on the world's clock; INFINITY: none. */
double alloc_fake_next_s(const struct alloc_fake_world *w);

int alloc_fake_create(struct alloc_fake_world *w, struct alloc **ret,
                      struct error *err) MUST_CHECK;

#endif
