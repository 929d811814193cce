/* llm_rows.c - rows by their index: look-ups, their gradients, exact sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

struct rows {
    struct bed *b;
    int64_t n, limit;
    int32_t C;
    struct tensor few, all;     /* [n, C], [limit, C] */
    int32_t *index, *order;     /* here */
    int32_t *d_index, *d_order; /* there */
};

/* Sorts `order` by index, and equal indices by themselves. */
static void sort(struct rows *k)
{
    for (int32_t i = 0; i < k->n; i++) {
        int32_t at = i;
        for (; at > 0 && k->index[k->order[at - 1]] > k->index[i]; at--)
            k->order[at] = k->order[at - 1];
        k->order[at] = i;
    }
}

static void push(struct rows *k)
{
    const struct device_ops *ops = k->b->d->ops;
    size_t bytes = (size_t)k->n * sizeof(int32_t);

    sort(k);
    must(ops->to_device(k->b->d, k->d_index, k->index, bytes, ERR));
    must(ops->to_device(k->b->d, k->d_order, k->order, bytes, ERR));
}

/* Integers as values. Indices repeat unless they are distinct: those of text
 * are few that come often and many that come once. */
static void rows_make(struct rows *k, struct bed *b, int64_t n, int32_t C,
                      int64_t limit, bool distinct)
{
    *k = (struct rows){.b = b, .n = n, .C = C, .limit = limit};
    k->few = tensor_ints(b, n * C, -8, 8);
    k->all = tensor_ints(b, limit * C, -8, 8);
    k->index = calloc((size_t)n + 1, sizeof(int32_t));
    k->order = calloc((size_t)n + 1, sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        double u = bed_uniform(b, 0, 1);
        int64_t often = (int64_t)((double)limit * u * u * u);
        k->index[i] = (int32_t)(distinct ? i * 7 % limit : often);
    }
    k->d_index = bed_indices(b, k->index, n);
    k->d_order = bed_indices(b, k->order, n);
    push(k);
}

static void rows_drop(struct rows *k)
{
    tensor_drop(&k->few);
    tensor_drop(&k->all);
    k->b->d->ops->release(k->b->d, k->d_index);
    k->b->d->ops->release(k->b->d, k->d_order);
    free(k->index);
    free(k->order);
}

static void take(void *arg)
{
    struct rows *k = arg;
    const struct row_part all = {0, k->limit, k->limit};

    must(k->b->d->ops->llm.take_rows(k->b->d, k->b->dt, k->few.p, k->all.p,
                                     k->d_index, k->n, k->C, &all, ERR));
}

static void put(void *arg)
{
    struct rows *k = arg;

    must(k->b->d->ops->llm.put_rows(k->b->d, k->b->dt, k->all.p, k->few.p,
                                    k->d_index, k->n, k->C, k->limit, ERR));
}

static void add(void *arg)
{
    struct rows *k = arg;
    const struct row_part all = {0, k->limit, k->limit};

    must(k->b->d->ops->llm.add_rows(k->b->d, k->b->dt, k->all.p, k->few.p,
                                    k->d_index, k->d_order, k->n, k->C, &all,
                                    ERR));
}

static void put_one(struct bed *b, int64_t n, int32_t C, int64_t limit)
{
    struct rows k;

    rows_make(&k, b, n, C, limit, true);
    double *want = zeros(limit * C);
    for (int64_t i = 0; i < n * C; i++)
        want[k.index[i / C] * C + i % C] = k.few.v[i];
    put(&k);
    same(&k.all, want, "put_rows %lld of %lld x %d", (long long)n,
         (long long)limit, C);
    take(&k);
    double *back = zeros(n * C);
    for (int64_t i = 0; i < n * C; i++)
        back[i] = want[k.index[i / C] * C + i % C];
    same(&k.few, back, "take_rows what put_rows wrote");
    free(want);
    free(back);
    rows_drop(&k);
}

static void add_one(struct bed *b, int64_t n, int32_t C, int64_t limit)
{
    struct rows k;

    rows_make(&k, b, n, C, limit, false);
    double *want = zeros(limit * C), *taken = zeros(n * C);
    memcpy(want, k.all.v, (size_t)(limit * C) * sizeof(*want));
    for (int64_t i = 0; i < n * C; i++)
        want[k.index[i / C] * C + i % C] += k.few.v[i];
    add(&k);
    same(&k.all, want, "exact add_rows %lld to %lld x %d", (long long)n,
         (long long)limit, C);
    for (int64_t i = 0; i < n * C; i++)
        taken[i] = rounded(b->dt, want[k.index[i / C] * C + i % C]);
    take(&k);
    same(&k.few, taken, "take_rows %lld of %lld x %d", (long long)n,
         (long long)limit, C);
    free(want);
    free(taken);
    rows_drop(&k);
}

/* 1 + many parts that each vanish beside it in a 16-bit type: in the
 * accumulator they do not. */
static void add_rounds_once(struct bed *b)
{
    enum { N = 64 };
    const double part = ldexp(1, b->dt == DT_BF16 ? -9 : -12);
    struct rows k;
    double want[2] = {1, 1 + (double)N * part};

    rows_make(&k, b, N, 1, 2, false);
    for (int i = 0; i < N; i++) {
        k.index[i] = 1;
        k.few.v[i] = part;
    }
    k.all.v[0] = k.all.v[1] = 1;
    push(&k);
    tensor_push(&k.few);
    tensor_push(&k.all);
    add(&k);
    same(&k.all, want, "add_rows rounds a row once");
    rows_drop(&k);
}

/* In the order of `order`: 2^30 swallows what comes after it in fp32. */
static void add_in_order(struct bed *b)
{
    enum { N = 5 };
    const double big = ldexp(1, dtype_acc(b->dt) == DT_F64 ? 60 : 30);
    const double values[N] = {big, 1, -big, 1, 1};
    double want[1] = {2};
    struct bed a = *b;
    struct rows k;

    a.dt = dtype_acc(b->dt); /* 16 bits do not have these values */
    rows_make(&k, &a, N, 1, 1, false);
    memcpy(k.few.v, values, sizeof(values));
    k.all.v[0] = 0;
    tensor_push(&k.few);
    tensor_push(&k.all);
    add(&k);
    same(&k.all, want, "add_rows keeps the order");
    memcpy(k.order, (int32_t[N]){3, 1, 4, 0, 2}, sizeof(int32_t) * N);
    must(b->d->ops->to_device(b->d, k.d_order, k.order, sizeof(int32_t) * N,
                              ERR));
    k.all.v[0] = 0;
    tensor_push(&k.all);
    want[0] = 0; /* 3, swallowed */
    add(&k);
    same(&k.all, want, "add_rows keeps another order");
    rows_drop(&k);
}

/* Beside the table: NaN for who reads, nothing for who writes. */
static void outside(struct bed *b, int32_t C)
{
    enum { N = 6, LIMIT = 4 };
    static const int32_t at[N] = {3, LIMIT, -1, 0, INT32_MAX, INT32_MIN};
    struct rows k;

    rows_make(&k, b, N, C, LIMIT, true);
    memcpy(k.index, at, sizeof(at));
    push(&k);
    double *sum = zeros(LIMIT * C), *only = zeros(LIMIT * C);
    memcpy(sum, k.all.v, (size_t)(LIMIT * C) * sizeof(*sum));
    for (int64_t i = 0; i < N * C; i++)
        if (at[i / C] >= 0 && at[i / C] < LIMIT) {
            sum[at[i / C] * C + i % C] += k.few.v[i];
            only[at[i / C] * C + i % C] = k.few.v[i];
        }
    add(&k);
    same(&k.all, sum, "add_rows leaves out what is outside");
    put(&k);
    same(&k.all, only, "put_rows leaves out what is outside");
    take(&k);
    tensor_pull(&k.few);
    int wrong = 0;
    for (int64_t i = 0; i < N * C; i++) {
        bool in = at[i / C] >= 0 && at[i / C] < LIMIT;
        double want = in ? only[at[i / C] * C + i % C] : NAN;
        wrong += in ? k.few.v[i] != want : !isnan(k.few.v[i]);
    }
    is_int(wrong, 0, "take_rows gives NaN for what is outside");
    free(sum);
    free(only);
    rows_drop(&k);
}

/* A table in parts, from the last to the first: each leaves the rows of others
 * as they are, and all of them together give the bits of the whole. */
static void take_parts(struct bed *b, int32_t C)
{
    enum { N = 40, LIMIT = 10, PART = 4 };
    const size_t size = dtype_bytes(b->dt);
    struct rows k;

    rows_make(&k, b, N, C, LIMIT, false);
    for (int i = 0; i < N; i++)
        k.index[i] = i % (LIMIT + 2) - 1;
    push(&k);
    take(&k);
    tensor_pull(&k.few);
    double *whole = zeros(N * C);
    memcpy(whole, k.few.v, (size_t)(N * C) * sizeof(*whole));
    for (int i = 0; i < N * C; i++)
        k.few.v[i] = -7;
    tensor_push(&k.few);
    int wrong = 0;
    for (int64_t first = LIMIT / PART * PART; first >= 0; first -= PART) {
        const int64_t left = LIMIT - first;
        const struct row_part part = {first, left < PART ? left : PART, LIMIT};
        must(b->d->ops->llm.take_rows(
            b->d, b->dt, k.few.p, (char *)k.all.p + (size_t)(first * C) * size,
            k.d_index, N, C, &part, ERR));
        tensor_pull(&k.few);
        for (int i = 0; i < N * C; i++) {
            const double v = k.few.v[i];
            const int32_t at = k.index[i / C];
            wrong += at < 0 || at >= LIMIT ? !isnan(v)
                     : at < first          ? v != -7
                                           : v != whole[i];
        }
    }
    is_int(wrong, 0, "take_rows of parts of a table");
    free(whole);
    rows_drop(&k);
}

static int64_t nans(struct tensor *t)
{
    int64_t n = 0;

    tensor_pull(t);
    for (int64_t i = 0; i < t->n; i++)
        n += isnan(t->v[i]) ? 1 : 0;
    return n;
}

/* The parts of a table one behind the other are the whole. */
static void add_parts(struct bed *b, int32_t C)
{
    enum { N = 40, LIMIT = 23, PART = 7 };
    struct rows k;

    rows_make(&k, b, N, C, LIMIT, false);
    double *want = zeros(LIMIT * C);
    memcpy(want, k.all.v, (size_t)(LIMIT * C) * sizeof(*want));
    for (int64_t i = 0; i < N * C; i++)
        want[k.index[i / C] * C + i % C] += k.few.v[i];
    for (int32_t first = 0; first < LIMIT; first += PART) {
        const int32_t left = LIMIT - first;
        const struct row_part part = {first, left < PART ? left : PART, LIMIT};
        must(b->d->ops->llm.add_rows(
            b->d, b->dt,
            (char *)k.all.p + (size_t)(first * C) * dtype_bytes(b->dt), k.few.p,
            k.d_index, k.d_order, N, C, &part, ERR));
    }
    same(&k.all, want, "add_rows to parts of a table, rows of %d", C);
    free(want);
    rows_drop(&k);
}

static void rows_nan(struct bed *b)
{
    struct rows k;

    rows_make(&k, b, 5, 6, 9, true);
    k.few.v[8] = NAN;
    tensor_push(&k.few);
    add(&k);
    is_int(nans(&k.all), 1, "a NaN comes through add_rows");
    put(&k);
    is_int(nans(&k.all), 1, "and put_rows");
    take(&k);
    is_int(nans(&k.few), 1, "and take_rows");
    rows_drop(&k);
}

/* Values whose sums round. */
static void rows_blocks(struct bed *b)
{
    struct rows k;

    rows_make(&k, b, 200, 33, 20, false);
    for (int64_t i = 0; i < k.few.n; i++)
        k.few.v[i] = bed_uniform(b, -1, 1);
    tensor_push(&k.few);
    same_bits(&(struct call){b, add, &k}, &k.all, "add_rows");
    same_bits(&(struct call){b, take, &k}, &k.few, "take_rows");
    rows_drop(&k);
}

static void rows_gradient(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct rows k;

    rows_make(&k, b, 9, 3, 5, false);
    struct tensor r = tensor_make(b, k.few.n, -1, 1);
    struct tensor grad = tensor_make(b, k.all.n, 0, 0);
    const struct row_part whole = {0, k.limit, k.limit};
    must(ops->add_rows(b->d, b->dt, grad.p, r.p, k.d_index, k.d_order, k.n, k.C,
                       &whole, ERR));
    differences(&(struct call){b, take, &k}, &k.all, &grad, &k.few, r.v,
                "take_rows, by add_rows");
    tensor_drop(&r);
    tensor_drop(&grad);
    rows_drop(&k);

    rows_make(&k, b, 4, 3, 9, true);
    r = tensor_make(b, k.all.n, -1, 1);
    grad = tensor_make(b, k.few.n, 0, 0);
    const struct row_part all = {0, k.limit, k.limit};
    must(ops->take_rows(b->d, b->dt, grad.p, r.p, k.d_index, k.n, k.C, &all,
                        ERR));
    differences(&(struct call){b, put, &k}, &k.few, &grad, &k.all, r.v,
                "put_rows, by take_rows");
    tensor_drop(&r);
    tensor_drop(&grad);
    rows_drop(&k);
}

static void rows_refusals(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct rows k;

    rows_make(&k, b, 4, 3, 4, true);
    void *y = k.all.p, *x = k.few.p;
    double *was = zeros(k.all.n);
    memcpy(was, k.all.v, (size_t)k.all.n * sizeof(*was));
    static const struct {
        enum dtype dt;
        int64_t n, limit;
        int32_t C;
    } bad[] = {{0, -1, 4, 3}, {0, 4, -1, 3}, {0, 4, 4, 0}, {DT_N, 4, 4, 3}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum dtype dt = bad[i].dt == DT_N ? DT_N : b->dt;
        int64_t n = bad[i].n, limit = bad[i].limit;
        int32_t C = bad[i].C;
        const struct row_part all = {0, limit, limit};
        refused(ops->take_rows(b->d, dt, y, x, k.d_index, n, C, &all, ERR));
        refused(ops->put_rows(b->d, dt, y, x, k.d_index, n, C, limit, ERR));
        refused(ops->add_rows(b->d, dt, y, x, k.d_index, k.d_order, n, C, &all,
                              ERR));
    }
    static const struct row_part outside[] = {{-1, 4, 4}, {1, 4, 4}, {0, 5, 4}};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        refused(ops->take_rows(b->d, b->dt, y, x, k.d_index, 4, 3, &outside[i],
                               ERR));
        refused(ops->add_rows(b->d, b->dt, y, x, k.d_index, k.d_order, 4, 3,
                              &outside[i], ERR));
    }
    same(&k.all, was, "refused rows write nothing");
    free(was);
    rows_drop(&k);
}

void contract_llm_rows(struct bed *b)
{
    put_one(b, 0, 64, 3);
    put_one(b, 1, 7, 1);
    put_one(b, 13, 65, 20);
    put_one(b, 40, 1, 50);
    put_one(b, 3, 4096, 4);
    add_one(b, 0, 64, 3);
    add_one(b, 1, 64, 5);
    add_one(b, 100, 1, 7);
    add_one(b, 50, 65, 12);
    add_one(b, 33, 7, 1); /* one run, longer than the share of a block */
    add_one(b, 40, 64, 1000);
    add_one(b, 5, 4096, 3);
    add_rounds_once(b);
    add_in_order(b);
    outside(b, 5);
    outside(b, 64);
    take_parts(b, 11);
    take_parts(b, 64);
    add_parts(b, 11);
    add_parts(b, 64);
    rows_nan(b);
    rows_blocks(b);
    rows_refusals(b);
    if (b->small)
        return;
    put_one(b, 900, 96, 1000);
    add_one(b, 2000, 64, 512);
    if (b->dt == DT_F64)
        rows_gradient(b);
}
