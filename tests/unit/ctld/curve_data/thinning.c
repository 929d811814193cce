/* thinning.c - rows become buckets of a power of two, whatever their number;
 * what was least and most stays. */
#include "scheduler/ctld/curve_data/thinning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

static thinning_row row(int32_t attempt, int64_t iteration, double value)
{
    return (thinning_row){.attempt = attempt,
                          .first = iteration,
                          .time_s = 1000 + (double)iteration,
                          .epoch = 1 + iteration / 4,
                          .samples = 8,
                          .stored = 2,
                          .value = value};
}

static void put(struct thinning *t, int32_t attempt, int64_t iteration,
                double value)
{
    struct error err = ERROR_INIT;
    const thinning_row r = row(attempt, iteration, value);
    if (thinning_add(t, &r, &err) < 0)
        tap_diag("%s", err.msg);
}

/* "ATTEMPT:FIRST-LAST MIN..MAX VALUE N/NONE/+INF/-INF" */
static const char *shown(const struct thinning *t)
{
    static struct buf b;
    buf_reset(&b);
    for (size_t i = 0; i < t->n; i++) {
        const struct thinning_bucket *k = &t->at[i];
        if (buf_addf(&b, NULL, "%d:%lld-%lld %g..%g %g %lld/%lld/%lld/%lld\n",
                     (int)k->attempt, (long long)k->first, (long long)k->last,
                     k->min, k->max, k->value, (long long)k->n,
                     (long long)k->none, (long long)k->plus_inf,
                     (long long)k->minus_inf) < 0)
            exit(1);
    }
    return buf_str(&b);
}

static void test_few(void)
{
    struct thinning t;
    thinning_init(&t, 4, 1);
    for (int i = 1; i <= 4; i++)
        put(&t, 1, i, i * 0.5);
    is_str(shown(&t),
           "1:1-1 0.5..0.5 0.5 1/0/0/0\n1:2-2 1..1 1 1/0/0/0\n"
           "1:3-3 1.5..1.5 1.5 1/0/0/0\n1:4-4 2..2 2 1/0/0/0\n",
           "as many rows as buckets: each is one");
    put(&t, 1, 5, 0.25);
    is_int(t.width, 2, "one more, and the width doubles");
    is_str(shown(&t),
           "1:1-1 0.5..0.5 0.5 1/0/0/0\n1:2-3 1..1.5 1.5 2/0/0/0\n"
           "1:4-5 0.25..2 0.25 2/0/0/0\n",
           "buckets begin at multiples of it; min, max and the last value");
    ok(t.at[2].samples == 16 && t.at[2].time_s == 1005 && t.at[2].epoch == 2,
       "samples add up; time and epoch are the last row's");
    thinning_clear(&t);
}

static void test_odd_values(void)
{
    struct thinning t;
    thinning_init(&t, 2, 8);
    put(&t, 1, 1, 3);
    put(&t, 1, 2, INFINITY);
    put(&t, 1, 3, -INFINITY);
    put(&t, 1, 5, NAN);
    put(&t, 1, 8, NAN);
    put(&t, 1, 9, INFINITY);
    is_str(shown(&t), "1:1-5 3..3 nan 4/1/1/1\n1:8-9 nan..nan inf 2/1/1/0\n",
           "what is no number is counted, and no minimum");
    put(&t, 1, 16, 1);
    is_str(shown(&t), "1:1-9 3..3 inf 6/2/2/1\n1:16-16 1..1 1 1/0/0/0\n",
           "a bucket without a number takes the other's");
    thinning_clear(&t);
}

static void test_attempts(void)
{
    struct thinning t;
    struct error err = ERROR_INIT;
    thinning_init(&t, 2, 4);
    put(&t, 1, 1, 1);
    put(&t, 2, 2, 2);
    is_str(shown(&t), "1:1-1 1..1 1 1/0/0/0\n2:2-2 2..2 2 1/0/0/0\n",
           "attempts have no bucket in common");
    const thinning_row third = row(3, 3, 3);
    is_int(thinning_add(&t, &third, &err), -1, "a third attempt");
    is_int(err.code, ERR_LIMIT, "finds no room");
    is_str(shown(&t), "1:1-1 1..1 1 1/0/0/0\n2:2-2 2..2 2 1/0/0/0\n",
           "and changes nothing");
    thinning_clear(&t);
    thinning_clear(&t);
}

/* Whatever the number of rows: as many in all buckets, between half and all of
 * the buckets used, and the one peak is there. */
static void test_many(void)
{
    enum { MAX = 100 };
    for (int64_t n = 1; n <= 100000; n = n * 3 + 1) {
        struct thinning t;
        int64_t rows = 0;
        double most = -1;
        thinning_init(&t, MAX, 1);
        for (int64_t i = 1; i <= n; i++)
            put(&t, 1, i, i == n / 2 + 1 ? 7 : 1.0 / (double)i);
        for (size_t i = 0; i < t.n; i++) {
            rows += t.at[i].n;
            most = fmax(most, t.at[i].max);
        }
        ok(rows == n && most == 7 && t.n <= MAX && (n < MAX || t.n >= MAX / 2),
           "%lld rows in %zu buckets", (long long)n, t.n);
        thinning_clear(&t);
    }
}

/* A curve that is kept in more buckets than a reply has: the reply is what its
 * rows would have made. */
static void test_put(void)
{
    enum { N = 5000, KEPT = 300 };
    static const size_t points[] = {2, 7, 100, 299, KEPT};
    struct thinning kept;
    struct error err = ERROR_INIT;
    thinning_init(&kept, KEPT, 1);
    for (int64_t i = 1; i <= N; i++)
        put(&kept, i < N / 3 ? 1 : 2, i, (double)(i * 7919 % 1009));
    for (size_t k = 0; k < sizeof(points) / sizeof(points[0]); k++) {
        struct thinning part, rows;
        int rc = 0;
        thinning_init(&part, points[k], kept.width);
        thinning_init(&rows, points[k], 1);
        for (size_t i = 0; i < kept.n && rc == 0; i++)
            rc = thinning_put(&part, &kept.at[i], &err);
        for (int64_t i = 1; i <= N; i++)
            put(&rows, i < N / 3 ? 1 : 2, i, (double)(i * 7919 % 1009));
        char *of_rows = strdup(shown(&rows));
        is_str(shown(&part), of_rows, "as if made of the rows");
        is_int(part.width, rows.width, "in buckets of the same width");
        free(of_rows);
        thinning_clear(&part);
        thinning_clear(&rows);
    }
    thinning_clear(&kept);
}

static void test_find(void)
{
    struct thinning t;
    thinning_init(&t, 10, 4);
    for (int64_t i = 1; i <= 9; i++)
        put(&t, 1, i, 1);
    put(&t, 3, 6, 1);
    is_int((int64_t)thinning_find(&t, 0, 100), 0, "before all attempts");
    is_int((int64_t)thinning_find(&t, 1, 3), 0, "in the first bucket");
    is_int((int64_t)thinning_find(&t, 1, 4), 1, "the second begins");
    is_int((int64_t)thinning_find(&t, 1, 50), 3, "behind an attempt");
    is_int((int64_t)thinning_find(&t, 2, 0), 3, "one that has no rows");
    is_int((int64_t)thinning_find(&t, 3, 3), 3, "before its first row");
    is_int((int64_t)thinning_find(&t, 3, 8), 4, "behind the last row");
    is_int(thinning_stored(&t, 0), 0, "nothing before the first");
    is_int(thinning_stored(&t, 2), 14, "the rows of two buckets");
    is_int(thinning_stored(&t, 4), 20, "all rows");
    thinning_clear(&t);
}

int main(void)
{
    test_put();
    test_find();
    test_few();
    test_odd_values();
    test_attempts();
    test_many();
    return tap_done();
}
