/* faulty.cu - kernels with one race each, or with none: see faulty.h.
 *
 * Each has a place of its own for each lane of both blocks, and a common one.
 */
#include "kernels/exec/exec.h"
#include "tests/race/faulty.h"

namespace
{

enum { LANES = 64, BLOCKS = 2 };

struct places {
    int own[BLOCKS][LANES], all;
    unsigned char bytes[LANES];
};

/* The compiler may drop none of the accesses. */
FN void put(int *p, int v)
{
    *(volatile int *)p = v;
}
FN int get(const int *p)
{
    return *(const volatile int *)p;
}

template <race_fault F> KERNEL race(blk b, places *p)
{
    SHARED(int, box, LANES);
    const int i = b.lane();
    const bool first = b.id() == 0;
    int *mine = &p->own[b.id()][i];

    put(mine, i);
    switch (F) {
    case RACE_NONE:
    case RACE_LAUNCHES:
        if (F == RACE_LAUNCHES && first && i == 0)
            put(&p->all, 1);
        break;
    case RACE_BARRIER:
        b.sync();
        box[i] = get(&p->own[b.id()][LANES - 1 - i]);
        b.sync();
        put(mine, box[LANES - 1 - i]);
        break;
    case RACE_READS:
        put(mine, get(&p->all));
        break;
    case RACE_BYTES:
        if (first)
            *(volatile unsigned char *)&p->bytes[i] = 1;
        break;
    case RACE_SHARED:
        put(&box[i], i);
        put(mine, get(&box[i]));
        break;
    case RACE_READ_AFTER_WRITE:
        put(mine, get(&p->own[b.id()][0]));
        break;
    case RACE_WRITE_AFTER_READ:
        if (first && i == 5)
            put(mine, get(&p->own[0][40]));
        if (first && i == 40)
            put(mine, 1);
        break;
    case RACE_WRITE_AFTER_READS:
        b.sync();
        (void)get(&p->own[b.id()][LANES - 1]);
        if (i == LANES - 1)
            put(mine, 1);
        break;
    case RACE_SAME_VALUE:
        if (first)
            put(&p->all, 1);
        break;
    case RACE_SHUFFLE:
        put(&box[i], i);
        (void)__shfl_xor_sync(~0u, i, 1);
        put(mine, get(&box[i ^ 1]));
        break;
    case RACE_BLOCKS_WRITE:
        if (i == 0)
            put(&p->all, 1);
        break;
    case RACE_BLOCK_READS:
        if (!first)
            put(mine, get(&p->own[0][i]));
        break;
    case RACE_BLOCK_WRITES:
        if (first)
            put(mine, get(&p->own[1][i]));
        break;
    }
}

template <race_fault F> void launches(int n)
{
    static places p;

    for (int k = 0; k < n; k++)
        (void)simt_launch(BLOCKS, LANES, [] { race<F>(blk{}, &p); });
}

} // namespace

void race_try(enum race_fault fault)
{
    switch (fault) {
#define TRY(f) \
    case f:    \
        return launches<f>(f == RACE_LAUNCHES ? 2 : 1)
        TRY(RACE_NONE);
        TRY(RACE_BARRIER);
        TRY(RACE_READS);
        TRY(RACE_BYTES);
        TRY(RACE_SHARED);
        TRY(RACE_LAUNCHES);
        TRY(RACE_READ_AFTER_WRITE);
        TRY(RACE_WRITE_AFTER_READ);
        TRY(RACE_WRITE_AFTER_READS);
        TRY(RACE_SAME_VALUE);
        TRY(RACE_SHUFFLE);
        TRY(RACE_BLOCKS_WRITE);
        TRY(RACE_BLOCK_READS);
        TRY(RACE_BLOCK_WRITES);
    }
}
