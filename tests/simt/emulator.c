/* emulator.c - the emulator finds the faults it is there for.
 *
 * Without this, a green run on the emulator would say nothing: it could be
 * running every lane to its end, one after the other.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/simt/simt_device.h"
#include "tests/tap.h"

enum { LANES = 64 };

/* Lanes whose value is not the one that their opposite wrote. */
static int wrong(const double *out)
{
    int n = 0;

    for (int i = 0; i < LANES; i++)
        n += out[i] != LANES - 1 - i;
    return n;
}

static void test_faults(bool reverse)
{
    const char *order = reverse ? "reversed" : "forward";
    struct device *d = NULL;
    double out[LANES] = {0};

    /* The device sets the order in which the lanes run. */
    if (!ok(device_simt_create(LANES, reverse, &d, NULL) == 0, "a device"))
        return;
    ok(simt_try_good(out) == 0 && wrong(out) == 0, "%s: a right kernel", order);
    ok(simt_try_no_barrier(out) == 0 && wrong(out) > 0,
       "%s: a removed barrier shows", order);
    ok(simt_try_no_barrier_between_uses(out) == 0 && wrong(out) > 0,
       "%s: so does one between two uses of an array", order);
    ok(simt_try_unwritten_shared(out) == 0 && isnan(out[LANES - 1 - 5]),
       "%s: shared memory that nobody wrote is NaN", order);
    ok(simt_try_lane_misses_barrier(out) != 0,
       "%s: a lane that misses a barrier is a fault", order);
    ok(simt_try_lane_misses_shuffle(out) != 0,
       "%s: a lane that misses a shuffle is a fault", order);
    ok(simt_try_good(out) == 0 && wrong(out) == 0,
       "%s: a right kernel after a fault", order);
    d->ops->destroy(d);
}

/* A refused launch is the op's error, once and for all later ops. */
static void test_refused_launch(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    float x[8] = {0};

    if (!ok(device_simt_create(33, false, &d, NULL) == 0, "a bad device"))
        return;
    for (int i = 0; i < 2; i++)
        ok(d->ops->add(d, DT_F32, x, x, 8, &err) == -1 &&
               err.code == ERR_EXTERN,
           "a refused launch is ERR_EXTERN: %s", err.msg);
    d->ops->destroy(d);
}

int main(void)
{
    test_faults(false);
    test_faults(true);
    test_refused_launch();
    return tap_done();
}
