/* device.c - the CUDA side of the kernels keeps the contract.
 *
 * The same body, inputs and references as for the host device
 * (tests/unit/kernels/device.c): both are within the tolerance of the same
 * numbers, and equal to them where sums are exact, so host and CUDA side
 * agree. Blocks of 96 and 160 lanes leave some idle in most shapes; the
 * reversed order makes a missing barrier visible that the forward one hides.
 * The orders take turns; $MGPU_TEST_ALL, which .ci/nightly sets, has both for
 * every number of lanes.
 */
#include "kernels/device.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/simt/simt_device.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void test_lanes(int32_t lanes, bool reverse)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    char name[40];

    (void)snprintf(name, sizeof(name), "simt/%d%s", lanes, reverse ? "r" : "");
    if (!ok(device_simt_create(lanes, reverse, &d, &err) == 0, "%s: %s", name,
            err.msg))
        return;
    contract_device(d, name, true);
    d->ops->destroy(d);
}

int main(void)
{
    static const int32_t lanes[] = {32, 96, 160, 256};
    const bool all = getenv("MGPU_TEST_ALL") != NULL;

    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        if (all || i % 2 == 0)
            test_lanes(lanes[i], false);
        if (all || i % 2 == 1)
            test_lanes(lanes[i], true);
    }
    return tap_done();
}
