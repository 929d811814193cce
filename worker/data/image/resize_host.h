/* resize_host.h - one image resized on the host, as PyTorch's transforms do it
 * in a DataLoader: for data_path paper, and for comparison. The numbers are
 * those of the device's images_u8(), to rounding.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_RESIZE_HOST_H
#define MGPU_WORKER_DATA_IMAGE_RESIZE_HOST_H

#include "jobs/base/buf.h"
#include "kernels/device.h"

struct floats_conf {
    enum dtype dt;
    int32_t S;
    int32_t C;   /* 1 or IMAGE_CHANNELS, of the result */
    bool planar; /* [C, S, S] in place of [S, S, C] */
    const struct image_norm *norm;
};

/* Bytes of one image. */
size_t resize_floats_bytes(const struct floats_conf *c);

/* out [S, S, C], or with planar [C, S, S], of dt.
 *
 * in   m       as images_u8() has it, but for at; C 0: zeros
 *      pixels  [m->H, m->W, m->C], the rows `stride` bytes apart
 *      room    working memory, to be used again
 * err  ERR_NOMEM */
int floats_resize(const struct floats_conf *c, const struct image_u8 *m,
                  const uint8_t *pixels, size_t stride, struct buf *room,
                  void *out, struct error *err) MUST_CHECK;

#endif
