/* batchnorm.cu - batch norm as a separate kernel, where no neighbouring
 * convolution can include it (exec_norm.h): after the last layer of a network,
 * and with running statistics.
 *
 * src  Ioffe, Szegedy 2015, arXiv:1502.03167, algorithm 1 and section 3 */
#include "kernels/exec/exec_norm.h"

namespace
{

template <class T>
KERNEL rstd_of(blk b, acc<T> *rstd, const acc<T> *var, int64_t C, double eps)
{
    for (int64_t c : b.each(C))
        rstd[c] = (acc<T>)(1 / sqrt((double)var[c] + eps));
}

int check(const char *op, int64_t rows, int32_t C, double cap,
          struct error *err)
{
    if (rows < 1 || C < 1 || !(cap >= 0))
        return error_set(err, ERR_INVAL, "%s: rows %lld, C %d, cap %g", op,
                         (long long)rows, (int)C, cap);
    return 0;
}

template <class T>
int norm_apply(struct device *d, void *y, const void *x, const struct norm *n,
               const void *skip, int64_t rows, int32_t C, struct error *err)
{
    int64_t c = C;

    if (check("batch norm", rows, C, n->cap, err) < 0)
        return -1;
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), norm_rows, (T *)y, (const T *)x,
                (const T *)skip, norm_of<T>(n), rows, c);
    return finish(d, "batch norm", err);
}

template <class T>
int norm_grads(struct device *d, void *dy, const struct norm_grad *out,
               const void *x, const struct norm *n, int64_t rows, int32_t C,
               struct error *err)
{
    int64_t c = C, parts = parts_for(d, rows * c, rows);

    if (check("batch norm's gradient", rows, C, n->cap, err) < 0)
        return -1;
    double *part = scratch<double>(d, 2 * parts * c, err);
    if (!part)
        return -1;
    if (!at_one_go)
        launch(d, blocks(d, 2 * parts * c), clear<double>, part,
               2 * parts * c);
    LAUNCH_ROWS(c, parts, norm_gate, part, (T *)dy, (const T *)nullptr,
                (const T *)x, norm_of<T>(n), rows, c);
    launch(d, fold_blocks(d, 2 * c), norm_fold<T>, (acc<T> *)out->sums,
           (T *)out->dgamma, (T *)out->dbeta, (const double *)part, parts, c);
    return finish(d, "batch norm's gradient", err);
}

template <class T>
int norm_rstd(struct device *d, void *rstd, const void *var, int32_t C,
              double eps, struct error *err)
{
    typedef acc<T> A;

    if (check("batch norm's statistics", 1, C, 0, err) < 0)
        return -1;
    launch(d, blocks(d, C), rstd_of<T>, (A *)rstd, (const A *)var, (int64_t)C,
           eps);
    return finish(d, "batch norm's statistics", err);
}

} // namespace

FAMILY(batchnorm)
{
    ops->norm_apply = BY_TYPE(norm_apply);
    ops->norm_grads = BY_TYPE(norm_grads);
    ops->norm_rstd = BY_TYPE(norm_rstd);
}
