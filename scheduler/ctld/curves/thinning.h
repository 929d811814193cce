/* thinning.h - a curve of any length as a bounded number of buckets.
 *
 * A bucket is `width` iterations of one attempt, from a multiple of width on;
 * width is a power of two. When there are more buckets than allowed, the width
 * doubles and neighbours become one. So buckets of one width are the same
 * wherever a reader begins, and two parts of a curve can be put together. */
#ifndef MGPU_SCHEDULER_CTLD_CURVES_THINNING_H
#define MGPU_SCHEDULER_CTLD_CURVES_THINNING_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { THINNING_WIDTH_MAX = 1 << 30 };

struct thinning_bucket {
    int32_t attempt;
    int64_t first, last; /* iterations that have rows */
    double time_s;       /* when the last one began, since 1970; NAN */
    int64_t epoch;       /* of the last one; 0: not known */
    int64_t samples;     /* of all of them */
    double min, max;     /* of what is finite; NAN: nothing is */
    double value;        /* the last row's: NAN and infinities as they are */
    int64_t n;           /* rows */
    int64_t none, plus_inf, minus_inf; /* of those: without a number, ... */
};

struct thinning {
    struct thinning_bucket *at;
    size_t n, max;
    int64_t width;
};

/* One row of a curve, as a bucket of one row: only attempt, first, time_s,
 * epoch, samples and value are read. */
typedef struct thinning_bucket thinning_row;

/* in   max    buckets, 1 or more
 *      width  to begin with; a power of two, at most THINNING_WIDTH_MAX
 * err  ERR_NOMEM */
int thinning_init(struct thinning *t, size_t max, int64_t width,
                  struct error *err) MUST_CHECK;
void thinning_clear(struct thinning *t); /* zeroed is fine */

/* Adds a row. They come in the order of attempts, then iterations.
 * err  ERR_LIMIT there are more attempts than buckets; nothing was added */
int thinning_add(struct thinning *t, const thinning_row *row,
                 struct error *err) MUST_CHECK;

#endif
