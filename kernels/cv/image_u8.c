/* image_u8.c - check the geometry of an image of bytes; see image_u8.h. */
#include "kernels/cv/image_u8.h"

#include <stdbool.h>

/* Whether outputs o..o+S-1 of `to` depend on stored inputs only. */
static bool fits_axis(int32_t stored, int32_t from, int32_t n, int32_t to,
                      int32_t o, int32_t S)
{
    int32_t lo, hi, last;
    if (n < 1 || n > IMAGE_SIDE_MAX || to < 1 || to > IMAGE_TO_MAX || o < 0 ||
        S < 1 || o > to - S || stored < 1 || from < 0)
        return false;
    const struct image_axis a = image_axis_of(n, to);
    image_taps(&a, o, &lo, &hi);
    image_taps(&a, o + S - 1, &last, &hi);
    return lo >= from && hi <= from + (int64_t)stored;
}

int image_u8_check(const struct image_u8 *m, int64_t src_bytes, int32_t S,
                   int32_t C, struct error *err)
{
    if (m->C == 0)
        return 0;
    if ((m->C != 1 && m->C != C) ||
        !fits_axis(m->H, m->y0, m->h, m->to_h, m->oy, S) ||
        !fits_axis(m->W, m->x0, m->w, m->to_w, m->ox, S) || m->at < 0 ||
        m->at > src_bytes || (int64_t)m->H * m->W > (src_bytes - m->at) / m->C)
        return error_set(err, ERR_INVAL,
                         "image: %d x %d x %d at (%d, %d) of %d x %d, to %d x "
                         "%d, %d from (%d, %d)",
                         m->H, m->W, m->C, m->y0, m->x0, m->h, m->w, m->to_h,
                         m->to_w, S, m->oy, m->ox);
    return 0;
}
