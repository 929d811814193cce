/* image_u8.h - how one image of bytes becomes S x S values.
 *
 * A part of the image, h x w pixels, is resized to to_h x to_w, and the S x S
 * pixels of that from (oy, ox) on are the result, mirrored when flip is set.
 * Only the pixels that weigh in the result have to be stored: H x W of them,
 * the first being pixel (y0, x0) of the part.
 *
 * Resizing is a triangle filter with half-pixel centres, as wide as an output
 * pixel where the image shrinks, two pixels wide where it grows: bilinear
 * with antialias = True in torchvision and PIL (and no rounding to bytes in
 * between: torchvision's result for an image of floats). Growing, it is the
 * same as without antialias.
 */
#ifndef MGPU_KERNELS_IMAGE_U8_H
#define MGPU_KERNELS_IMAGE_U8_H

#include <stdint.h>

#include "jobs/base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    IMAGE_CHANNELS = 3,
    IMAGE_SIDE_MAX = 1 << 16, /* of h and w */
    IMAGE_TO_MAX = 1 << 27    /* of to_h and to_w */
};

struct image_u8 {
    int64_t at;     /* its first byte in src */
    int32_t H, W;   /* as stored: rows, and columns of C bytes */
    int32_t C;      /* 1 or IMAGE_CHANNELS, interleaved; 0: no image, the
                       result is 0 */
    int32_t y0, x0; /* where in the part the stored pixels begin */
    int32_t h, w;   /* the part */
    int32_t to_h, to_w, oy, ox;
    int32_t flip;
};

/* Per channel; of one channel the first counts. */
struct image_norm {
    double mean[IMAGE_CHANNELS], std[IMAGE_CHANNELS];
};

#ifdef __CUDACC__
#define IMAGE_FN static inline __host__ __device__
#else
#define IMAGE_FN static inline
#endif

/* The inputs lo..hi-1 of n may weigh in output i of `to`. Weights are whole
 * numbers, so that every device agrees on them: of input j it is
 * image_weight(), and 0 at the ends of the filter, where lo and hi may be
 * one off. */
IMAGE_FN void image_taps(int32_t i, int32_t n, int32_t to, int32_t *lo,
                         int32_t *hi)
{
    double scale = (double)n / (double)to;
    double centre = ((double)i + 0.5) * scale;
    double reach = scale > 1 ? scale : 1;
    double first = centre - reach + 0.5, end = centre + reach + 0.5;
    *lo = first > 0 ? (int32_t)first : 0;
    *hi = end < (double)n ? (int32_t)end : n;
}

/* 2 max(n, to) where the centres meet, falling to 0 at the filter's ends. */
IMAGE_FN int64_t image_weight(int32_t j, int32_t i, int32_t n, int32_t to)
{
    int64_t apart = (2 * (int64_t)j + 1) * to - (2 * (int64_t)i + 1) * n;
    int64_t most = 2 * (int64_t)(n > to ? n : to);
    apart = apart < 0 ? -apart : apart;
    return apart < most ? most - apart : 0;
}

/* Whether images_u8() stays within src[src_bytes] for it.
 * err  ERR_INVAL what is wrong */
int image_u8_check(const struct image_u8 *m, int64_t src_bytes, int32_t S,
                   int32_t C, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
