/* decode.h - JPEG and PNG to rows of bytes; see decode_jpeg.c, decode_png.c.
 *
 * A decoder pushes rows, top to bottom, into a sink, so that no picture is
 * held whole (but for interlaced PNGs and progressive JPEGs). Colours are as
 * PIL's convert("RGB") gives them: palettes looked up, alpha dropped, 16 bits
 * cut to 8, CMYK taken for Adobe's inverted kind; gray stays one channel.
 *
 * Nothing in a file is trusted. A picture has at most 2^25 pixels and 2^16 - 1
 * on a side; what is cut off or damaged is refused, where PIL refuses it and
 * in a few places (a broken Huffman code) where it does not.
 */
#ifndef MGPU_WORKER_DATA_IMAGE_DECODE_H
#define MGPU_WORKER_DATA_IMAGE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum {
    DECODE_PIXELS_MAX = 1 << 25,
    DECODE_SIDE_MAX = 65535,
    DECODE_BYTES_MAX = 1 << 26, /* of a file */
    DECODE_HALVINGS_MAX = 3
};

struct picture {
    int32_t W, H;        /* as stored */
    int32_t C;           /* 1 gray, 3 red, green, blue */
    int32_t orientation; /* 1..8, exif.h */
    bool can_shrink;     /* while decoding */
};

struct decode_sink {
    void *arg;
    /* Once, before the rows. out ret_halvings: the rows shall be of
     * ceil(W / 2^h) by ceil(H / 2^h) pixels; 0 unless can_shrink. */
    int (*begin)(void *arg, const struct picture *p, int32_t *ret_halvings,
                 struct error *err);
    /* Row y: pixels of C bytes, valid until it returns. false: no more rows
     * are needed. */
    bool (*row)(void *arg, int32_t y, const uint8_t *pixels);
};

/* Detects the format by content, whatever the name.
 * err  ERR_INVAL what is wrong with the file, also ERR_INVAL "not a JPEG or
 *      PNG file"; ERR_LIMIT too large; ERR_NOMEM; begin's
 */
int decode_image(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
                 struct error *err) MUST_CHECK;

int decode_jpeg(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
                struct error *err) MUST_CHECK;
int decode_png(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
               struct error *err) MUST_CHECK;

/* Checks the limits above, for the decoders. */
int decode_check_size(uint32_t W, uint32_t H, struct error *err) MUST_CHECK;

#endif
