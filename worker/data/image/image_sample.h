/* image_sample.h - turn one picture file into the bytes that a batch needs.
 *
 * Of the picture only the pixels that weigh in the sample are kept. One that
 * is larger than needed is reduced first: a JPEG by 2, 4 or 8 as it is
 * decoded, then by the mean of whole rectangles, never below what the view is
 * resized to. So a sample has at most sample_bytes() bytes, and resizing on
 * the device has at most four inputs per output along an axis.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_IMAGE_SAMPLE_H
#define MGPU_WORKER_DATA_IMAGE_IMAGE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "kernels/cv/image_u8.h"
#include "worker/data/image/augment.h"

/* The memory that one thread works in; zeroed to begin with. */
struct sample_room {
    struct buf file, pixels, sums, place, gray;
};
void sample_room_clear(struct sample_room *r); /* NULL and zeroed are fine */

/* Bytes that one sample takes at most. */
size_t sample_bytes(const struct view_conf *conf);

/* out  ret         but for at, which is the caller's
 *      ret_pixels  [H, W, C], in the room; valid until its next use
 * err  ERR_NOTFOUND, ERR_INVAL, ERR_LIMIT, ERR_IO, ERR_NOMEM "path: why"
 */
int sample_read(struct sample_room *room, const char *path,
                const struct view_conf *conf, const struct view_draw *draw,
                struct image_u8 *ret, const uint8_t **ret_pixels,
                struct error *err) MUST_CHECK;

/* The same of a file's bytes; the message names no file. */
int sample_decode(struct sample_room *room, const uint8_t *bytes, size_t n,
                  const struct view_conf *conf, const struct view_draw *draw,
                  struct image_u8 *ret, const uint8_t **ret_pixels,
                  struct error *err) MUST_CHECK;

#endif
