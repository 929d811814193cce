/* layers.c - the kernels of a convolutional network have no races: depthwise,
 * pointwise and batch norm, at each width of their vectors.
 *
 * What .ci/run has time for: each type on one of the devices. whole.c watches
 * every kernel, with each type on each.
 */
#include "tests/race/contract.h"

static int n_devices;

static void parts(struct device *d, const char *name)
{
    for (int dt = n_devices++; dt < DT_N; dt += 3) {
        struct bed b = bed_make(d, name, (enum dtype)dt, true);
        contract_norm(&b);
        free_of_races(name, "batch norm");
        contract_fused(&b);
        free_of_races(name, "depthwise and pointwise");
        bed_drop(&b);
    }
}

int main(void)
{
    in_both_orders(parts);
    return tap_done();
}
