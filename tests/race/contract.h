/* contract.h - the contract of the kernels, watched by the race checker. */
#ifndef MGPU_TESTS_RACE_CONTRACT_H
#define MGPU_TESTS_RACE_CONTRACT_H

#include <stdio.h>

#include "tests/race/race.h"
#include "tests/simt/simt_device.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

/* One TAP line for what was accessed since the last. A part that accessed
 * nothing was not compiled for the checker. */
static inline void free_of_races(const char *device, const char *part)
{
    struct race_count seen;

    race_take(&seen);
    if (!ok(seen.races == 0 && seen.accesses > 0,
            "%s: no two lanes or blocks meet in %s", device, part))
        tap_diag("%llu races in %llu accesses; %s",
                 (unsigned long long)seen.races,
                 (unsigned long long)seen.accesses, seen.first);
}

/* Runs `parts` on emulated devices of 96 lanes in both orders, and of 64: some
 * kernels divide an even number of warps in another way than an odd one. */
static inline void in_both_orders(void (*parts)(struct device *d,
                                                const char *name))
{
    static const struct {
        const char *name;
        int lanes, reverse;
    } devices[] = {{"race/96", 96, 0}, {"race/96r", 96, 1}, {"race/64", 64, 0}};

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        const char *name = devices[i].name;
        struct device *d = NULL;
        struct error err = ERROR_INIT;
        if (!ok(device_simt_create(devices[i].lanes, devices[i].reverse, &d,
                                   &err) == 0,
                "%s: %s", name, err.msg))
            continue;
        parts(d, name);
        d->ops->destroy(d);
    }
}

#endif
