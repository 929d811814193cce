/* attention_mma.h - attention on a GPU's tensor cores: what its kernels have in
 * common.
 *
 * A warp owns 16 rows, queries of the heads of a group or keys, and keeps
 * their factors and sums in registers. Tiles of the other kind pass through
 * shared memory, where all warps of the block read them. Tiles begin at
 * multiples of their size, so that a row adds the same tiles in the same order
 * for every number of lanes.
 *
 * A tile is whole if all rows of the block see all of it. In others, scores of
 * pairs that do not see each other are replaced. Their probability is 0, but 0
 * times a NaN or an infinity of another document would be a NaN: there the
 * products of such values are added pair by pair, and zeros take their place in
 * the tile.
 *
 * attention.cu has the formulas. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_MMA_H

#include "kernels/exec/exec_mma.h"

namespace
{

enum { WARP_ROWS = 16 };

/* 2^x = e^(x / LOG2E) */
constexpr float LOG2E = 1.44269504088896341f;

/* As struct seen, with the integers that a lane has registers for. */
template <class T> struct mma_seen {
    const T *q, *k, *v;
    const int32_t *pos;
    int ld, rows, heads, group, reach;
    float scale;

    FN int first(int i) const
    {
        const int at = i - (pos[i] < reach ? pos[i] : reach);
        return at < 0 ? 0 : at > i ? i : at;
    }
    FN int kv_heads() const
    {
        return heads / group;
    }
};
template <class T> mma_seen<T> mma_seen_of(const seen<T> &in)
{
    return {in.q,       in.k,           in.v,          in.pos,
            (int)in.ld, (int)in.rows,   (int)in.heads, (int)in.group(),
            in.reach,   (float)in.scale};
}

/* How the rows of all key heads are split: into units of `tall` neighbours of a
 * key head, and these into shares of consecutive ones, one per block. Lanes
 * have no registers left to work it out. */
struct mma_units {
    int tall, n_tiles, n, share;

    mma_units(struct device *d, int64_t kv_heads, int64_t rows)
        : tall(exec_of(d)->lanes / 32 * WARP_ROWS),
          n_tiles((int)((rows + tall - 1) / tall)), n((int)kv_heads * n_tiles),
          share(1)
    {
    }
    /* Their number of blocks; work in values. */
    int64_t split(struct device *d, int64_t work)
    {
        const int64_t grid = blocks(d, work, n);
        share = (int)((n + grid - 1) / grid);
        return grid;
    }
    /* The block's i-th unit exists. */
    FN bool has(blk b, int i) const
    {
        return i < share && at(b, i) < n;
    }
    FN int at(blk b, int i) const
    {
        return (int)b.id() * share + i;
    }
    /* The key head of unit u, and its first row. */
    FN int kv(int u) const
    {
        return u / n_tiles;
    }
    FN int first(int u) const
    {
        return (int)tile_at(u % n_tiles, n_tiles) * tall;
    }
};

/* Rows have whole vectors of 16 bytes at such addresses; indices fit. */
template <class T>
bool fits_mma(const seen<T> &in, int64_t ldo, uintptr_t addresses)
{
    return sizeof(T) == 2 && (in.D == 64 || in.D == 128) &&
           (in.ld | ldo) % 8 == 0 && addresses % 16 == 0 && in.scale > 0 &&
           in.rows * in.heads < 1 << 29;
}

/* ---- where a lane is ------------------------------------------------------
 */
/* In the words of exec_mma.h. A lane has rows g and g + 8 of its warp. */
struct mma_lane {
    int warp, lane, g, t;

    FN explicit mma_lane(blk b)
        : warp(b.lane() / 32), lane(b.lane() % 32), g(lane / 4), t(lane % 4)
    {
    }
    FN int row(int i) const
    {
        return warp * WARP_ROWS + g + 8 * i;
    }
};

/* The rows of a block are neighbours in the list of (query, head of the group)
 * of one key head. */
template <class T> struct query_rows {
    int kv, lo, n;         /* the block's first row, and how many there are */
    int first, end;        /* queries of the block */
    int whole_from;        /* the first key that all of them see */
    int query[2], from[2]; /* of this lane's rows, and the first key of each;
                            * a row behind the last is like that one */

    FN query_rows(const mma_seen<T> &in, const mma_lane &at,
                  const mma_units &of, int u)
    {
        n = in.rows * in.group;
        kv = of.kv(u);
        lo = of.first(u);
        first = lo / in.group;
        end = ((n - lo < of.tall ? n : lo + of.tall) - 1) / in.group + 1;
        whole_from = in.first(end - 1);
        UNROLL for (int i = 0; i < 2; i++)
        {
            query[i] = row(at, i) / in.group;
            from[i] = in.first(query[i]);
        }
    }
    FN int row(const mma_lane &at, int i) const
    {
        const int r = lo + at.row(i);
        return r < n ? r : n - 1;
    }
    FN bool exists(const mma_lane &at, int i) const
    {
        return lo + at.row(i) < n;
    }
    /* Where the query of row i is in an array of rows ld apart. */
    FN int64_t offset(const mma_seen<T> &in, const mma_lane &at, int i, int ld,
                      int D) const
    {
        return (int64_t)(row(at, i) / in.group) * ld + head(in, at, i) * D;
    }
    FN int head(const mma_seen<T> &in, const mma_lane &at, int i) const
    {
        return kv * in.group + row(at, i) % in.group;
    }
    FN bool sees(int i, int key) const
    {
        return key >= from[i] && key <= query[i];
    }
    /* All rows see all keys from y to y + n - 1. */
    FN bool whole(int y, int keys) const
    {
        return y + keys - 1 <= first && y >= whole_from;
    }
};

} // namespace
#endif
