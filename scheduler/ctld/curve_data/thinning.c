/* thinning.c - see thinning.h. */
#include "scheduler/ctld/curve_data/thinning.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CAP_FIRST = 32 };

void thinning_init(struct thinning *t, size_t max, int64_t width)
{
    *t = (struct thinning){.max = max, .width = width};
}

void thinning_clear(struct thinning *t)
{
    free(t->at);
    *t = (struct thinning){.n = 0};
}

static bool is_same(const struct thinning *t, const struct thinning_bucket *a,
                    const struct thinning_bucket *b)
{
    return a->attempt == b->attempt &&
           a->first / t->width == b->first / t->width;
}

/* Makes b, which is later, a part of a. fmin() and fmax() of NAN and a number
 * are the number. */
static void join(struct thinning_bucket *a, const struct thinning_bucket *b)
{
    a->last = b->last;
    a->time_s = isnan(b->time_s) ? a->time_s : b->time_s;
    a->epoch = b->epoch > 0 ? b->epoch : a->epoch;
    a->samples += b->samples;
    a->min = fmin(a->min, b->min);
    a->max = fmax(a->max, b->max);
    a->value = b->value;
    a->n += b->n;
    a->none += b->none;
    a->plus_inf += b->plus_inf;
    a->minus_inf += b->minus_inf;
    a->stored += b->stored;
}

static void widen(struct thinning *t)
{
    size_t n = 0;
    t->width *= 2;
    for (size_t i = 0; i < t->n; i++)
        if (n > 0 && is_same(t, &t->at[n - 1], &t->at[i]))
            join(&t->at[n - 1], &t->at[i]);
        else
            t->at[n++] = t->at[i];
    t->n = n;
}

static struct thinning_bucket bucket_of(const thinning_row *row)
{
    struct thinning_bucket b = *row;
    b.last = b.first;
    b.n = 1;
    b.min = b.max = isfinite(b.value) ? b.value : (double)NAN;
    b.none = isnan(b.value);
    b.plus_inf = isinf(b.value) && b.value > 0;
    b.minus_inf = isinf(b.value) && b.value < 0;
    return b;
}

/* Room for one more than allowed, before neighbours become one. */
static int reserve(struct thinning *t, struct error *err)
{
    if (t->n < t->cap)
        return 0;
    size_t cap = t->cap > 0 ? 2 * t->cap : CAP_FIRST;
    cap = cap < t->max + 1 ? cap : t->max + 1;
    struct thinning_bucket *at = realloc(t->at, cap * sizeof(*at));
    if (!at)
        return error_set(err, ERR_NOMEM, "curve");
    t->at = at;
    t->cap = cap;
    return 0;
}

int thinning_put(struct thinning *t, const struct thinning_bucket *bucket,
                 struct error *err)
{
    if (t->n > 0 && is_same(t, &t->at[t->n - 1], bucket)) {
        join(&t->at[t->n - 1], bucket);
        return 0;
    }
    if (reserve(t, err) < 0)
        return -1;
    t->at[t->n++] = *bucket;
    while (t->n > t->max && t->width < THINNING_WIDTH_MAX)
        widen(t);
    if (t->n <= t->max)
        return 0;
    t->n--; /* the row is alone in its bucket: widths do not join attempts */
    return error_set(err, ERR_LIMIT, "more attempts than points");
}

int thinning_add(struct thinning *t, const thinning_row *row, struct error *err)
{
    const struct thinning_bucket b = bucket_of(row);
    return thinning_put(t, &b, err);
}

size_t thinning_find(const struct thinning *t, int32_t attempt, int64_t x)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const struct thinning_bucket *b = &t->at[mid];
        if (b->attempt < attempt ||
            (b->attempt == attempt && b->first / t->width < x / t->width))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int64_t thinning_stored(const struct thinning *t, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += t->at[i].stored;
    return sum;
}

size_t thinning_bytes(const struct thinning *t)
{
    return t->cap * sizeof(*t->at);
}
