/* scaling_guess.h - what v_scaling has of sizes that a class of jobs has not
 * run on: rows whose basis is `fitted` or `assumed`.
 *
 * The engine's model of the class (policy/throughput.h) changes with each
 * iteration. The store is told whenever an attempt has trained twice as long as
 * the last time, so that an attempt of N iterations costs log2(N) writes.
 */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_SCALING_GUESS_H
#define MGPU_SCHEDULER_CTLD_INGEST_SCALING_GUESS_H

#include <stddef.h>

#include "db/metric_store.h"
#include "scheduler/engine/job.h"
#include "scheduler/policy/throughput.h"

struct ctld;
struct attempt_metrics;

/* The sizes of a cluster that a class of jobs can have. */
struct scaling_sizes {
    int32_t parts;    /* the ranks divide them equally; 0: any number */
    int32_t per_node; /* GPUs of the largest node */
    int64_t nodes;    /* of that many */
    int32_t explore;  /* none above the largest measured one times this */
};

/* Those that the model tells something about and that have not run, by GPUs;
 * returns their number. Their base is the smallest measured size. */
enum { SCALING_GUESSES_MAX = 64 };
size_t scaling_guess_fill(const struct throughput *m,
                          const struct scaling_sizes *sizes,
                          struct store_guess ret[SCALING_GUESSES_MAX]);

/* On the loop, when the engine was told of n more iterations of the attempt.
 * The writer's thread stores the guesses, for a job that has a range. */
void scaling_guess_note(struct ctld *c, struct attempt_metrics *i,
                        const struct job *job, size_t n);

#endif
