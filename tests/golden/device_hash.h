/* device_hash.h - a hash of bytes on a device, to compare every byte with a
 * golden file. */
#ifndef MGPU_TESTS_DEVICE_HASH_H
#define MGPU_TESTS_DEVICE_HASH_H

#include <stdlib.h>

#include "kernels/device.h"
#include "tests/tap.h"

/* FNV-1a of 64 bits; ret[2]: its upper and its lower half. For tests only: a
 * failure ends the program. */
static inline void device_hash(struct device *d, const void *at, size_t bytes,
                               double *ret)
{
    struct error err = ERROR_INIT;
    unsigned char *host = malloc(bytes);
    uint64_t h = 14695981039346656037u;
    if (!host || d->ops->to_host(d, host, at, bytes, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ host[i]) * 1099511628211u;
    ret[0] = (double)(h >> 32);
    ret[1] = (double)(h & 0xffffffffu);
    free(host);
}

#endif
