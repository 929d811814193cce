/* curve_cache.c - curves that are kept: what is read of them again, and that
 * they are what a store has, whatever the order in which its rows come. The
 * store is a list in memory that counts what is read. */
#include "scheduler/ctld/curve_data/curve_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"

enum { JOBS = 8, ROWS_CAP = 200000 };

static struct {
    struct store base;
    struct row {
        int32_t attempt, rank;
        int64_t x;
        double value;
    } rows[ROWS_CAP]; /* of each job, in the order of a store */
    size_t n;
    int64_t n_read;
    bool fails;
} list;

static int by_key(const void *a, const void *b)
{
    const struct row *r = a, *s = b;
    if (r->attempt != s->attempt)
        return r->attempt < s->attempt ? -1 : 1;
    if (r->x != s->x)
        return r->x < s->x ? -1 : 1;
    return r->rank < s->rank ? -1 : r->rank > s->rank;
}

/* The columns of samples_per_s, or of loss: curve_source.h says where. */
static int list_query(struct store *s, const struct store_query *q,
                      int (*row)(void *arg, const struct store_cell *cells,
                                 size_t n, struct error *err),
                      void *arg, struct error *err)
{
    int64_t n = 0;
    (void)s;
    for (size_t i = 0; i < list.n && n < q->limit; i++) {
        const struct row *r = &list.rows[i];
        struct store_cell cells[32];
        size_t k = 0;
        if (r->attempt != q->attempt || (q->after != 0 && r->x <= q->after) ||
            (q->rank >= 0 && q->rank != r->rank))
            continue;
        for (int c = 0; c < 32; c++) {
            if (!(q->columns >> c & 1))
                continue;
            cells[k++] = (struct store_cell){.kind = CELL_REAL, .r = r->value};
        }
        /* The keys are integers: iteration, epoch and samples. */
        for (size_t c = 0; c < k; c++)
            cells[c].i = r->x;
        cells[0].kind = CELL_INT;
        n++;
        list.n_read++;
        if (row(arg, cells, k, err) < 0)
            return -1;
    }
    return list.fails ? error_set(err, ERR_IO, "the disk is gone") : 0;
}

static const struct metric_store_ops ops = {.query = list_query};

static void add(int32_t attempt, int32_t rank, int64_t x)
{
    list.rows[list.n++] = (struct row){.attempt = attempt,
                                       .rank = rank,
                                       .x = x,
                                       .value = (double)(x * 7919 % 1009)};
}

static void sort(void)
{
    qsort(list.rows, list.n, sizeof(list.rows[0]), by_key);
}

static struct curve_read curve(uint64_t job, const char *of,
                               int32_t attempt_last)
{
    struct curve_read like = {.job = job,
                              .rank = 0,
                              .cost = 1,
                              .to = INT64_MAX,
                              .attempt_last = attempt_last,
                              .attempt = 1};
    curve_source_find(of, false, &like.source);
    if (like.source.amount)
        like.rank = -1;
    return like;
}

/* All portions of a curve; how many rows that took. */
static const struct curve_read *read_all(struct curve_cache *cache,
                                         const struct curve_read *like,
                                         int64_t *ret_n)
{
    struct error err = ERROR_INIT;
    const struct curve_read *r = NULL;
    int64_t n = 0;
    list.n_read = 0;
    do {
        if (curve_cache_read(cache, &list.base, like, &n, &r, &err) < 0)
            tap_diag("%s", err.msg);
    } while (r && !r->is_over);
    *ret_n = list.n_read;
    return r;
}

/* Whether it is what reading all rows at once gives. */
static bool is_whole(const struct curve_read *r, const struct curve_read *like)
{
    struct error err = ERROR_INIT;
    struct curve_read full;
    int64_t n = 0;
    curve_read_init(&full, like, CURVE_CACHE_POINTS, 1);
    while (!full.is_over)
        if (curve_read_portion(&full, &list.base, &n, &err) < 0)
            break;
    bool is = r && full.is_over && full.curve.n == r->curve.n &&
              full.curve.width == r->curve.width;
    for (size_t i = 0; is && i < full.curve.n; i++) {
        const struct thinning_bucket *a = &full.curve.at[i];
        const struct thinning_bucket *b = &r->curve.at[i];
        is = a->attempt == b->attempt && a->first == b->first &&
             a->last == b->last && a->n == b->n && a->stored == b->stored &&
             a->samples == b->samples &&
             (a->min == b->min || (isnan(a->min) && isnan(b->min))) &&
             (a->max == b->max || (isnan(a->max) && isnan(b->max))) &&
             (a->value == b->value || (isnan(a->value) && isnan(b->value)));
    }
    curve_read_clear(&full);
    return is;
}

static void note(struct curve_cache *cache, int32_t attempt, int32_t rank,
                 int64_t x)
{
    struct metric_row row = {.kind = METRIC_ITERATION,
                             .iteration = {.rank = rank, .iteration = x}};
    for (uint64_t job = 1; job <= JOBS; job++)
        curve_cache_note(cache, job, attempt, &row, 1);
}

static void test_new_rows(void)
{
    struct curve_cache *cache = NULL;
    struct error err = ERROR_INIT;
    const struct curve_read like = curve(1, "loss", 1);
    const struct curve_read *r = NULL;
    int64_t n = 0;
    is_int(curve_cache_create(CURVE_CACHE_BYTES, &cache, &err), 0, "a cache");
    list.n = 0;
    for (int64_t x = 1; x <= 120000; x++)
        add(1, 0, x);
    r = read_all(cache, &like, &n);
    ok(is_whole(r, &like), "the curve is that of a reading of all rows");
    (void)read_all(cache, &like, &n);
    is_int(n, 0, "asked for again it takes no row");
    for (int64_t x = 120001; x <= 120010; x++) {
        add(1, 0, x);
        note(cache, 1, 0, x);
    }
    r = read_all(cache, &like, &n);
    is_int(n, 10, "ten more iterations take ten rows");
    ok(is_whole(r, &like), "and are there");
    for (int64_t x = 100000; x <= 120020; x++)
        add(2, 0, x);
    const struct curve_read next = curve(1, "loss", 2);
    r = read_all(cache, &next, &n);
    is_int(n, 20021, "another attempt takes its rows");
    ok(is_whole(r, &next), "and is there");
    curve_cache_destroy(cache);
}

/* Rows of an iteration that was read, and of an attempt that has a next one. */
static void test_late_rows(void)
{
    struct curve_cache *cache = NULL;
    struct error err = ERROR_INIT;
    const struct curve_read like = curve(1, "samples_per_s", 2);
    const struct curve_read loss = curve(1, "loss", 2);
    const struct curve_read *r = NULL;
    int64_t n = 0;
    is_int(curve_cache_create(CURVE_CACHE_BYTES, &cache, &err), 0, "a cache");
    list.n = 0;
    for (int64_t x = 1; x <= 4000; x++)
        add(x <= 2000 ? 1 : 2, 0, x);
    (void)read_all(cache, &like, &n);
    (void)read_all(cache, &loss, &n);
    add(2, 1, 3999);
    sort();
    note(cache, 2, 1, 3999);
    r = read_all(cache, &like, &n);
    ok(is_whole(r, &like), "a rate counts a rank that comes later");
    ok(n < 100, "for which few rows are read again");
    (void)read_all(cache, &loss, &n);
    is_int(n, 0, "a curve of rank 0 needs none of them");
    add(1, 1, 17);
    add(1, 1, 1999);
    sort();
    note(cache, 1, 1, 1999);
    note(cache, 1, 1, 17);
    r = read_all(cache, &like, &n);
    ok(is_whole(r, &like), "so do rows of an attempt before");
    list.n = 100;
    curve_cache_forget(cache, 2, JOBS);
    (void)read_all(cache, &like, &n);
    is_int(n, 0, "rows of other jobs are removed: nothing is read");
    curve_cache_forget(cache, 1, 1);
    r = read_all(cache, &like, &n);
    ok(n == 100 && is_whole(r, &like), "rows of this one: all is read again");
    curve_cache_destroy(cache);
}

/* Whatever the order of rows and questions. */
static void test_any_order(void)
{
    struct curve_cache *cache = NULL;
    struct error err = ERROR_INIT;
    unsigned seed = 7;
    bool is = true;
    is_int(curve_cache_create(CURVE_CACHE_BYTES, &cache, &err), 0, "a cache");
    list.n = 0;
    for (int round = 0; round < 300 && is; round++) {
        const int32_t attempts = 1 + round / 100;
        for (int k = 0; k < 20; k++) {
            seed = seed * 1103515245 + 12345;
            const int64_t x = (seed >> 8) % 5000;
            const int32_t rank = (int32_t)(seed >> 24) % 3;
            const int32_t attempt = 1 + (int32_t)(seed >> 16) % attempts;
            bool is_new = true;
            for (size_t i = 0; i < list.n && is_new; i++)
                is_new = list.rows[i].attempt != attempt ||
                         list.rows[i].x != x || list.rows[i].rank != rank;
            if (!is_new)
                continue;
            add(attempt, rank, x);
            note(cache, attempt, rank, x);
        }
        sort();
        int64_t n = 0;
        const struct curve_read rate = curve(1, "samples_per_s", attempts);
        const struct curve_read loss = curve(1, "loss", attempts);
        is = is_whole(read_all(cache, &rate, &n), &rate) &&
             is_whole(read_all(cache, &loss, &n), &loss);
    }
    ok(is && list.n > 5000,
       "rows in any order are as if they were read at once");
    curve_cache_destroy(cache);
}

static void test_bound(void)
{
    struct curve_cache *cache = NULL;
    struct error err = ERROR_INIT;
    int64_t n = 0;
    /* A curve of 1,000 points takes about 120 KiB. */
    is_int(curve_cache_create(300000, &cache, &err), 0, "a small cache");
    list.n = 0;
    for (int64_t x = 1; x <= 1000; x++)
        add(1, 0, x);
    for (uint64_t job = 1; job <= 3; job++) {
        const struct curve_read like = curve(job, "loss", 1);
        (void)read_all(cache, &like, &n);
    }
    const struct curve_read third = curve(3, "loss", 1);
    const struct curve_read first = curve(1, "loss", 1);
    (void)read_all(cache, &third, &n);
    is_int(n, 0, "keeps the newest curve");
    (void)read_all(cache, &first, &n);
    is_int(n, 1000, "and reads the oldest again");
    list.fails = true;
    list.rows[list.n++] = (struct row){.attempt = 1, .x = 1001};
    const struct curve_read *r = NULL;
    is_int(curve_cache_read(cache, &list.base, &first, &n, &r, &err), -1,
           "a store that fails");
    list.fails = false;
    r = read_all(cache, &first, &n);
    ok(n == 1001 && is_whole(r, &first), "leaves nothing that is half read");
    curve_cache_destroy(cache);
    curve_cache_destroy(NULL);
}

/* However short they are. */
static void test_number(void)
{
    struct curve_cache *cache = NULL;
    struct error err = ERROR_INIT;
    int64_t n = 0;
    is_int(curve_cache_create(CURVE_CACHE_BYTES, &cache, &err), 0, "a cache");
    list.n = 0;
    add(1, 0, 1);
    for (uint64_t job = 1; job <= CURVE_CACHE_CURVES + 1; job++) {
        const struct curve_read like = curve(job, "loss", 1);
        (void)read_all(cache, &like, &n);
    }
    const struct curve_read second = curve(2, "loss", 1);
    const struct curve_read first = curve(1, "loss", 1);
    (void)read_all(cache, &second, &n);
    is_int(n, 0, "as many short curves as allowed are kept");
    (void)read_all(cache, &first, &n);
    is_int(n, 1, "and the one before them is read again");
    curve_cache_destroy(cache);
}

int main(void)
{
    list.base.metrics = &ops;
    test_new_rows();
    test_late_rows();
    test_any_order();
    test_bound();
    test_number();
    return tap_done();
}
