/* prefetch.h - batches in host memory, made ahead of time by threads.
 *
 * A caller puts what it will want and takes it in the same order. What a
 * batch holds depends on what was put alone, not on the threads; only where
 * in the stage a picture lies does. Without threads the work is done when a
 * batch is taken.
 *
 * There is a bounded number of stages. The one taken last stays as it is
 * until the next is taken: its copy to the device must be done by then.
 */
#ifndef MGPU_WORKER_DATA_PREFETCH_H
#define MGPU_WORKER_DATA_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "kernels/device.h"
#include "worker/data/dataset.h"
#include "worker/data/image/augment.h"

struct fetch;

enum { FETCH_STAGES_MAX = 3 };

struct fetch_conf {
    struct view_conf view;
    int32_t batch;   /* the largest n of a put */
    int32_t workers; /* threads; 0: the caller's */
    bool skip_bad;   /* an image that cannot be read gets the label -1 */
    /* The images as they are to be, normalised, [batch, S, S, 3] of dt, in
     * place of their bytes; the list is not filled in. */
    bool floats;
    /* Bytes as [C, H, W] of each image, numbers as [batch, 3, S, S]. */
    bool planar;
    enum dtype dt;
};

/* A stage is one block of memory, to be copied as it is:
 *   label [batch] i32   -1 where there is no image
 *   list  [batch] struct image_u8, at list_at
 *   the images' bytes, at bytes_at
 * It begins and ends with a page: page-locking knows nothing smaller. */
struct prefetch_layout {
    size_t list_at, bytes_at;
    size_t cap; /* of the whole block */
};

struct fetch_ask {
    const int32_t *index; /* samples, or SAMPLER_NONE; copied */
    int32_t n;
    int64_t seed, epoch; /* of what is drawn; see augment.h */
};

struct fetch_batch {
    uint8_t *stage;
    size_t used; /* bytes of it */
    int32_t n, valid;
    int32_t bad;            /* with skip_bad: could not be read */
    struct error first_bad; /* why not, of the first in the batch */
};

struct prefetch_layout prefetch_layout(const struct fetch_conf *conf,
                                       const struct dataset *ds);
/* Bytes that prefetch_create() will take for them. */
int64_t prefetch_bytes(const struct fetch_conf *conf, const struct dataset *ds);

/* The data is borrowed and outlives it.
 * err  ERR_INVAL batch < 1, S < 1; ERR_NOMEM */
int prefetch_create(const struct fetch_conf *conf, const struct dataset *ds,
                    struct fetch **ret, struct error *err) MUST_CHECK;
void prefetch_destroy(struct fetch *f); /* NULL is fine */

/* Address of stage i, to page-lock it; NULL after the last. */
uint8_t *prefetch_stage(const struct fetch *f, int32_t i);

bool prefetch_has_room(const struct fetch *f); /* for one more put */

/* err  ERR_INVAL n < 1, n > batch, or an index outside the data;
 *      ERR_STATE no room */
int prefetch_put(struct fetch *f, const struct fetch_ask *ask,
                 struct error *err) MUST_CHECK;

/* prefetch_take() would not wait for the threads: the oldest batch that was put
 * is whole, or there are none but the caller's. */
bool prefetch_is_ready(struct fetch *f);

/* The oldest batch that was put; waits for it.
 * err  ERR_STATE nothing was put; why an image cannot be read: with skip_bad
 *      only ERR_IO and ERR_NOMEM. The batch is gone. */
int prefetch_take(struct fetch *f, struct fetch_batch *ret,
                  struct error *err) MUST_CHECK;

/* Forgets what was put and not taken. The device is done with the last. */
void prefetch_reset(struct fetch *f);

#endif
