/* scaling_guess.h - sizes that a job may have and that its class has not run
 * on, as rows of v_scaling whose basis is `fitted` or `assumed`.
 *
 * The database has what was measured. What the policy thinks of other sizes is
 * in the engine's model of the class (policy/throughput.h), and is nothing that
 * a database could keep: each iteration may change it. It is taken on the loop;
 * the rest works on a copy, on the reader's thread.
 */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_SCALING_GUESS_H
#define MGPU_SCHEDULER_CTLD_REQUEST_SCALING_GUESS_H

#include "db/store.h"
#include "scheduler/engine/job.h"
#include "scheduler/policy/throughput.h"

struct ctld;

enum { SCALING_GUESSES_MAX = 64 };
struct scaling_guess {
    struct throughput m;
    int32_t n;
    struct {
        int32_t nodes, per_node;
    } at[SCALING_GUESSES_MAX]; /* by GPUs */
    char type[32];             /* of the GPUs that the model is about */
    /* Of the smallest measured size on this type, or else of one without a
     * type; class NULL: there was none. */
    char *class, *gpu_type; /* owned; gpu_type NULL: none */
    double one_per_s, samples_per_s, tokens_per_s, speedup;
};

/* Empty: the class has never run, or the job may have no other size. */
void scaling_guess_take(const struct ctld *c, const struct job *job,
                        struct scaling_guess *ret);
/* A measured row of the view, in the view's order. err  ERR_NOMEM */
int scaling_guess_note(struct scaling_guess *g, const struct store_cell *cells,
                       size_t n, struct error *err) MUST_CHECK;
/* Calls row() for each size that was not measured, with the view's columns. */
int scaling_guess_rows(const struct scaling_guess *g,
                       int (*row)(void *arg, const struct store_cell *cells,
                                  size_t n, struct error *err),
                       void *arg, struct error *err) MUST_CHECK;
void scaling_guess_clear(struct scaling_guess *g);

#endif
