/* loss.c - softmax cross-entropy, and images in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

struct labels {
    int32_t *host;
    void *p, *hit;
};

static struct labels labels_make(struct bed *b, int64_t rows, int32_t C)
{
    struct labels l = {.host = calloc((size_t)rows + 1, sizeof(int32_t))};
    size_t bytes = (size_t)rows * sizeof(int32_t);

    for (int64_t r = 0; r < rows; r++)
        l.host[r] = r % 5 == 4 ? -1 : (int32_t)(r * 7 % C);
    must(b->d->ops->alloc(b->d, bytes, &l.p, ERR));
    must(b->d->ops->alloc(b->d, bytes, &l.hit, ERR));
    must(b->d->ops->to_device(b->d, l.p, l.host, bytes, ERR));
    return l;
}

static void labels_drop(struct bed *b, struct labels *l)
{
    b->d->ops->release(b->d, l->p);
    b->d->ops->release(b->d, l->hit);
    free(l->host);
}

/* The first of the largest logits of a row. */
static int32_t argmax(const double *z, int32_t C)
{
    int32_t best = 0;

    for (int32_t i = 1; i < C; i++)
        if (z[i] > z[best])
            best = i;
    return best;
}

static void check_hits(struct bed *b, const struct labels *l, const double *z,
                       int64_t rows, int32_t C)
{
    int32_t *hit = calloc((size_t)rows + 1, sizeof(*hit));
    int64_t wrong = 0;

    must(b->d->ops->to_host(b->d, hit, l->hit, (size_t)rows * sizeof(*hit),
                            ERR));
    for (int64_t r = 0; r < rows; r++)
        wrong += hit[r] != (l->host[r] == argmax(z + r * C, C));
    is_int(wrong, 0, "xent: hits are those of argmax");
    free(hit);
}

static void xent_one(struct bed *b, int64_t rows, int32_t C, double range,
                     double smooth)
{
    struct tensor z = tensor_make(b, rows * C, -range, range);
    struct tensor loss = tensor_acc(b, rows, 7, 8);
    struct labels l = labels_make(b, rows, C);
    const double half = 0.5;
    double *L = zeros(rows), *G = zeros(rows * C), *Z = zeros(rows * C);

    for (int64_t r = 0; r < rows; r++) {
        const double *v = z.v + r * C;
        double top = v[argmax(v, C)], sum = 0;
        for (int32_t i = 0; i < C; i++) {
            sum += exp(v[i] - top);
            Z[r * C + i] = v[i];
        }
        if (l.host[r] < 0)
            continue;
        for (int32_t i = 0; i < C; i++) {
            double q = (1 - smooth) * (i == l.host[r]) + smooth / C;
            L[r] -= q * (v[i] - top - log(sum));
            G[r * C + i] = 0.5 * (exp(v[i] - top) / sum - q);
        }
    }
    must(b->d->ops->xent(b->d, b->dt, loss.p, l.hit, z.p, l.p, rows, C, NULL,
                         smooth, false, ERR));
    same(&z, Z, "xent leaves the logits when asked for the loss only");
    near(&loss, L, "xent loss of %lld x %d, smoothing %g", (long long)rows, C,
         smooth);
    check_hits(b, &l, Z, rows, C);
    must(b->d->ops->xent(b->d, b->dt, loss.p, l.hit, z.p, l.p, rows, C,
                         bed_put(b, &half, sizeof(half)), smooth, true, ERR));
    near(&loss, L, "xent loss, with the gradient");
    near(&z, G, "xent gradient");
    check_hits(b, &l, Z, rows, C);
    free(L);
    free(G);
    free(Z);
    tensor_drop(&z);
    tensor_drop(&loss);
    labels_drop(b, &l);
}

/* All logits equal, a label that does not exist, huge logits. */
static void xent_edges(struct bed *b)
{
    struct tensor z = tensor_make(b, 40, 0, 0), loss = tensor_acc(b, 4, 7, 8);
    struct labels l = labels_make(b, 4, 10);
    int32_t label[4] = {0, 3, 10, 9}, hit[4];
    const double one = 1;

    for (int i = 10; i < 20; i++)
        z.v[i] = i == 13 ? 3e4 : -3e4; /* fp16 has no larger ones */
    tensor_push(&z);
    must(b->d->ops->to_device(b->d, l.p, label, sizeof(label), ERR));
    must(b->d->ops->xent(b->d, b->dt, loss.p, l.hit, z.p, l.p, 4, 10,
                         bed_put(b, &one, sizeof(one)), 0, true, ERR));
    must(b->d->ops->to_host(b->d, hit, l.hit, sizeof(hit), ERR));
    tensor_pull(&loss);
    tensor_pull(&z);
    ok(fabs(loss.v[0] - log(10)) < 1e-6 && hit[0] == 1 && hit[3] == 0,
       "xent: equal logits cost log(C), the first class has the hit");
    ok(loss.v[1] == 0 && hit[1] == 1 && z.v[13] == 0,
       "xent: huge logits do not overflow");
    ok(isnan(loss.v[2]) && hit[2] == 0 && isnan(z.v[25]),
       "xent: a label outside 0..C-1 is a NaN, not a read outside the row");
    tensor_drop(&z);
    tensor_drop(&loss);
    labels_drop(b, &l);
}

/* What has the hit, of z [rows, C] and its labels; drops both. */
static void hits_of(struct bed *b, struct tensor *z, struct labels *l,
                    int32_t rows, int32_t C)
{
    struct tensor loss = tensor_acc(b, rows, 7, 8);
    tensor_push(z);
    must(b->d->ops->to_device(b->d, l->p, l->host,
                              (size_t)rows * sizeof(int32_t), ERR));
    must(b->d->ops->xent(b->d, b->dt, loss.p, l->hit, z->p, l->p, rows, C, NULL,
                         0, false, ERR));
    check_hits(b, l, z->v, rows, C);
    tensor_drop(z);
    tensor_drop(&loss);
    labels_drop(b, l);
}

/* Two largest logits, one of them the label's: it has the hit where no other
 * comes before it, in the same vector or in another one. */
static void xent_ties(struct bed *b)
{
    enum { C = 16, ROWS = C * C };
    struct tensor z = tensor_make(b, (int64_t)ROWS * C, -1, -1);
    struct labels l = labels_make(b, ROWS, C);

    for (int32_t r = 0; r < ROWS; r++) {
        l.host[r] = r / C;
        z.v[r * C + r / C] = z.v[r * C + r % C] = 1;
    }
    hits_of(b, &z, &l, ROWS, C);
}

/* All logits but the first are equal: the second has the hit, though the
 * largest of what comes before it is found first and others find the same
 * value. */
static void xent_equal_rest(struct bed *b)
{
    enum { C = 1000, ROWS = 3 };
    struct tensor z = tensor_make(b, (int64_t)ROWS * C, 1, 1);
    struct labels l = labels_make(b, ROWS, C);

    for (int32_t r = 0; r < ROWS; r++) {
        l.host[r] = r + 1;
        z.v[r * C] = 0;
    }
    hits_of(b, &z, &l, ROWS, C);
}

/* Columns of z [rows, C] to and from an array of their own. */
static void move_part(struct bed *b, void *z, void *own, int64_t rows,
                      int64_t C, const struct row_part *part, bool back)
{
    const size_t size = dtype_bytes(b->dt), bytes = (size_t)part->rows * size;

    for (int64_t r = 0; r < rows; r++) {
        char *at = (char *)z + (size_t)(r * C + part->first) * size;
        char *there = (char *)own + (size_t)r * bytes;
        must(b->d->ops->copy(b->d, back ? at : there, back ? there : at, bytes,
                             ERR));
    }
}

/* The gradient of some columns after the other is that of all; the loss that
 * leaves sums is the other one's, bit by bit. */
static void xent_parts(struct bed *b, int64_t rows, int32_t C, int32_t width)
{
    const struct device_ops *ops = b->d->ops;
    struct tensor z = tensor_make(b, rows * C, -3, 3);
    struct tensor own = tensor_make(b, rows * width, 0, 0);
    struct tensor loss = tensor_acc(b, rows, 7, 8);
    struct tensor other = tensor_acc(b, rows, 7, 8);
    struct tensor sums = tensor_acc(b, 2 * rows, 7, 8);
    struct labels l = labels_make(b, rows, C);
    const double third = 1.0 / 3;
    const double *scale = bed_put(b, &third, sizeof(third));
    double *G = zeros(rows * C), *Z = zeros(rows * C);

    memcpy(Z, z.v, (size_t)(rows * C) * sizeof(*Z));
    must(ops->llm.xent_sums(b->d, b->dt, loss.p, l.hit, sums.p, z.p, l.p, rows,
                            C, ERR));
    same(&z, Z, "xent_sums leaves the logits");
    check_hits(b, &l, Z, rows, C);
    struct tensor whole = tensor_make(b, rows * C, 0, 0);
    must(ops->copy(b->d, whole.p, z.p, (size_t)(rows * C) * dtype_bytes(b->dt),
                   ERR));
    must(ops->xent(b->d, b->dt, other.p, l.hit, whole.p, l.p, rows, C, scale, 0,
                   true, ERR));
    tensor_pull(&other);
    tensor_pull(&whole);
    same(&loss, other.v, "xent_sums has the loss of xent");
    memcpy(G, whole.v, (size_t)(rows * C) * sizeof(*G));
    for (int32_t first = 0; first < C; first += width) {
        const int32_t left = C - first;
        const struct row_part part = {first, left < width ? left : width, C};
        move_part(b, z.p, own.p, rows, C, &part, false);
        must(ops->llm.xent_part(b->d, b->dt, own.p, sums.p, l.p, rows, &part,
                                scale, ERR));
        move_part(b, z.p, own.p, rows, C, &part, true);
    }
    near(&z, G, "xent_part, %lld x %d by %d", (long long)rows, C, width);
    free(G);
    free(Z);
    tensor_drop(&z);
    tensor_drop(&own);
    tensor_drop(&loss);
    tensor_drop(&other);
    tensor_drop(&sums);
    tensor_drop(&whole);
    labels_drop(b, &l);
}

/* A label that no column has makes a NaN of each. */
static void xent_part_outside(struct bed *b)
{
    struct tensor z = tensor_make(b, 6, -1, 1), sums = tensor_acc(b, 4, 1, 2);
    struct labels l = labels_make(b, 2, 10);
    const int32_t label[2] = {10, 2};
    const struct row_part part = {3, 3, 10};
    const double one = 1;
    int wrong = 0;

    must(b->d->ops->to_device(b->d, l.p, label, sizeof(label), ERR));
    must(b->d->ops->llm.xent_part(b->d, b->dt, z.p, sums.p, l.p, 2, &part,
                                  bed_put(b, &one, sizeof(one)), ERR));
    tensor_pull(&z);
    for (int i = 0; i < 6; i++)
        wrong += i < 3 ? !isnan(z.v[i]) : !(z.v[i] > 0);
    is_int(wrong, 0, "xent_part: a label of no column, one of another part");
    tensor_drop(&z);
    tensor_drop(&sums);
    labels_drop(b, &l);
}

static void xent_part_refusals(struct bed *b)
{
    const struct llm_ops *o = &b->d->ops->llm;
    static const struct row_part bad[] = {
        {-1, 2, 4},
        {3, 2, 4},
        {0, 0, 4},
        {0, (int64_t)1 << 40, (int64_t)1 << 41}};
    const struct row_part part = {0, 2, 4};
    struct tensor z = tensor_make(b, 8, 0, 1);
    struct labels l = labels_make(b, 2, 4);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(o->xent_part(b->d, b->dt, z.p, z.p, l.p, 2, &bad[i], z.p, ERR));
    refused(o->xent_part(b->d, b->dt, z.p, z.p, l.p, -1, &part, z.p, ERR));
    refused(o->xent_part(b->d, b->dt, z.p, z.p, l.p, 2, &part, NULL, ERR));
    refused(o->xent_sums(b->d, b->dt, z.p, l.hit, z.p, z.p, l.p, -1, 4, ERR));
    refused(o->xent_sums(b->d, b->dt, z.p, l.hit, z.p, z.p, l.p, 2, 0, ERR));
    tensor_drop(&z);
    labels_drop(b, &l);
}

void contract_loss(struct bed *b)
{
    xent_one(b, 1, 10, 3, 0);
    xent_one(b, 9, 11, 3, 0);
    xent_one(b, 7, 1, 20, 0);
    xent_one(b, 2, 1000, 3, 0);
    xent_one(b, 0, 10, 3, 0);
    xent_one(b, 9, 11, 3, 0.1);
    xent_one(b, 3, 64, 3, 0.5);
    xent_edges(b);
    xent_ties(b);
    xent_equal_rest(b);
    xent_parts(b, 7, 23, 7);
    xent_parts(b, 9, 64, 24);
    xent_parts(b, 3, 11, 11);
    xent_parts(b, 0, 8, 3);
    xent_part_outside(b);
    xent_part_refusals(b);
    if (b->small)
        return;
    xent_one(b, 64, 10, 20, 0);
    xent_one(b, 20, 1003, 3, 0);
    xent_one(b, 20, 1003, 3, 0.1);
}
