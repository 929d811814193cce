/* exif.c - see exif.h. Reads one number out of the first directory; whatever
 * does not fit makes the picture upright, as every viewer does. */
#include "worker/data/image/exif.h"

#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY = 12 };

struct tiff {
    const uint8_t *p;
    size_t n;
    bool is_big;
};

static uint32_t u16(const struct tiff *t, size_t at)
{
    const uint8_t *p = t->p + at;
    return t->is_big ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t u32(const struct tiff *t, size_t at)
{
    return t->is_big ? u16(t, at) << 16 | u16(t, at + 2)
                     : u16(t, at + 2) << 16 | u16(t, at);
}

int32_t exif_orientation(const uint8_t *p, size_t n)
{
    if (n >= 6 && memcmp(p, "Exif\0\0", 6) == 0) {
        p += 6;
        n -= 6;
    }
    if (n < 8 || (memcmp(p, "II*\0", 4) != 0 && memcmp(p, "MM\0*", 4) != 0))
        return 1;
    const struct tiff t = {.p = p, .n = n, .is_big = p[0] == 'M'};
    size_t at = u32(&t, 4);
    if (at > n - 2)
        return 1;
    size_t entries = u16(&t, at);
    at += 2;
    for (size_t i = 0; i < entries && n - at >= ENTRY; i++, at += ENTRY) {
        if (u16(&t, at) != TAG_ORIENTATION)
            continue;
        uint32_t v = u16(&t, at + 8);
        bool good = u16(&t, at + 2) == TYPE_SHORT && u32(&t, at + 4) == 1;
        return good && v >= 1 && v <= 8 ? (int32_t)v : 1;
    }
    return 1;
}

struct exif_turn exif_turn(int32_t orientation)
{
    static const struct exif_turn turns[8] = {
        {.swap = false},
        {.x_back = true},
        {.x_back = true, .y_back = true},
        {.y_back = true},
        {.swap = true},
        {.swap = true, .y_back = true},
        {.swap = true, .x_back = true, .y_back = true},
        {.swap = true, .x_back = true},
    };
    return turns[orientation - 1];
}
