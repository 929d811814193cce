/* loader.h - from sample numbers to a batch on the device.
 *
 * The u8 images and labels of the batch are gathered into host staging,
 * copied to the device, and resized and normalised there. All memory is
 * taken at the start; loader_next() allocates nothing. There are two staging
 * buffers, used in turn, because a device may still be reading the one of
 * the previous call: wait for the device at least once per step.
 */
#ifndef MGPU_WORKER_DATA_LOADER_H
#define MGPU_WORKER_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/clock.h"
#include "kernels/device.h"
#include "worker/data/dataset.h"

struct loader;

struct loader_conf {
    enum dtype dt;
    int32_t image_size; /* S */
    int32_t batch;      /* largest count that loader_next() will see */
    bool pin;           /* page-lock the staging, where the device can */
};

struct loader_batch {
    void *x;        /* [n, S, S, 3] T, device */
    int32_t *label; /* [n], device; -1 where the index was SAMPLER_NONE */
    int32_t n;
    int32_t valid; /* how many are real samples */
    double data_s; /* host: gathering */
    double h2d_s;  /* copying to the device and enqueueing the resize */
};

/* Bytes of device memory that loader_create() will take. */
int64_t loader_bytes(const struct loader_conf *conf, const struct dataset *ds);

/* The device, the data and the clock are borrowed and outlive the loader. */
int loader_create(struct device *d, const struct loader_conf *conf,
                  const struct dataset *ds, const struct clock *clock,
                  struct loader **ret, struct error *err) MUST_CHECK;
void loader_destroy(struct loader *l); /* NULL is fine */

/* The batch of index[n]; its pointers are valid until the next call.
 * err  ERR_INVAL n < 1, n > batch, or an index outside the data; the
 *      device's otherwise
 */
int loader_next(struct loader *l, const int32_t *index, int32_t n,
                struct loader_batch *ret, struct error *err) MUST_CHECK;

#endif
