/* loader.h - load the samples of given numbers into a batch on the device.
 *
 * The u8 images and labels of the batch are gathered into host staging
 * (prefetch.h), copied to the device, and resized and normalised there. With
 * `floats` they are resized on the host, by the threads, and copied as
 * numbers of type T at full size, as PyTorch's ToTensor and Resize in a
 * DataLoader have it. With `planar` the host prepares NCHW of either, and the
 * device transposes a batch once. Memory is taken at the start; only decoding
 * a file allocates.
 *
 * Where the device copies beside its work, the next batch is on its way while
 * it computes on this one: loader_ahead(). Elsewhere a device may still be
 * reading the staging of the previous batch: wait for it at least once per
 * step.
 */
#ifndef MGPU_WORKER_DATA_LOADER_H
#define MGPU_WORKER_DATA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/clock.h"
#include "kernels/device.h"
#include "worker/data/dataset.h"
#include "worker/data/prefetch.h"

struct loader;

struct loader_conf {
    enum dtype dt;
    int32_t image_size; /* S */
    int32_t batch;      /* largest count that a batch will have */
    bool gray;          /* one channel, as the data must have then, or files */
    bool pin;           /* page-lock the staging, where the device can */
    enum spec_augment augment;
    bool is_train;
    bool skip_bad;   /* leave out images that cannot be read */
    int32_t workers; /* threads that prepare batches; 0: the caller's */
    bool floats;     /* resize on the host */
    bool planar;     /* each image is copied as one plane per channel */
    bool ahead;      /* the device has send() and the rest */
    int32_t slot;    /* with ahead: slot and slot + 1 are this loader's */
};

struct loader_batch {
    void *x;        /* [n, S, S, 3] T, or gray [n, S, S, 1], device */
    int32_t *label; /* [n], device; -1: no sample, see sampler.h and bad */
    int32_t n;
    int32_t valid;          /* how many are real samples */
    int32_t bad;            /* how many could not be read */
    struct error first_bad; /* why, of the first of these */
    double data_s;          /* host: gathering, or waiting for the threads */
    double h2d_s;           /* copying to the device, enqueueing the resize */
};

/* Bytes of device memory that loader_create() will take. */
int64_t loader_bytes(const struct loader_conf *conf, const struct dataset *ds);

/* Bytes of host memory, beside it: where batches are prepared. */
int64_t loader_host_bytes(const struct loader_conf *conf,
                          const struct dataset *ds);

/* The device, the data and the clock are borrowed and outlive the loader. */
int loader_create(struct device *d, const struct loader_conf *conf,
                  const struct dataset *ds, const struct clock *clock,
                  struct loader **ret, struct error *err) MUST_CHECK;
void loader_destroy(struct loader *l); /* NULL is fine */

/* Threads prepare the batches that are put; see prefetch_put() and
 * prefetch_reset(). */
bool loader_has_room(const struct loader *l);
int loader_put(struct loader *l, const struct fetch_ask *ask,
               struct error *err) MUST_CHECK;
void loader_reset(struct loader *l);

/* With ahead: begins to copy the next batch, if one was put and the threads
 * have finished it. Call it when the device has work to do.
 * err  as loader_take() */
int loader_ahead(struct loader *l, struct error *err) MUST_CHECK;

/* The oldest batch that was put; its pointers are valid until the next call,
 * and with ahead they are the same for every batch.
 * err  why an image cannot be read; the device's otherwise
 */
int loader_take(struct loader *l, struct loader_batch *ret,
                struct error *err) MUST_CHECK;

/* The batch of index[n], when nothing was put ahead: both in one. */
int loader_next(struct loader *l, const int32_t *index, int32_t n,
                struct loader_batch *ret, struct error *err) MUST_CHECK;

#endif
