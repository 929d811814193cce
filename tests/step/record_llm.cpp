/* record_llm.cpp - what the ops of a transformer are called with; see
 * recorder.h. */
#include "tests/step/recorder.h"

namespace
{

/* Makes its step_op from the arguments of a call, notes it, and calls. */
template <class F> struct noted;
template <class... A> struct noted<int (*)(struct device *, A...)> {
    template <auto Member, struct step_op (*Op)(A...)>
    static int llm(struct device *d, A... a)
    {
        begin(d, Op(a...));
        return end(d, (of(d)->own.llm.*Member)(d, a...));
    }
    template <auto Member, struct step_op (*Op)(A...)>
    static int head(struct device *d, A... a)
    {
        begin(d, Op(a...));
        return end(d, (of(d)->own.llm.head.*Member)(d, a...));
    }
    template <auto Member, struct step_op (*Op)(A...)>
    static int own(struct device *d, A... a)
    {
        begin(d, Op(a...));
        return end(d, (of(d)->own.*Member)(d, a...));
    }
};

/* ---- rows -----------------------------------------------------------------
 */

struct step_op of_rmsnorm_fwd(enum dtype dt, void *, void *, void *h,
                              const void *x, const void *delta, const void *,
                              int64_t rows, int32_t C, double, struct error *)
{
    struct step_op op = shaped("rmsnorm_fwd", dt, rows * C, rows * C, C, C);

    op.skip = delta;
    op.keeps = h && (delta || h != x);
    return op;
}

struct step_op of_rmsnorm_bwd(enum dtype dt, void *, void *, void *y,
                              const void *, const void *, const void *,
                              const void *, const void *extra, int64_t rows,
                              int32_t C, struct error *)
{
    struct step_op op = shaped("rmsnorm_bwd", dt, rows * C, rows * C, C, C);

    op.extra = extra;
    op.keeps = y;
    return op;
}

struct step_op of_norm_fwd(enum dtype dt, void *, int32_t, void *h, void *,
                           const void *, int64_t rows, int32_t heads, int32_t D,
                           double, struct error *)
{
    const int64_t n = rows * heads * D;
    struct step_op op = shaped("norm_fwd", dt, n, n, D, D);

    op.keeps = h;
    return op;
}

struct step_op of_norm_bwd(enum dtype dt, void *, int32_t, void *, const void *,
                           const void *, const void *, int64_t rows,
                           int32_t heads, int32_t D, struct error *)
{
    const int64_t n = rows * heads * D;

    return shaped("norm_bwd", dt, n, n, D, heads * D);
}

struct step_op of_rope(enum dtype dt, void *, int32_t, const int32_t *,
                       const void *, int32_t, int64_t rows, int32_t heads,
                       int32_t D, bool, struct error *)
{
    const int64_t n = rows * heads * D;

    return shaped("rope", dt, n, n, D / 2, D / 2);
}

struct step_op of_swiglu_fwd(enum dtype dt, void *, const void *, int64_t rows,
                             int32_t F, struct error *)
{
    return shaped("swiglu_fwd", dt, 2 * rows * F, rows * F, F, F);
}

struct step_op of_swiglu_bwd(enum dtype dt, void *, void *y, const void *,
                             const void *, int64_t rows, int32_t F,
                             struct error *)
{
    struct step_op op = shaped("swiglu_bwd", dt, 2 * rows * F, rows * F, F, F);

    op.keeps = y;
    return op;
}

struct step_op of_take_rows(enum dtype dt, void *, const void *,
                            const int32_t *, int64_t n, int32_t C,
                            const struct row_part *, struct error *)
{
    return shaped("take_rows", dt, n * C, n * C, C, C);
}

struct step_op of_put_rows(enum dtype dt, void *, const void *, const int32_t *,
                           int64_t n, int32_t C, int64_t limit, struct error *)
{
    return shaped("put_rows", dt, n * C, limit * C, C, C);
}

/* Of as many different rows as there can be. */
struct step_op of_add_rows(enum dtype dt, void *, const void *, const int32_t *,
                           const int32_t *, int64_t n, int32_t C,
                           const struct row_part *part, struct error *)
{
    const int64_t rows = part->rows;

    return shaped("add_rows", dt, n * C, (n < rows ? n : rows) * C, C, C);
}

struct step_op of_xent_sums(enum dtype dt, void *, int32_t *, void *,
                            const void *, const int32_t *, int64_t rows,
                            int32_t C, struct error *)
{
    return shaped("xent_sums", dt, rows * C, 0, C, C);
}

struct step_op of_xent_part(enum dtype dt, void *, const void *,
                            const int32_t *, int64_t rows,
                            const struct row_part *part, const double *,
                            struct error *)
{
    const int64_t n = rows * part->rows;
    const int32_t C = (int32_t)part->rows;

    return shaped("xent_part", dt, n, n, C, C);
}

struct step_op of_row_means(enum dtype dt, void *, const void *, int64_t rows,
                            int32_t C, struct error *)
{
    return shaped("row_means", dt, rows * C, rows, C, C);
}

struct step_op of_scale_rows(enum dtype dt, void *, const void *, int64_t rows,
                             int32_t C, struct error *)
{
    return shaped("scale_rows", dt, rows * C, rows * C, C, C);
}

/* ---- attention ------------------------------------------------------------
 */

struct step_op of_attention(const char *name, enum dtype dt,
                            const struct attention *s)
{
    struct step_op op =
        shaped(name, dt, s->rows * s->heads * s->head_dim,
               s->rows * s->kv_heads * s->head_dim, s->head_dim, s->head_dim);

    op.rows = s->rows;
    op.heads = s->heads;
    op.kv_heads = s->kv_heads;
    op.D = s->head_dim;
    return op;
}

struct step_op of_attention_fwd(enum dtype dt, void *, int32_t, void *,
                                const void *, const void *, const void *,
                                int32_t, const int32_t *,
                                const struct attention *s, struct error *)
{
    return of_attention("attention_fwd", dt, s);
}

struct step_op of_attention_bwd(enum dtype dt, void *, void *, void *, int32_t,
                                const void *, const void *, int32_t,
                                const void *, const void *, const void *,
                                const void *, int32_t, const int32_t *,
                                const struct attention *s, struct error *)
{
    return of_attention("attention_bwd", dt, s);
}

struct step_op of_attention_step(enum dtype dt, void *, const void *,
                                 const void *, const void *, int32_t,
                                 const struct attention *s, struct error *)
{
    return of_attention("attention_step", dt, s);
}

/* ---- fewer bits -----------------------------------------------------------
 * keeps: the scalers are quantised, too. */

struct step_op of_nf4(const char *name, enum dtype dt, const struct nf4 *q)
{
    struct step_op op = shaped(name, dt, q->n, q->n, 0, 0);

    op.keeps = q->scalers;
    return op;
}

struct step_op of_nf4_quantise(enum dtype dt, const struct nf4 *q, const void *,
                               struct error *)
{
    return of_nf4("nf4_quantise", dt, q);
}

struct step_op of_nf4_expand(enum dtype dt, void *, const struct nf4 *q,
                             struct error *)
{
    return of_nf4("nf4_expand", dt, q);
}

struct step_op of_round_int4(enum dtype dt, void *, const void *, int64_t n,
                             int32_t group, struct error *)
{
    return shaped("round_int4", dt, n, n, group, group);
}

struct step_op of_round_int8(enum dtype dt, void *, const void *, int64_t rows,
                             int32_t C, struct error *)
{
    return shaped("round_int8", dt, rows * C, rows * C, C, C);
}

/* ---- pairs ----------------------------------------------------------------
 */

struct step_op of_answer_sums(enum dtype dt, void *, void *, const void *,
                              const void *, const struct pair_answer *,
                              int64_t n, struct error *)
{
    return shaped("answer_sums", dt, n, n, 0, 0);
}

struct step_op of_pair_factors(enum dtype dt, void *, const void *,
                               const void *, const struct pair_answer *,
                               int64_t pairs, const double *, double, double,
                               struct error *)
{
    return shaped("pair_factors", dt, 2 * pairs, 2 * pairs, 0, 0);
}

/* ---- optimizers -----------------------------------------------------------
 */

struct step_op of_adamw(enum dtype dt, void *, void *, void *, const void *,
                        int64_t n, const struct adamw_args *, struct error *)
{
    return shaped("adamw", dt, n, n, 0, 0);
}

struct step_op of_adamw8(enum dtype dt, void *, uint8_t *, uint8_t *, float *,
                         float *, const void *, const float *, int64_t n,
                         const struct adamw_args *, struct error *)
{
    return shaped("adamw8", dt, n, n, 0, 0);
}

struct step_op of_sum_squares(enum dtype dt, void *, const void *, int64_t n,
                              struct error *)
{
    return shaped("sum_squares", dt, n, 1, 1, 1);
}

} // namespace

void record_llm(struct exec_device *exec)
{
#define NOTE(member)                                                 \
    exec->ops.llm.member =                                           \
        noted<decltype(exec->ops.llm.member)>::llm<&llm_ops::member, \
                                                   of_##member>
    NOTE(rmsnorm_fwd);
    NOTE(rmsnorm_bwd);
    NOTE(rope);
    NOTE(attention_fwd);
    NOTE(attention_bwd);
    NOTE(attention_step);
    NOTE(swiglu_fwd);
    NOTE(swiglu_bwd);
    NOTE(take_rows);
    NOTE(put_rows);
    NOTE(add_rows);
    NOTE(xent_sums);
    NOTE(xent_part);
    NOTE(nf4_quantise);
    NOTE(nf4_expand);
    NOTE(round_int4);
    NOTE(round_int8);
    NOTE(row_means);
    NOTE(scale_rows);
    NOTE(answer_sums);
    NOTE(pair_factors);
#undef NOTE
#define NOTE(member)                                                        \
    exec->ops.llm.head.member =                                             \
        noted<decltype(exec->ops.llm.head.member)>::head<&head_ops::member, \
                                                         of_##member>
    NOTE(norm_fwd);
    NOTE(norm_bwd);
#undef NOTE
#define NOTE(member)                                                \
    exec->ops.member =                                              \
        noted<decltype(exec->ops.member)>::own<&device_ops::member, \
                                               of_##member>
    NOTE(adamw);
    NOTE(adamw8);
    NOTE(sum_squares);
#undef NOTE
}
