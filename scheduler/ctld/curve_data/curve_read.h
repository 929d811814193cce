/* curve_read.h - read a curve from the store, in portions.
 *
 * Between two portions a reading is at the beginning of an iteration, so it can
 * go on whenever there are more rows. */
#ifndef MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_READ_H
#define MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/ctld/curve_data/curve_source.h"
#include "scheduler/ctld/curve_data/thinning.h"

struct store;

/* Rows of a portion, and as many attempts: tens of milliseconds. */
enum { CURVE_PORTION = 50000 };

struct curve_read {
    struct curve_source source; /* its name is borrowed */
    uint64_t job;
    int32_t rank; /* -1: all */
    int64_t cost; /* rows that are looked at for one: of all ranks */
    int64_t from, to;
    int32_t attempt_last;
    int32_t attempt; /* the next portion is of it, */
    int64_t begin;   /* from this iteration on; earlier ones were read */
    int64_t limit;   /* rows of a query */
    bool is_over;    /* no rows were left */
    struct thinning curve;
    int64_t n_query, last_x; /* of this query: rows, and the last row's x */
    thinning_row row;        /* of the iteration that is being read */
    bool has_row;
    double amount, t_iter; /* of its ranks: for a rate */
};

/* in   like  source, job, rank, cost, from, to, attempt_last, and where it
 *            begins: attempt, begin */
void curve_read_init(struct curve_read *r, const struct curve_read *like,
                     size_t points, int64_t width);
void curve_read_clear(struct curve_read *r); /* zeroed is fine */

/* Reads the next portion; is_over says whether it was the last one. What the
 * curve has of a portion that failed is not known.
 * out  io_n  plus the rows and the queries that it took
 * err  of the store; ERR_LIMIT there are more attempts than points */
int curve_read_portion(struct curve_read *r, struct store *s, int64_t *io_n,
                       struct error *err) MUST_CHECK;

/* Forgets what was read from iteration x of the attempt on, and reads that
 * again. Attempt 0: all of it. */
void curve_read_again(struct curve_read *r, int32_t attempt, int64_t x);
/* Whether iteration x of the attempt was read, or is not there. */
bool curve_read_has(const struct curve_read *r, int32_t attempt, int64_t x);

#endif
