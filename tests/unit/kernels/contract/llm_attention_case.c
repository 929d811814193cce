/* llm_attention_case.c - see llm_attention_case.h. */
#include "tests/unit/kernels/contract/llm_attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

int64_t attend_part(const struct attend_case *c, int which)
{
    const int32_t before[] = {0, c->s.heads, c->s.heads + c->s.kv_heads};
    return (int64_t)before[which] * c->s.head_dim;
}

void *attend_at(const struct attend_case *c, const struct tensor *t, int64_t i)
{
    return (char *)t->p + (size_t)i * dtype_bytes(c->b->dt);
}

void attend_push_positions(struct attend_case *c)
{
    const size_t bytes = (size_t)c->s.rows * sizeof(*c->pos);
    const struct device_ops *ops = c->b->d->ops;

    must(ops->to_device(c->b->d, c->pos_at, c->pos, bytes, ERR));
}

struct attend_case attend_make(struct bed *b, const struct layout *l)
{
    struct attend_case c = {.b = b};
    int64_t rows = 0, n = 0;

    for (int i = 0; i < MAX_DOCS; i++)
        rows += abs(l->docs[i]);
    c.s = (struct attention){.rows = rows,
                             .heads = l->heads,
                             .kv_heads = l->kv_heads,
                             .head_dim = l->D,
                             .scale = 1 / sqrt(l->D)};
    c.ld = (l->heads + 2 * l->kv_heads) * l->D + (l->even ? EVEN_PAD : IN_PAD);
    c.ldo = l->heads * l->D + (l->even ? EVEN_PAD : OUT_PAD);
    c.ldd = c.ldo;
    c.pos = calloc((size_t)rows + 1, sizeof(*c.pos));
    if (!c.pos)
        abort();
    for (int i = 0; i < MAX_DOCS; i++)
        for (int32_t k = 0; k < abs(l->docs[i]); k++)
            c.pos[n++] = l->docs[i] > 0 ? k : 0;
    must(b->d->ops->alloc(b->d, (size_t)rows * sizeof(*c.pos), &c.pos_at, ERR));
    attend_push_positions(&c);
    c.x = tensor_make(b, rows * c.ld, -2, 2);
    c.o = tensor_make(b, rows * c.ldo, -0.1, 0.1);
    c.lse = tensor_acc(b, rows * l->heads, 7, 8);
    c.dout = tensor_make(b, rows * c.ldo, -1, 1);
    c.dq = tensor_make(b, rows * c.ldd, -0.1, 0.1);
    c.dk = tensor_make(b, rows * c.ldd, -0.1, 0.1);
    c.dv = tensor_make(b, rows * c.ldd, -0.1, 0.1);
    return c;
}

void attend_drop(struct attend_case *c)
{
    c->b->d->ops->release(c->b->d, c->pos_at);
    free(c->pos);
    tensor_drop(&c->x);
    tensor_drop(&c->o);
    tensor_drop(&c->lse);
    tensor_drop(&c->dout);
    tensor_drop(&c->dq);
    tensor_drop(&c->dk);
    tensor_drop(&c->dv);
}

void attend_forward(struct attend_case *c)
{
    struct device *d = c->b->d;

    must(d->ops->llm.attention_fwd(d, c->b->dt, c->o.p, c->ldo, c->lse.p,
                                   attend_at(c, &c->x, attend_part(c, 0)),
                                   attend_at(c, &c->x, attend_part(c, 1)),
                                   attend_at(c, &c->x, attend_part(c, 2)),
                                   c->ld, c->pos_at, &c->s, ERR));
}

void attend_backward(struct attend_case *c)
{
    struct device *d = c->b->d;

    must(d->ops->llm.attention_bwd(
        d, c->b->dt, c->dq.p, c->dk.p, c->dv.p, c->ldd, c->dout.p, c->o.p,
        c->ldo, c->lse.p, attend_at(c, &c->x, attend_part(c, 0)),
        attend_at(c, &c->x, attend_part(c, 1)),
        attend_at(c, &c->x, attend_part(c, 2)), c->ld, c->pos_at, &c->s, ERR));
}

void attend_pull(struct attend_case *c)
{
    tensor_pull(&c->o);
    tensor_pull(&c->lse);
    tensor_pull(&c->dq);
    tensor_pull(&c->dk);
    tensor_pull(&c->dv);
}

struct expected attend_results(struct attend_case *c)
{
    attend_pull(c);
    return (struct expected){tensor_values(&c->o), tensor_values(&c->lse),
                             tensor_values(&c->dq), tensor_values(&c->dk),
                             tensor_values(&c->dv)};
}

/* ---- the reference ------------------------------------------------------- */
double *tensor_values(const struct tensor *t)
{
    double *v = zeros(t->n);

    memcpy(v, t->v, (size_t)t->n * sizeof(*v));
    return v;
}

/* Values between rows stay what they are; gradients start at 0. */
static struct expected expected_make(const struct attend_case *c)
{
    struct expected e = {tensor_values(&c->o), tensor_values(&c->lse),
                         tensor_values(&c->dq), tensor_values(&c->dk),
                         tensor_values(&c->dv)};

    for (int64_t i = 0; i < c->s.rows; i++) {
        const int32_t D = c->s.head_dim;
        for (int32_t k = 0; k < c->s.heads * D; k++)
            e.dq[i * c->ldd + k] = e.o[i * c->ldo + k] = 0;
        for (int32_t k = 0; k < c->s.kv_heads * D; k++)
            e.dk[i * c->ldd + k] = e.dv[i * c->ldd + k] = 0;
    }
    return e;
}

void expected_drop(struct expected *e)
{
    free(e->o);
    free(e->lse);
    free(e->dq);
    free(e->dk);
    free(e->dv);
}

double attend_dot(const double *a, const double *b, int32_t D)
{
    double s = 0;

    for (int32_t i = 0; i < D; i++)
        s += a[i] * b[i];
    return s;
}

/* The first token that token i sees. */
static int64_t first_of(const struct attend_case *c, int64_t i)
{
    const int32_t window = c->s.window;

    return i - (window > 0 && window <= c->pos[i] ? window - 1 : c->pos[i]);
}

/* One query: p is room for its probabilities. */
static void expect_query(const struct attend_case *c, struct expected *e,
                         int64_t i, int32_t h, double *p)
{
    const int32_t D = c->s.head_dim, kv = h / (c->s.heads / c->s.kv_heads);
    const int64_t first = first_of(c, i);
    const double *q = c->x.v + i * c->ld + h * D;
    const double *k = c->x.v + attend_part(c, 1) + kv * D;
    const double *v = c->x.v + attend_part(c, 2) + kv * D;
    const double *dout = c->dout.v + i * c->ldo + h * D;
    double *o = e->o + i * c->ldo + h * D, top = -INFINITY, sum = 0;

    for (int64_t j = first; j <= i; j++) {
        p[j] = c->s.scale * attend_dot(q, k + j * c->ld, D);
        top = fmax(top, p[j]);
    }
    for (int64_t j = first; j < i; j++)
        sum += exp(p[j] - top);
    sum += exp(p[i] - top); /* a token sees itself at least */
    e->lse[i * c->s.heads + h] = top + log(sum);
    for (int64_t j = first; j <= i; j++) {
        p[j] = exp(p[j] - top) / sum;
        for (int32_t d = 0; d < D; d++)
            o[d] += p[j] * v[j * c->ld + d];
    }
    const double delta = attend_dot(dout, o, D);
    for (int64_t j = first; j <= i; j++) {
        const double ds =
            p[j] * (attend_dot(dout, v + j * c->ld, D) - delta) * c->s.scale;
        for (int32_t d = 0; d < D; d++) {
            e->dq[i * c->ldd + h * D + d] += ds * k[j * c->ld + d];
            e->dk[j * c->ldd + kv * D + d] += ds * q[d];
            e->dv[j * c->ldd + kv * D + d] += p[j] * dout[d];
        }
    }
}

struct expected attend_expect(const struct attend_case *c)
{
    struct expected e = expected_make(c);
    double *p = zeros(c->s.rows);

    for (int64_t i = 0; i < c->s.rows; i++)
        for (int32_t h = 0; h < c->s.heads; h++)
            expect_query(c, &e, i, h, p);
    free(p);
    return e;
}

/* ---- checks -------------------------------------------------------------- */
void attend_all(struct bed *b, const struct layout *l)
{
    attend_window(b, l, 0);
}

void attend_window(struct bed *b, const struct layout *l, int32_t window)
{
    struct attend_case c = attend_make(b, l);
    c.s.window = window;
    struct expected e = attend_expect(&c);

    attend_forward(&c);
    near(&c.o, e.o, "attention of %lld tokens, %d/%d heads of %d, window %d",
         (long long)c.s.rows, l->heads, l->kv_heads, l->D, window);
    near(&c.lse, e.lse, "lse");
    attend_backward(&c);
    near(&c.dq, e.dq, "attention dq");
    near(&c.dk, e.dk, "attention dk, a sum over %d heads",
         l->heads / l->kv_heads);
    near(&c.dv, e.dv, "attention dv");
    expected_drop(&e);
    attend_drop(&c);
}

int64_t attend_differ(const struct tensor *t, const double *was, int64_t ld,
                      int64_t lo, int64_t hi)
{
    int64_t n = 0;

    for (int64_t i = lo * ld; i < hi * ld; i++)
        n += was ? t->v[i] != was[i] : !isfinite(t->v[i]);
    return n;
}

void attend_not_finite(struct bed *b, const struct layout *l, int which,
                       double value)
{
    enum { LO = 10, HI = 30, BAD = 15, V = 2, DO = 3 };
    static const char *const names[ATTEND_INPUTS] = {"q", "k", "v", "do"};
    struct attend_case c = attend_make(b, l);

    attend_forward(&c);
    attend_backward(&c);
    struct expected was = attend_results(&c);
    struct tensor *t = which == DO ? &c.dout : &c.x;
    t->v[which == DO ? BAD * c.ldo : BAD * c.ld + attend_part(&c, which)] =
        value;
    tensor_push(t);
    attend_forward(&c);
    attend_backward(&c);
    attend_pull(&c);
    int64_t bad = 0;
    for (int side = 0; side < 2; side++) {
        const int64_t lo = side ? HI : 0, hi = side ? c.s.rows : LO;
        bad += attend_differ(&c.o, was.o, c.ldo, lo, hi) +
               attend_differ(&c.lse, was.lse, l->heads, lo, hi) +
               attend_differ(&c.dq, was.dq, c.ldd, lo, hi) +
               attend_differ(&c.dk, was.dk, c.ldd, lo, hi) +
               attend_differ(&c.dv, was.dv, c.ldd, lo, hi);
    }
    ok(bad == 0, "%f in %s changes nothing in other documents", value,
       names[which]);
    is_int(attend_differ(&c.o, was.o, c.ldo, LO, BAD), 0,
           "nor in the tokens before it");
    ok((which == DO || attend_differ(&c.o, NULL, c.ldo, BAD, BAD + 1) > 0) &&
           attend_differ(&c.dq, NULL, c.ldd, BAD, BAD + 1) > 0 &&
           (which != V || attend_differ(&c.o, NULL, c.ldo, HI - 1, HI) > 0) &&
           attend_differ(which == DO ? &c.dv : &c.dk, NULL, c.ldd, LO,
                         BAD + 1) > 0,
       "and comes through to its own");
    expected_drop(&was);
    attend_drop(&c);
}
