/* thinning.h - a curve of any length as a bounded number of buckets.
 *
 * A bucket is `width` iterations of one attempt, from a multiple of width on;
 * width is a power of two. When there are more buckets than allowed, the width
 * doubles and neighbours become one. So buckets of one width are the same
 * wherever a reader begins, and two parts of a curve can be put together. */
#ifndef MGPU_SCHEDULER_CTLD_CURVE_DATA_THINNING_H
#define MGPU_SCHEDULER_CTLD_CURVE_DATA_THINNING_H

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
    int64_t stored; /* rows of the store that all this was made of */
};

struct thinning {
    struct thinning_bucket *at;
    size_t n, cap, max;
    int64_t width;
};

/* One row of a curve, as a bucket of one row: only attempt, first, time_s,
 * epoch, samples, value and stored are read. */
typedef struct thinning_bucket thinning_row;

/* in   max    buckets, 1 or more
 *      width  to begin with; a power of two, at most THINNING_WIDTH_MAX */
void thinning_init(struct thinning *t, size_t max, int64_t width);
void thinning_clear(struct thinning *t); /* zeroed is fine */

/* Adds a row. They come in the order of attempts, then iterations.
 * err  ERR_LIMIT there are more attempts than buckets, ERR_NOMEM; nothing was
 *      added */
int thinning_add(struct thinning *t, const thinning_row *row,
                 struct error *err) MUST_CHECK;
/* Adds a bucket of another thinning, whose width is at most that of t. Its
 * buckets come in their order. What t has in the end is what it would have if
 * each of their rows had been added.
 * err  as thinning_add() */
int thinning_put(struct thinning *t, const struct thinning_bucket *bucket,
                 struct error *err) MUST_CHECK;

/* How many buckets are before the one that x of the attempt is in. */
size_t thinning_find(const struct thinning *t, int32_t attempt, int64_t x);
/* The rows of the store that the first n buckets are made of. */
int64_t thinning_stored(const struct thinning *t, size_t n);
/* The bytes that it holds. */
size_t thinning_bytes(const struct thinning *t);

#endif
