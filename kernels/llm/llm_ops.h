/* llm_ops.h - the operations of a transformer: a part of the device seam.
 *
 * The rules of kernels/device.h hold: tensors are dense and row major unless
 * a row stride ld is given, in elements; T is the storage type, A its
 * accumulator.
 *
 * Tokens of a batch lie in one list, document after document. `pos` [rows]
 * is each token's position in its document, from 0: token i of the list may
 * look at tokens i - pos[i] to i. So one array says where a document begins,
 * for attention, and how far a token is rotated. A token of padding has
 * position 0 and looks at itself alone. A window keeps the last W of them.
 *
 * src  Touvron et al. 2023, arXiv:2302.13971 (the network); Zhang and Sennrich
 *      2019, arXiv:1910.07467 (RMSNorm); Su et al. 2021, arXiv:2104.09864
 *      (RoPE); Shazeer 2020, arXiv:2002.05202 (SwiGLU); Ainslie et al. 2023,
 *      arXiv:2305.13245 (grouped queries); Dao 2023, arXiv:2307.08691 */
#ifndef MGPU_KERNELS_LLM_LLM_OPS_H
#define MGPU_KERNELS_LLM_LLM_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "kernels/dtype.h"
#include "kernels/llm/head_ops.h"
#include "kernels/llm/llm_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device;

struct llm_ops {
    /* h = x + delta (h = x without delta);  rstd = 1 / sqrt(mean(h^2) + eps);
     * y = h * rstd * w. rows x C; w [C] T.
     * in   delta  [rows, C], or NULL
     * out  h      [rows, C], may be x; NULL only without delta: not wanted
     *      rstd   [rows] A; NULL: not wanted
     * err  ERR_INVAL C < 1, delta without h */
    int (*rmsnorm_fwd)(struct device *d, enum dtype dt, void *y, void *rstd,
                       void *h, const void *x, const void *delta, const void *w,
                       int64_t rows, int32_t C, double eps, struct error *err);
    /* dx = rstd * (w * dy - hat * mean(w * dy * hat)) + extra, hat = h * rstd;
     * dw [C] T = the sum over rows of dy * hat.
     * in   extra  [rows, C], or NULL
     * out  dx     may be dy or extra;  dw  NULL: not wanted
     *      y      [rows, C]: the forward pass's again; may be dy, or NULL */
    int (*rmsnorm_bwd)(struct device *d, enum dtype dt, void *dx, void *dw,
                       void *y, const void *dy, const void *h, const void *rstd,
                       const void *w, const void *extra, int64_t rows,
                       int32_t C, struct error *err);
    struct head_ops head;

    /* Rotates, in place, each of the heads of x [rows, heads, D], by row
     * stride ld: halves (a, b) of a head become (a cos - b sin, b cos + a sin).
     * in   table  [positions, D / 2, 2] A: cos and sin of each angle
     *      back   by the opposite angles: the gradient
     * err  ERR_INVAL D odd, ld < heads * D. Outside of the table: NaN */
    int (*rope)(struct device *d, enum dtype dt, void *x, int32_t ld,
                const int32_t *pos, const void *table, int32_t positions,
                int64_t rows, int32_t heads, int32_t D, bool back,
                struct error *err);

    /* o [rows, heads, D] = softmax(scale * q k^T over the tokens that a row
     * may look at) v; never holds [rows, rows].
     * in   q [rows, heads, D], k, v [rows, kv_heads, D]: row stride ld
     *      ldo  row stride of o
     * out  lse  [rows, heads] A: log of the sum of the exponentials; NULL:
     *      not wanted
     * err  ERR_INVAL heads no multiple of kv_heads; head_dim not in 1..256; a
     *      stride below heads * D; a window below 0 */
    int (*attention_fwd)(struct device *d, enum dtype dt, void *o, int32_t ldo,
                         void *lse, const void *q, const void *k, const void *v,
                         int32_t ld, const int32_t *pos,
                         const struct attention *s, struct error *err);
    /* From do, with row stride ldo as o, the gradients of q, k, v, with row
     * stride ldd; dk and dv are sums over the query heads of a group. dq, dk
     * and dv are not q, k, v; lse is required. */
    int (*attention_bwd)(struct device *d, enum dtype dt, void *dq, void *dk,
                         void *dv, int32_t ldd, const void *dout, const void *o,
                         int32_t ldo, const void *lse, const void *q,
                         const void *k, const void *v, int32_t ld,
                         const int32_t *pos, const struct attention *s,
                         struct error *err);

    /* One more token of a document: o [heads, D] = softmax(scale * q k^T over
     * all s->rows tokens, or the last s->window of them) v. The keys and values
     * of all are there, its own at the end.
     * in   q [heads, D];  k, v [s->rows, kv_heads, D]: row stride ld
     * err  ERR_INVAL as attention_fwd(); no tokens */
    int (*attention_step)(struct device *d, enum dtype dt, void *o,
                          const void *q, const void *k, const void *v,
                          int32_t ld, const struct attention *s,
                          struct error *err);

    /* y [rows, F] = silu(g) * u, x [rows, 2 F] = (g, u);  silu(g) = g / (1 +
     * exp(-g)). */
    int (*swiglu_fwd)(struct device *d, enum dtype dt, void *y, const void *x,
                      int64_t rows, int32_t F, struct error *err);
    /* dx [rows, 2 F] = (dg, du), may be x;  y [rows, F]: the forward pass's
     * again, or NULL: not wanted; may be dy. */
    int (*swiglu_bwd)(struct device *d, enum dtype dt, void *dx, void *y,
                      const void *dy, const void *x, int64_t rows, int32_t F,
                      struct error *err);

    /* y [n, C] = row index[i] of a table for each i: a look-up of embeddings,
     * or of the labelled rows. x [part.rows, C] is a part of it: a row of y
     * whose index is in another part stays as it is. An index outside
     * 0..part.limit-1 gives NaN. */
    int (*take_rows)(struct device *d, enum dtype dt, void *y, const void *x,
                     const int32_t *index, int64_t n, int32_t C,
                     const struct row_part *part, struct error *err);
    /* y [limit, C] = 0, but row index[i] is row i of x [n, C]; no index comes
     * twice. An index outside is left out. */
    int (*put_rows)(struct device *d, enum dtype dt, void *y, const void *x,
                    const int32_t *index, int64_t n, int32_t C, int64_t limit,
                    struct error *err);
    /* Row index[order[i]] of a table += row order[i] of x [n, C], summed in the
     * order of `order`, in A, and rounded once per row: the gradient of
     * embeddings. y [part.rows, C] is a part of the table; an index outside of
     * it is left out.
     * in   index  [n]
     *      order  [n]: 0..n-1, so that index[order[.]] ascends */
    int (*add_rows)(struct device *d, enum dtype dt, void *y, const void *x,
                    const int32_t *index, const int32_t *order, int64_t n,
                    int32_t C, const struct row_part *part, struct error *err);
    /* device_ops.xent() without smoothing and gradient; z stays.
     * out  sums  [rows, 2] A: of each row the largest logit, and the sum of the
     *            exponentials of what each logit is above it */
    int (*xent_sums)(struct device *d, enum dtype dt, void *loss, int32_t *hit,
                     void *sums, const void *z, const int32_t *label,
                     int64_t rows, int32_t C, struct error *err);
    /* The gradient of that loss with respect to some of its columns.
     * in    sums  of the whole rows, as xent_sums() left them
     *       part  the columns; of labels within part.limit
     * inout z     [rows, part.rows]: their logits; becomes *scale times it
     * err   ERR_INVAL no scale, columns outside of the limit */
    int (*xent_part)(struct device *d, enum dtype dt, void *z, const void *sums,
                     const int32_t *label, int64_t rows,
                     const struct row_part *part, const double *scale,
                     struct error *err);

    /* NormalFloat: code c of a block of 64 with the largest magnitude a stands
     * for book[c] * s. Of the 16 values of the book, in -1..1, c is the nearest
     * to w / a, the lower one of two. s is a, or with scalers
     * (int8 / factor) + mean:  int8 = round((a - mean) * factor), cut to
     * -128..127, factor = 128 / max |a - mean| of 256 blocks. Each operation
     * is rounded to Q. As torchao 0.9; 64 zeros stay zeros.
     * err  ERR_INVAL n no multiple of 64 */
    int (*nf4_quantise)(struct device *d, enum dtype dt, const struct nf4 *q,
                        const void *w, struct error *err);
    /* w [n] T; writes what nf4_quantise() left in q. */
    int (*nf4_expand)(struct device *d, enum dtype dt, void *w,
                      const struct nf4 *q, struct error *err);
    /* y [n] = what 4 bits leave of w, group after group of neighbours: q s, q =
     * round(w / s) cut to -8..7, s = max(largest |w| / 7.5, 2^-23). As
     * fake_quant.cu rounds; one value that is not finite makes its group NaN.
     * out  y  may be w
     * err  ERR_INVAL n no multiple of `group` */
    int (*round_int4)(struct device *d, enum dtype dt, void *y, const void *w,
                      int64_t n, int32_t group, struct error *err);
    /* y [rows, C] = what 8 bits leave of each row of x: (q - z) s, q =
     * round(x / s) + z cut to -128..127, s = max((hi - lo) / 255, 2^-23), z =
     * round(-128 - lo / s); lo, hi: of the row and 0. Likewise. */
    int (*round_int8)(struct device *d, enum dtype dt, void *y, const void *x,
                      int64_t rows, int32_t C, struct error *err);
    /* mean [rows] A = the mean of each row of x [rows, C]. */
    int (*row_means)(struct device *d, enum dtype dt, void *mean, const void *x,
                     int64_t rows, int32_t C, struct error *err);
    /* Row i of y [rows, C] *= by[i]; by [rows] A. */
    int (*scale_rows)(struct device *d, enum dtype dt, void *y, const void *by,
                      int64_t rows, int32_t C, struct error *err);
    /* log_p [n] A = minus the sum of an answer's losses; mean [n] A = the mean
     * over its tokens of `logits`. An answer without tokens has 0 in both.
     * in   loss, logits  A, of tokens: those of the answers are read
     *      answers       [n]
     * out  mean          NULL: not wanted, logits is not read
     * err  ERR_INVAL mean without logits */
    int (*answer_sums)(struct device *d, enum dtype dt, void *log_p, void *mean,
                       const void *loss, const void *logits,
                       const struct pair_answer *answers, int64_t n,
                       struct error *err);
    /* by [tokens] A: *scale * the derivative of each pair's loss with respect
     * to the loss of a token, for the tokens of its answers (pairs.cu).
     * in   log_p      [2 pairs] A: chosen, rejected, chosen ...
     *      reference  likewise; NULL: those in answers
     *      answers    [2 pairs]
     * err  ERR_INVAL beta not above 0, smooth not in 0..0.5 */
    int (*pair_factors)(struct device *d, enum dtype dt, void *by,
                        const void *log_p, const void *reference,
                        const struct pair_answer *answers, int64_t pairs,
                        const double *scale, double beta, double smooth,
                        struct error *err);
};

#ifdef __cplusplus
}
#endif
#endif
