/* pairs.cu - what preference pairs add to a loss: log p of whole answers, and
 * how much each of their tokens counts in the gradient.
 *
 * With d = (log p(chosen) - log p(rejected)) - the same of the reference, and
 * s the label smoothing, a pair's loss is
 *
 *   L = -(1 - s) log sigmoid(beta d) - s log sigmoid(-beta d)
 *   dL/dd = -beta ((1 - s) sigmoid(-beta d) - s sigmoid(beta d))
 *
 * The loss of a token is -log p of it. So dL/dd is the factor of each token's
 * own gradient in the rejected answer, and -dL/dd that in the chosen one.
 *
 * src  Rafailov et al. 2023, arXiv:2305.18290, equation 7; Mitchell 2023, A
 *      note on DPO with noisy preferences (label smoothing) */
#include "kernels/exec/exec_launch.h"

namespace
{

/* ---- rows of any length ---------------------------------------------------
 */

template <class T, int W>
KERNEL mean_rows(blk b, single<acc<T>> mean, const T *x, int64_t rows,
                 int64_t C)
{
    typedef vec<acc<T>, W> V;

    for (int64_t r : b.share(rows)) {
        V s = V::of(0);
        for (int64_t i : b.lanes(C, W))
            s += V::load(x + r * C + i);
        const acc<T> sum = b.sum(s.total());
        if (b.lane() == 0)
            mean.at[r] = sum / (acc<T>)C;
    }
}

template <class T, int W>
KERNEL scale(blk b, T *y, single<const acc<T>> by, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t r : lay.rows(b.share(rows))) {
        const acc<T> k = by.at[r];
        for (int64_t t : lay.cols(C / W)) {
            T *at = y + r * C + t * W;
            (V::load(at) * k).store(at);
        }
    }
}

/* ---- answers and pairs ----------------------------------------------------
 */

template <class A>
KERNEL sum_answers(blk b, A *log_p, A *mean, const A *loss, const A *logits,
                   single<const pair_answer> answers, int64_t n)
{
    for (int64_t k : b.share(n)) {
        const pair_answer a = answers.at[k];
        A p = 0, m = 0;
        for (int64_t i : b.lanes(a.n)) {
            p -= loss[a.first + i];
            m += logits ? logits[a.first + i] : A(0);
        }
        p = b.sum(p);
        m = b.sum(m);
        if (b.lane() == 0) {
            log_p[k] = p;
            if (mean)
                mean[k] = a.n > 0 ? m / (A)a.n : A(0);
        }
    }
}

template <class A> FN A sigmoid(A x)
{
    return A(1) / (A(1) + exp(-x));
}

template <class A>
KERNEL count_tokens(blk b, A *by, const A *log_p, const A *reference,
                    single<const pair_answer> answers, int64_t pairs,
                    single<const double> scale_at, A beta, A smooth)
{
    const double scale = *scale_at.at;

    for (int64_t k : b.share(pairs)) {
        const pair_answer c = answers.at[2 * k], r = answers.at[2 * k + 1];
        const A was = reference ? reference[2 * k] - reference[2 * k + 1]
                                : (A)(c.reference - r.reference);
        const A d = log_p[2 * k] - log_p[2 * k + 1] - was;
        const A slope =
            -beta *
            ((1 - smooth) * sigmoid(-beta * d) - smooth * sigmoid(beta * d)) *
            (A)scale;
        for (int64_t i : b.lanes(c.n))
            by[c.first + i] = -slope;
        for (int64_t i : b.lanes(r.n))
            by[r.first + i] = slope;
    }
}

/* ---- the ops --------------------------------------------------------------
 */

int check(const char *op, int64_t rows, int32_t C, struct error *err)
{
    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "%s: rows %lld, C %d", op,
                         (long long)rows, (int)C);
    return 0;
}

template <class T>
int row_means(struct device *d, void *mean, const void *x, int64_t rows,
              int32_t C, struct error *err)
{
    if (check("means of rows", rows, C, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, rows * C, rows), mean_rows,
                single<acc<T>>{(acc<T> *)mean}, (const T *)x, rows, (int64_t)C);
    return finish(d, "means of rows", err);
}

template <class T>
int scale_rows(struct device *d, void *y, const void *by, int64_t rows,
               int32_t C, struct error *err)
{
    if (check("factors of rows", rows, C, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, rows * C, rows), scale, (T *)y,
                single<const acc<T>>{(const acc<T> *)by}, rows, (int64_t)C);
    return finish(d, "factors of rows", err);
}

template <class T>
int answer_sums(struct device *d, void *log_p, void *mean, const void *loss,
                const void *logits, const struct pair_answer *answers,
                int64_t n, struct error *err)
{
    typedef acc<T> A;

    if (n < 0 || (mean && !logits))
        return error_set(err, ERR_INVAL, "answers: %lld", (long long)n);
    launch(d, blocks(d, n * 256, n), sum_answers<A>, (A *)log_p, (A *)mean,
           (const A *)loss, (const A *)logits,
           single<const pair_answer>{answers}, n);
    return finish(d, "answers", err);
}

template <class T>
int pair_factors(struct device *d, void *by, const void *log_p,
                 const void *reference, const struct pair_answer *answers,
                 int64_t pairs, const double *scale, double beta, double smooth,
                 struct error *err)
{
    typedef acc<T> A;

    if (pairs < 0 || !(beta > 0) || !(smooth >= 0 && smooth <= 0.5) || !scale)
        return error_set(err, ERR_INVAL,
                         "pairs: %lld, beta %g, label smoothing %g",
                         (long long)pairs, beta, smooth);
    launch(d, blocks(d, pairs * 256, pairs), count_tokens<A>, (A *)by,
           (const A *)log_p, (const A *)reference,
           single<const pair_answer>{answers}, pairs,
           single<const double>{scale}, (A)beta, (A)smooth);
    return finish(d, "pairs", err);
}

} // namespace

FAMILY(pairs)
{
    ops->llm.row_means = BY_TYPE(row_means);
    ops->llm.scale_rows = BY_TYPE(scale_rows);
    ops->llm.answer_sums = BY_TYPE(answer_sums);
    ops->llm.pair_factors = BY_TYPE(pair_factors);
}
