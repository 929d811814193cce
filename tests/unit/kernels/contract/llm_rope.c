/* llm_rope.c - rotations: values, the way back, positions at the edges. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

enum { POSITIONS = 12 };

struct turn {
    struct bed *b;
    int64_t rows;
    int32_t heads, D, ld;
    struct tensor x, table;
    int32_t *host, *pos;
};

/* Angles as a network has them: position * 100^(-2 i / D), so that the last
 * position of a head's first pair is beyond one turn. */
static void table_fill(struct tensor *t, int32_t D)
{
    for (int64_t i = 0; i < t->n / 2; i++) {
        int64_t half = D / 2, at = i / half, j = i % half;
        double angle = (double)at * pow(100, -2.0 * (double)j / D);
        t->v[2 * i] = cos(angle);
        t->v[2 * i + 1] = sin(angle);
    }
    tensor_push(t);
}

static void turn_make(struct turn *k, struct bed *b, int64_t rows,
                      int32_t heads, int32_t D, int32_t ld)
{
    *k = (struct turn){.b = b, .rows = rows, .heads = heads, .D = D, .ld = ld};
    k->x = tensor_make(b, rows * ld, -2, 2);
    k->table = tensor_acc(b, (int64_t)POSITIONS * D, 0, 0);
    table_fill(&k->table, D);
    k->host = calloc((size_t)rows + 1, sizeof(*k->host));
    for (int64_t r = 0; r < rows; r++)
        k->host[r] = (int32_t)((r * 5 + POSITIONS - 1) % POSITIONS);
    k->pos = bed_indices(b, k->host, rows);
}

static void turn_drop(struct turn *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->table);
    k->b->d->ops->release(k->b->d, k->pos);
    free(k->host);
}

static void rotate(struct turn *k, void *x, bool back)
{
    must(k->b->d->ops->llm.rope(k->b->d, k->b->dt, x, k->ld, k->pos, k->table.p,
                                POSITIONS, k->rows, k->heads, k->D, back, ERR));
}

/* y of x; what lies between the rows stays. */
static void expect(const struct turn *k, const double *x, bool back, double *y)
{
    const int64_t half = k->D / 2;

    memcpy(y, x, (size_t)k->x.n * sizeof(*y));
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t i = 0; i < k->heads * half; i++) {
            int64_t a = r * k->ld + i / half * k->D + i % half, c = a + half;
            const double *by = k->table.v + k->host[r] * k->D + i % half * 2;
            double s = back ? -by[1] : by[1];
            y[a] = x[a] * by[0] - x[c] * s;
            y[c] = x[c] * by[0] + x[a] * s;
        }
}

static void rope_one(struct bed *b, int64_t rows, int32_t heads, int32_t D,
                     int32_t ld)
{
    struct turn k;

    turn_make(&k, b, rows, heads, D, ld);
    double *was = zeros(k.x.n), *Y = zeros(k.x.n);
    memcpy(was, k.x.v, (size_t)k.x.n * sizeof(*was));
    expect(&k, was, false, Y);
    rotate(&k, k.x.p, false);
    near(&k.x, Y, "rope %lld x %d x %d, stride %d", (long long)rows, heads, D,
         ld);
    int64_t moved = 0;
    for (int64_t i = 0; i < k.x.n; i++)
        moved += i % ld >= heads * D && k.x.v[i] != was[i];
    is_int(moved, 0, "rope leaves what lies between the rows");
    rotate(&k, k.x.p, true);
    near(&k.x, was, "rope there and back");
    memcpy(was, k.x.v, (size_t)k.x.n * sizeof(*was));
    expect(&k, was, true, Y);
    rotate(&k, k.x.p, true);
    near(&k.x, Y, "rope back");
    free(was);
    free(Y);
    turn_drop(&k);
}

/* Angles of a quarter of a turn: values change places, exactly. */
static void rope_exact(struct bed *b, int32_t heads, int32_t D)
{
    struct turn k;

    turn_make(&k, b, 9, heads, D, heads * D);
    double *Y = zeros(k.x.n);
    for (int64_t i = 0; i < k.table.n / 2; i++) {
        k.table.v[2 * i] = (double[]){1, 0, -1, 0}[(i + i / D) % 4];
        k.table.v[2 * i + 1] = (double[]){0, 1, 0, -1}[(i + i / D) % 4];
    }
    tensor_push(&k.table);
    expect(&k, k.x.v, false, Y);
    rotate(&k, k.x.p, false);
    same(&k.x, Y, "exact rope %d x %d", heads, D);
    free(Y);
    turn_drop(&k);
}

/* The first position turns nothing, the last one is in the table, and those
 * beside it give NaN in their row alone. */
static void rope_edges(struct bed *b)
{
    enum { ROWS = 7, HEADS = 3, D = 16, LD = HEADS * D };
    static const int32_t at[ROWS] = {0, POSITIONS - 1, POSITIONS, -1,
                                     1, INT32_MAX,     INT32_MIN};
    static const int nan[ROWS] = {0, 0, 1, 1, 0, 1, 1};
    struct turn k;
    int wrong = 0;

    turn_make(&k, b, ROWS, HEADS, D, LD);
    double *was = zeros(k.x.n);
    memcpy(was, k.x.v, (size_t)k.x.n * sizeof(*was));
    must(b->d->ops->to_device(b->d, k.pos, at, sizeof(at), ERR));
    rotate(&k, k.x.p, false);
    tensor_pull(&k.x);
    for (int64_t i = 0; i < k.x.n; i++)
        wrong += (isnan(k.x.v[i]) ? 1 : 0) != nan[i / LD];
    is_int(wrong, 0, "positions beside the table give NaN, no others");
    ok(memcmp(was, k.x.v, LD * sizeof(*was)) == 0,
       "position 0 leaves the bits");
    free(was);
    turn_drop(&k);
}

static void rope_nan(struct bed *b)
{
    struct turn k;
    int nans = 0;

    turn_make(&k, b, 3, 2, 8, 16);
    k.x.v[16 + 2] = NAN;
    tensor_push(&k.x);
    rotate(&k, k.x.p, false);
    tensor_pull(&k.x);
    for (int64_t i = 0; i < k.x.n; i++)
        nans += isnan(k.x.v[i]) ? 1 : 0;
    is_int(nans, 2, "a NaN reaches its pair, and only that");
    ok(isnan(k.x.v[16 + 2]) && isnan(k.x.v[16 + 6]), "and both of the pair");
    turn_drop(&k);
}

static void run(void *arg)
{
    struct turn *k = arg;

    rotate(k, k->x.p, false);
}

static void rope_blocks(struct bed *b)
{
    struct turn k;

    turn_make(&k, b, 19, 3, 6, 20);
    same_bits(&(struct call){b, run, &k}, &k.x, "rope");
    turn_drop(&k);
}

/* Into a copy, so that the input stays. */
struct copied {
    struct turn k;
    struct tensor y;
};

static void run_copied(void *arg)
{
    struct copied *c = arg;
    struct device *d = c->k.b->d;

    must(d->ops->copy(d, c->y.p, c->k.x.p, (size_t)c->y.n * sizeof(double),
                      ERR));
    rotate(&c->k, c->y.p, false);
}

static void rope_gradient(struct bed *b)
{
    struct copied c;

    turn_make(&c.k, b, 5, 2, 6, 13);
    c.y = tensor_make(b, c.k.x.n, 0, 0);
    struct tensor r = tensor_make(b, c.k.x.n, -1, 1);
    struct tensor grad = tensor_make(b, c.k.x.n, 0, 0);
    must(b->d->ops->copy(b->d, grad.p, r.p, (size_t)r.n * sizeof(double), ERR));
    rotate(&c.k, grad.p, true);
    differences(&(struct call){b, run_copied, &c}, &c.k.x, &grad, &c.y, r.v,
                "rope");
    tensor_drop(&r);
    tensor_drop(&grad);
    tensor_drop(&c.y);
    turn_drop(&c.k);
}

static void rope_refusals(struct bed *b)
{
    struct turn k;

    turn_make(&k, b, 2, 2, 4, 8);
    int (*rope)(struct device *, enum dtype, void *, int32_t, const int32_t *,
                const void *, int32_t, int64_t, int32_t, int32_t, bool,
                struct error *) = b->d->ops->llm.rope;
    double *was = zeros(k.x.n);
    memcpy(was, k.x.v, (size_t)k.x.n * sizeof(*was));
    void *x = k.x.p, *t = k.table.p;
    refused(rope(b->d, b->dt, x, 8, k.pos, t, 12, 2, 2, 3, false, ERR));
    refused(rope(b->d, b->dt, x, 8, k.pos, t, 12, 2, 2, 0, false, ERR));
    refused(rope(b->d, b->dt, x, 7, k.pos, t, 12, 2, 2, 4, false, ERR));
    refused(rope(b->d, b->dt, x, 8, k.pos, t, 12, 2, 0, 4, false, ERR));
    refused(rope(b->d, b->dt, x, 8, k.pos, t, 12, -1, 2, 4, false, ERR));
    refused(rope(b->d, b->dt, x, 8, k.pos, t, 0, 2, 2, 4, false, ERR));
    refused(rope(b->d, DT_N, x, 8, k.pos, t, 12, 2, 2, 4, false, ERR));
    refused(
        rope(b->d, b->dt, x, 8, k.pos, t, 12, 2, 1 << 20, 1 << 12, true, ERR));
    same(&k.x, was, "a refused rope writes nothing");
    free(was);
    turn_drop(&k);
}

void contract_llm_rope(struct bed *b)
{
    rope_one(b, 0, 2, 8, 16);
    rope_one(b, 1, 1, 2, 2);
    rope_one(b, 13, 2, 14, 28);
    rope_one(b, 7, 3, 64, 3 * 64);
    rope_one(b, 5, 5, 16, 96);
    rope_one(b, 5, 5, 16, 97); /* rows beside the alignment */
    rope_one(b, 2, 40, 128, 48 * 128);
    rope_exact(b, 3, 6);
    rope_exact(b, 4, 64);
    rope_edges(b);
    rope_nan(b);
    rope_blocks(b);
    rope_refusals(b);
    if (b->small)
        return;
    rope_one(b, 600, 8, 64, 12 * 64);
    if (b->dt == DT_F64)
        rope_gradient(b);
}
