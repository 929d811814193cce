/* head_ops.h - the norm of heads, as Qwen3 has it for queries and keys: a part
 * of struct llm_ops, whose rules hold. */
#ifndef MGPU_KERNELS_LLM_HEAD_OPS_H
#define MGPU_KERNELS_LLM_HEAD_OPS_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "kernels/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct device;

struct head_ops {
    /* RMSNorm, in place, of each of the heads of x [rows, heads, D], by row
     * stride ld: x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps); w [D] T.
     * out  h     [rows, heads, D]: x as it was; NULL: not wanted
     *      rstd  [rows, heads] A; NULL: not wanted
     * err  ERR_INVAL heads or D < 1, ld < heads * D, eps below 0 */
    int (*norm_fwd)(struct device *d, enum dtype dt, void *x, int32_t ld,
                    void *h, void *rstd, const void *w, int64_t rows,
                    int32_t heads, int32_t D, double eps, struct error *err);
    /* dx = rstd * (w * dy - hat * mean(w * dy * hat)), hat = h * rstd, in the
     * place of dy [rows, heads, D], by row stride ld; dw [D] T = the sum over
     * rows and heads of dy * hat.
     * in   h, rstd  dense, as norm_fwd() left them
     * out  dw       NULL: not wanted
     * err  ERR_INVAL as norm_fwd() */
    int (*norm_bwd)(struct device *d, enum dtype dt, void *dx, int32_t ld,
                    void *dw, const void *h, const void *rstd, const void *w,
                    int64_t rows, int32_t heads, int32_t D, struct error *err);
};

#ifdef __cplusplus
}
#endif
#endif
