/* image_u8.h - geometry of resizing and cropping one image of bytes to S x S
 * values.
 *
 * A part of the image, h x w pixels, is resized to to_h x to_w, and the S x S
 * pixels of that from (oy, ox) on are the result, mirrored when flip is set.
 * Only the pixels that contribute to the result have to be stored: H x W of
 * them, the first being pixel (y0, x0) of the part.
 *
 * Resizing is a triangle filter with half-pixel centres, as wide as an output
 * pixel where the image shrinks, two pixels wide where it grows: bilinear
 * with antialias = True in torchvision and PIL (and no rounding to bytes in
 * between: torchvision's result for an image of floats). Growing, it is the
 * same as without antialias. */
#ifndef MGPU_KERNELS_CV_IMAGE_U8_H
#define MGPU_KERNELS_CV_IMAGE_U8_H

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
    int32_t y0, x0; /* position of the stored pixels in the part */
    int32_t h, w;   /* the part */
    int32_t to_h, to_w, oy, ox;
    int32_t flip;
};

/* Per channel; an image with one channel uses the first. */
struct image_norm {
    double mean[IMAGE_CHANNELS], std[IMAGE_CHANNELS];
};

#ifdef __CUDACC__
#define IMAGE_FN static inline __host__ __device__
#else
#define IMAGE_FN static inline
#endif

/* A colour as one byte: ITU-R 601, in 16 bits of fraction and rounded, as
 * PIL's convert("L"). */
IMAGE_FN uint8_t image_gray(const uint8_t rgb[IMAGE_CHANNELS])
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] +
                      0x8000u) >>
                     16);
}

/* n inputs to `to` outputs. */
struct image_axis {
    int32_t n, to;
    double scale, reach; /* of the filter, in inputs to each side */
};

IMAGE_FN struct image_axis image_axis_of(int32_t n, int32_t to)
{
    struct image_axis a;
    a.n = n;
    a.to = to;
    a.scale = (double)n / (double)to;
    a.reach = a.scale > 1 ? a.scale : 1;
    return a;
}

/* Inputs lo..hi-1 may contribute to output i; the weight of those at the ends
 * may be 0. */
IMAGE_FN void image_taps(const struct image_axis *a, int32_t i, int32_t *lo,
                         int32_t *hi)
{
    double centre = ((double)i + 0.5) * a->scale;
    double first = centre - a->reach + 0.5, end = centre + a->reach + 0.5;
    *lo = first > 0 ? (int32_t)first : 0;
    *hi = end < (double)a->n ? (int32_t)end : a->n;
}

/* Distance from the centre of output i to that of input j, in inputs times 2 *
 * to: a whole number, and 2 * to more for the next input. The weight of an
 * input is 2 * max(n, to) less its distance, so that every device agrees on
 * which inputs have weight 0. */
IMAGE_FN int64_t image_apart(const struct image_axis *a, int32_t i, int32_t j)
{
    return (2 * (int64_t)j + 1) * a->to - (2 * (int64_t)i + 1) * a->n;
}

/* Whether images_u8() stays within src[src_bytes] for this image.
 * err  ERR_INVAL with the bad value */
int image_u8_check(const struct image_u8 *m, int64_t src_bytes, int32_t S,
                   int32_t C, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
