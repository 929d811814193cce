/* rows.cu - rows by their index: look up, put back, and sum.
 *
 * A sum over the rows of one index needs no atomics, because the caller sorts
 * them: equal indices are neighbours, a run. The lanes that meet the beginning
 * of a run sum all of it, in order, however the runs were shared among blocks.
 * So the number of blocks does not change a bit. */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

template <class T, int W>
KERNEL take(blk b, T *y, const T *x, single<const int32_t> index, int64_t n,
            int64_t C, row_part part)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t i : lay.rows(b.share(n))) {
        const int64_t r = index.at[i] - part.first;
        const bool in = r >= 0 && r < part.rows;
        const bool is_known =
            r + part.first >= 0 && r + part.first < part.limit;
        if (!in && is_known)
            continue;
        for (int64_t t : lay.cols(C / W))
            (in ? V::load(x + r * C + t * W) : V::of(NAN))
                .store(y + i * C + t * W);
    }
}

template <class T, int W> KERNEL clear_values(blk b, T *y, int64_t n)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(n, W))
        V::of(0).store(y + i, n - i);
}

template <class T, int W>
KERNEL put(blk b, T *y, const T *x, single<const int32_t> index, int64_t n,
           int64_t C, int64_t limit)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t i : lay.rows(b.share(n))) {
        const int64_t r = index.at[i];
        if (r < 0 || r >= limit)
            continue;
        for (int64_t t : lay.cols(C / W))
            V::load(x + i * C + t * W).store(y + r * C + t * W);
    }
}

/* Row numbers, sorted by their index. */
struct sorted {
    const int32_t *index, *order;
    int64_t n;
    FN int32_t at(int64_t i) const
    {
        return index[order[i]];
    }
    FN bool begins(int64_t i) const
    {
        return i == 0 || at(i) != at(i - 1);
    }
    FN int64_t end(int64_t i) const
    {
        int64_t e = i + 1;

        while (e < n && at(e) == at(i))
            e++;
        return e;
    }
};

template <class T, int W>
KERNEL add_runs(blk b, T *y, const T *x, sorted by, int64_t C, row_part part)
{
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    const rect lay(b, C / W);

    for (int64_t i : lay.rows(b.share(by.n))) {
        const int64_t r = by.at(i) - part.first;
        if (r < 0 || r >= part.rows || !by.begins(i))
            continue;
        const range run = {i, by.end(i), 1};
        for (int64_t t : lay.cols(C / W)) {
            T *out = y + r * C + t * W;
            V sum = V::load(out);
            in_batches<8>(
                run,
                [=](int64_t k) { return V::hold(x + by.order[k] * C + t * W); },
                [&](int64_t, const raw &m) { sum += V::open(m); });
            sum.store(out);
        }
    }
}

int check(const char *op, int64_t n, int32_t C, int64_t limit,
          struct error *err)
{
    if (n < 0 || C < 1 || limit < 0)
        return error_set(err, ERR_INVAL, "%s: %lld rows of %lld, C %d", op,
                         (long long)n, (long long)limit, (int)C);
    return 0;
}

int check_part(const char *op, int64_t n, int32_t C,
               const struct row_part *part, struct error *err)
{
    if (check(op, n, C, part->rows, err) < 0)
        return -1;
    if (part->first < 0 || part->first + part->rows > part->limit)
        return error_set(err, ERR_INVAL, "%s: %lld from %lld of %lld", op,
                         (long long)part->rows, (long long)part->first,
                         (long long)part->limit);
    return 0;
}

template <class T>
int take_rows(struct device *d, void *y, const void *x, const int32_t *index,
              int64_t n, int32_t C, const struct row_part *part,
              struct error *err)
{
    if (check_part("look-up of rows", n, C, part, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, n * C, n), take, (T *)y, (const T *)x,
                single<const int32_t>{index}, n, (int64_t)C, *part);
    return finish(d, "look-up of rows", err);
}

template <class T>
int put_rows(struct device *d, void *y, const void *x, const int32_t *index,
             int64_t n, int32_t C, int64_t limit, struct error *err)
{
    const int64_t all = limit * C;

    if (check("rows put back", n, C, limit, err) < 0)
        return -1;
    LAUNCH_FLAT(blocks(d, all), clear_values, (T *)y, all);
    LAUNCH_ROWS(C, blocks(d, n * C, n), put, (T *)y, (const T *)x,
                single<const int32_t>{index}, n, (int64_t)C, limit);
    return finish(d, "rows put back", err);
}

template <class T>
int add_rows(struct device *d, void *y, const void *x, const int32_t *index,
             const int32_t *order, int64_t n, int32_t C,
             const struct row_part *part, struct error *err)
{
    if (check_part("sum of rows", n, C, part, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, n * C, n), add_runs, (T *)y, (const T *)x,
                sorted{index, order, n}, (int64_t)C, *part);
    return finish(d, "sum of rows", err);
}

} // namespace

FAMILY(rows)
{
    ops->llm.take_rows = BY_TYPE(take_rows);
    ops->llm.put_rows = BY_TYPE(put_rows);
    ops->llm.add_rows = BY_TYPE(add_rows);
}
