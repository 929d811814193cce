/* exif.h - the orientation in which a camera held a picture. */
#ifndef MGPU_WORKER_DATA_IMAGE_EXIF_H
#define MGPU_WORKER_DATA_IMAGE_EXIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The orientation, 1..8, in an EXIF block: the TIFF header and what follows,
 * as in a PNG's eXIf chunk, or with "Exif\0\0" before it, as in a JPEG's
 * APP1. 1, upright, when there is none or the block is damaged.
 * src CIPA DC-008-2012, 4.6.2 and tag 0x0112 */
int32_t exif_orientation(const uint8_t *p, size_t n);

/* How a stored picture is turned upright. */
struct exif_turn {
    bool swap;           /* its columns become rows */
    bool x_back, y_back; /* its columns, rows run the other way */
};
struct exif_turn exif_turn(int32_t orientation);

#endif
