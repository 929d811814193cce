/* faulty.cu - kernels with one fault each, which the emulator has to find.
 *
 * Each turns 64 values round: lane i writes box[i] and reads box[63 - i],
 * which the other warp wrote.
 */
#include "kernels/exec/exec.h"
#include "tests/simt/simt_device.h"

namespace
{

enum { LANES = 64 };

enum fault {
    NONE,
    NO_BARRIER,
    LANE_MISSES_BARRIER,
    LANE_MISSES_SHUFFLE,
    UNWRITTEN,
    NO_BARRIER_BETWEEN_USES,
};

template <fault F> KERNEL turn(blk b, double *out)
{
    SHARED(double, box, LANES);
    int i = b.lane();

    if (F == LANE_MISSES_SHUFFLE) {
        if (i != 40)
            (void)__shfl_xor_sync(~0u, i, 1);
    }
    if (F != UNWRITTEN || i != 5)
        box[i] = i;
    if (F == LANE_MISSES_BARRIER) {
        if (i == 40)
            return;
    }
    if (F != NO_BARRIER)
        b.sync();
    double first = box[LANES - 1 - i];
    if (F != NO_BARRIER_BETWEEN_USES)
        b.sync();
    box[i] = -1; /* the next use of the array */
    b.sync();
    out[i] = first;
}

template <fault F> int try_one(double *out)
{
    return simt_launch(1, LANES, [=] { turn<F>(blk{}, out); });
}

} // namespace

int simt_try_good(double *out)
{
    return try_one<NONE>(out);
}
int simt_try_no_barrier(double *out)
{
    return try_one<NO_BARRIER>(out);
}
int simt_try_lane_misses_barrier(double *out)
{
    return try_one<LANE_MISSES_BARRIER>(out);
}
int simt_try_lane_misses_shuffle(double *out)
{
    return try_one<LANE_MISSES_SHUFFLE>(out);
}
int simt_try_unwritten_shared(double *out)
{
    return try_one<UNWRITTEN>(out);
}
int simt_try_no_barrier_between_uses(double *out)
{
    return try_one<NO_BARRIER_BETWEEN_USES>(out);
}
