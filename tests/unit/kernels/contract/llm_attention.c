/* llm_attention.c - attention and its gradient, document by document.
 *
 * Documents are longer than the tiles of the kernels, 64 tokens on the host and
 * 8 to 32 on a GPU, and so short that many share one tile.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

/* ---- properties ---------------------------------------------------------- */
/* The same call gives the same bits, also without lse, and with the gradients
 * in one array. */
static void attend_again(struct bed *b)
{
    static const struct layout l = {{40, 1, 90, -2}, 4, 2, 8, false};
    struct attend_case c = attend_make(b, &l);
    struct device *d = b->d;

    attend_forward(&c);
    attend_backward(&c);
    struct expected was = attend_results(&c);
    struct tensor one = tensor_make(b, c.s.rows * c.ld, 0, 0);
    must(d->ops->llm.attention_fwd(
        d, b->dt, c.o.p, c.ldo, NULL, attend_at(&c, &c.x, attend_part(&c, 0)),
        attend_at(&c, &c.x, attend_part(&c, 1)),
        attend_at(&c, &c.x, attend_part(&c, 2)), c.ld, c.pos_at, &c.s, ERR));
    same(&c.o, was.o, "attention without lse: the same bits");
    same(&c.lse, was.lse, "lse is untouched");
    attend_backward(&c);
    same(&c.dq, was.dq, "attention dq again: the same bits");
    must(d->ops->llm.attention_bwd(
        d, b->dt, attend_at(&c, &one, attend_part(&c, 0)),
        attend_at(&c, &one, attend_part(&c, 1)),
        attend_at(&c, &one, attend_part(&c, 2)), c.ld, c.dout.p, c.o.p, c.ldo,
        c.lse.p, attend_at(&c, &c.x, attend_part(&c, 0)),
        attend_at(&c, &c.x, attend_part(&c, 1)),
        attend_at(&c, &c.x, attend_part(&c, 2)), c.ld, c.pos_at, &c.s, ERR));
    double *want = zeros(one.n);
    for (int64_t i = 0; i < c.s.rows; i++)
        for (int32_t k = 0; k < l.heads * l.D; k++) {
            want[i * c.ld + k] = was.dq[i * c.ldd + k];
            if (k >= l.kv_heads * l.D)
                continue;
            want[i * c.ld + attend_part(&c, 1) + k] = was.dk[i * c.ldd + k];
            want[i * c.ld + attend_part(&c, 2) + k] = was.dv[i * c.ldd + k];
        }
    same(&one, want, "attention's gradients in one array: the same bits");
    free(want);
    expected_drop(&was);
    tensor_drop(&one);
    attend_drop(&c);
}

/* rows [from, from + n) of one array become the rows of another. */
static void take(struct tensor *to, const struct tensor *x, int64_t from,
                 int64_t ld)
{
    memcpy(to->v, x->v + from * ld, (size_t)to->n * sizeof(double));
    tensor_push(to);
}

static void attend_packed(struct bed *b)
{
    static const struct layout l = {{33, 1, 70, 20, -3}, 4, 2, 7, false};
    struct attend_case c = attend_make(b, &l);
    int64_t from = 0;

    attend_forward(&c);
    attend_backward(&c);
    attend_pull(&c);
    for (int i = 0; i < MAX_DOCS; from += abs(l.docs[i]), i++) {
        if (l.docs[i] <= 0)
            continue;
        const struct layout one = {
            {l.docs[i]}, l.heads, l.kv_heads, l.D, false};
        struct attend_case a = attend_make(b, &one);
        take(&a.x, &c.x, from, c.ld);
        take(&a.o, &c.o, from, c.ldo); /* with what lies between the rows */
        take(&a.dq, &c.dq, from, c.ldd);
        take(&a.dk, &c.dk, from, c.ldd);
        take(&a.dv, &c.dv, from, c.ldd);
        take(&a.dout, &c.dout, from, c.ldo);
        attend_forward(&a);
        attend_backward(&a);
        near(&a.o, c.o.v + from * c.ldo, "packed is alone, %d tokens: o",
             one.docs[0]);
        near(&a.lse, c.lse.v + from * l.heads, "lse");
        near(&a.dq, c.dq.v + from * c.ldd, "dq");
        near(&a.dk, c.dk.v + from * c.ldd, "dk");
        near(&a.dv, c.dv.v + from * c.ldd, "dv");
        attend_drop(&a);
    }
    attend_drop(&c);
}

static int64_t not_finite(const struct tensor *t)
{
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        n += !isfinite(t->v[i]);
    return n;
}

/* Scores are multiples of 1000, so they are exact in every type. */
static void attend_huge(struct bed *b)
{
    static const struct layout l = {{30, 40}, 2, 1, 8, false};
    struct attend_case c = attend_make(b, &l);

    c.s.scale = 1000;
    for (int64_t i = 0; i < c.x.n; i++)
        c.x.v[i] = floor(bed_uniform(b, -2, 3));
    tensor_push(&c.x);
    struct expected e = attend_expect(&c);
    attend_forward(&c);
    near(&c.o, e.o, "attention with scores of +-32000");
    near(&c.lse, e.lse, "its lse");
    attend_backward(&c);
    attend_pull(&c);
    is_int(not_finite(&c.dq) + not_finite(&c.dk) + not_finite(&c.dv), 0,
           "its gradients are finite");
    expected_drop(&e);
    attend_drop(&c);
}

/* Positions that cannot be must not read outside of the arrays. */
static void attend_bad_positions(struct bed *b)
{
    static const struct layout l = {{9}, 2, 1, 4, false};
    struct attend_case c = attend_make(b, &l);

    c.pos[0] = 5;
    c.pos[4] = -3;
    c.pos[8] = INT32_MAX;
    attend_push_positions(&c);
    attend_forward(&c);
    attend_backward(&c);
    attend_pull(&c);
    is_int(not_finite(&c.o), 0, "positions outside of the list are moved in");
    attend_drop(&c);
}

/* ---- finite differences -------------------------------------------------- */
static double loss_of(struct attend_case *c)
{
    double s = 0;

    attend_forward(c);
    tensor_pull(&c->o);
    for (int64_t i = 0; i < c->s.rows; i++)
        s += attend_dot(c->o.v + i * c->ldo, c->dout.v + i * c->ldo,
                        c->s.heads * c->s.head_dim);
    return s;
}

/* As gradient.c: a step of 1e-5 leaves 1e-7 of the largest gradient. */
static void attend_differences(struct bed *b, int32_t window)
{
    static const struct layout l = {{4, 1, 9, -1}, 4, 2, 3, false};
    static const char names[] = "qkv";
    const double step = 1e-5;
    struct attend_case c = attend_make(b, &l);
    const struct tensor *grads[] = {&c.dq, &c.dk, &c.dv};

    c.s.window = window;
    attend_forward(&c);
    attend_backward(&c);
    attend_pull(&c);
    for (int which = 0; which < 3; which++) {
        const int64_t width = (which ? l.kv_heads : l.heads) * l.D;
        double worst = 0, scale = 0;
        for (int64_t i = 0; i < c.s.rows * width; i++) {
            const int64_t row = i / width, col = i % width;
            double *x = c.x.v + row * c.ld + attend_part(&c, which) + col,
                   was = *x;
            const double g = grads[which]->v[row * c.ldd + col];
            *x = was + step;
            tensor_push(&c.x);
            const double up = loss_of(&c);
            *x = was - step;
            tensor_push(&c.x);
            const double down = loss_of(&c);
            *x = was;
            const double e = fabs((up - down) / (2 * step) - g);
            worst = e > worst || isnan(e) ? e : worst;
            scale = fmax(scale, fabs(g));
        }
        tensor_push(&c.x);
        ok(worst <= 1e-7 * scale && scale > 0,
           "%s gradient of attention %c, window %d: off by %.1e of %.1e",
           b->name, names[which], window, worst, scale);
    }
    attend_drop(&c);
}

/* ---- refusals ------------------------------------------------------------ */
static void refuse(struct bed *b, void *p, const struct attention *s,
                   int32_t ld, int32_t ldo, int32_t ldd)
{
    struct device *d = b->d;
    const struct llm_ops *ops = &d->ops->llm;

    if (ldd == ld)
        refused(
            ops->attention_fwd(d, b->dt, p, ldo, p, p, p, p, ld, p, s, ERR));
    refused(ops->attention_bwd(d, b->dt, p, p, p, ldd, p, p, ldo, p, p, p, p,
                               ld, p, s, ERR));
}

static void attend_refusals(struct bed *b)
{
    static const struct attention bad[] = {
        {-1, 2, 1, 4, 1, 0},  {1, 3, 2, 4, 1, 0},
        {1, 0, 1, 4, 1, 0},   {1, 2, 0, 4, 1, 0},
        {1, 2, 1, 257, 1, 0}, {1, 2, 1, 0, 1, 0},
        {1, 2, 4, 4, 1, 0},   {INT64_C(1) << 31, 2, 1, 4, 1, 0},
        {1, 2, 1, 4, 1, -1}};
    const struct attention s = {2, 2, 1, 4, 1, 0}, none = {0, 2, 1, 4, 1, 0};
    struct tensor t = tensor_make(b, 64, 1, 2);
    struct device *d = b->d;
    const struct llm_ops *ops = &d->ops->llm;
    double *was = tensor_values(&t);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse(b, t.p, &bad[i], 600, 600, 600);
    refuse(b, t.p, &s, 7, 8, 7);
    refuse(b, t.p, &s, 8, 7, 8);
    refuse(b, t.p, &s, 8, 8, 7);
    refused(ops->attention_bwd(d, b->dt, t.p, t.p, t.p, 8, t.p, t.p, 8, NULL,
                               t.p, t.p, t.p, 8, t.p, &s, ERR));
    refused(ops->attention_fwd(d, DT_N, t.p, 8, t.p, t.p, t.p, t.p, 8, t.p, &s,
                               ERR));
    must(ops->attention_fwd(d, b->dt, t.p, 8, t.p, t.p, t.p, t.p, 8, t.p, &none,
                            ERR));
    must(ops->attention_bwd(d, b->dt, t.p, t.p, t.p, 8, t.p, t.p, 8, t.p, t.p,
                            t.p, t.p, 8, t.p, &none, ERR));
    same(&t, was, "refused calls, and those of no tokens, write nothing");
    free(was);
    tensor_drop(&t);
}

void contract_llm_attention(struct bed *b)
{
    static const struct layout few[] = {
        {{1}, 1, 1, 1, false},
        {{1}, 4, 2, 8, false},
        {{40}, 2, 2, 1, false},
        {{5, 1, 1, 9, -3}, 4, 2, 7, false},
        {{70, 3, 1, 130, -2}, 2, 1, 8, false},
        {{20, 45}, 2, 2, 64, false},
        {{9, 30}, 3, 1, 65, false},
        {{40}, 1, 1, 128, false},
        {{18, 17}, 2, 1, 256, false},
    };
    static const struct layout mixed = {{3, 7, 20, 1, 80, -2}, 2, 1, 8, false};
    static const struct layout more[] = {
        {{200, 64, 64, 65, -7, 3}, 8, 2, 16, false},
        {{300}, 4, 4, 64, false},
        {{1, 255, 1}, 3, 3, 13, false},
        {{128, 64, 63}, 2, 1, 200, false},
    };

    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        attend_all(b, &few[i]);
    for (size_t i = 0; !b->small && i < sizeof(more) / sizeof(more[0]); i++)
        attend_all(b, &more[i]);
    attend_again(b);
    attend_packed(b);
    attend_huge(b);
    for (int which = 0; which < ATTEND_INPUTS; which++)
        attend_not_finite(b, &mixed, which, NAN);
    attend_not_finite(b, &mixed, 2, INFINITY);
    attend_bad_positions(b);
    for (int32_t window = 0; b->dt == DT_F64 && !b->small && window < 6;
         window += 5)
        attend_differences(b, window);
    attend_windows(b, false);
    attend_refusals(b);
}
