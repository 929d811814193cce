/* decode.c - see decode.h: which of the two formats, and the limits. */
#include "worker/data/image/decode.h"

#include <string.h>

int decode_check_size(uint32_t W, uint32_t H, struct error *err)
{
    if (W == 0 || H == 0)
        return error_set(err, ERR_INVAL, "the picture is empty");
    if (W > DECODE_SIDE_MAX || H > DECODE_SIDE_MAX ||
        (uint64_t)W * H > DECODE_PIXELS_MAX)
        return error_set(err, ERR_LIMIT,
                         "%u x %u pixels; at most %d, and %d on a side", W, H,
                         DECODE_PIXELS_MAX, DECODE_SIDE_MAX);
    return 0;
}

int decode_image(const uint8_t *bytes, size_t n, const struct decode_sink *sink,
                 struct error *err)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (n == 0)
        return error_set(err, ERR_INVAL, "the file is empty");
    if (n >= sizeof(jpeg) && memcmp(bytes, jpeg, sizeof(jpeg)) == 0)
        return decode_jpeg(bytes, n, sink, err);
    if (n >= sizeof(png) && memcmp(bytes, png, sizeof(png)) == 0)
        return decode_png(bytes, n, sink, err);
    return error_set(err, ERR_INVAL, "not a JPEG or PNG file");
}
