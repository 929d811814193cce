/* thinning.c - see thinning.h. */
#include "scheduler/ctld/curves/thinning.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int thinning_init(struct thinning *t, size_t max, int64_t width,
                  struct error *err)
{
    *t = (struct thinning){.max = max, .width = width};
    /* One more than allowed, before neighbours become one. */
    t->at = calloc(max + 1, sizeof(*t->at));
    return t->at ? 0 : error_set(err, ERR_NOMEM, "curve");
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

int thinning_add(struct thinning *t, const thinning_row *row, struct error *err)
{
    const struct thinning_bucket b = bucket_of(row);
    if (t->n > 0 && is_same(t, &t->at[t->n - 1], &b)) {
        join(&t->at[t->n - 1], &b);
        return 0;
    }
    t->at[t->n++] = b;
    while (t->n > t->max && t->width < THINNING_WIDTH_MAX)
        widen(t);
    if (t->n <= t->max)
        return 0;
    t->n--; /* the row is alone in its bucket: widths do not join attempts */
    return error_set(err, ERR_LIMIT, "more attempts than points");
}
