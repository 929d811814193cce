/* sol_counts.h - how near to its GPU's limit training comes, over all jobs. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_SOL_COUNTS_H
#define MGPU_SCHEDULER_CTLD_INGEST_SOL_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/wire/metric_rows.h"

enum { SOL_BUCKETS = 11 };
/* Iterations of training since the daemon started. */
struct sol_counts {
    uint64_t n, buckets[SOL_BUCKETS]; /* not cumulative; the last is all above
                                         the bounds */
    double sum;
};
extern const double sol_counts_bounds[SOL_BUCKETS - 1];

/* The shares in rows that are being stored. Cleared by sol_shares_clear(). */
struct sol_shares {
    size_t n, cap;
    struct sol_share {
        int64_t iteration;
        double share;
    } * at; /* owned */
};
void sol_shares_clear(struct sol_shares *s);

/* Notes the row if it is rank 0's `sol` of an iteration.
 * err  ERR_NOMEM */
int sol_counts_note(struct sol_shares *io, const struct metric_row *m,
                    struct error *err) MUST_CHECK;

/* On the loop: counts each iteration of an attempt once. A program may call
 * something else `sol`: a command's are not counted. */
struct attempt_metrics;
struct ctld;
void sol_counts_add(struct ctld *c, struct attempt_metrics *i,
                    const struct sol_shares *s);

#endif
