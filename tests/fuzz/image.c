/* image.c - any bytes as a JPEG or PNG file: refused with a reason, or a
 * sample that is stored whole. The first three bytes choose the view. */
#include "worker/data/image/image_sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct sample_room room;
    struct image_u8 m;
    struct error err = ERROR_INIT;
    const uint8_t *pixels;
    if (size < 3)
        return 0;
    const struct view_conf conf = {.augment = (enum spec_augment)(data[0] % 3),
                                   .is_train = data[0] & 0x80,
                                   .gray = data[0] & 0x40,
                                   .S = 1 + data[1]};
    const struct view_draw draw = {.sample = data[2]};
    if (sample_decode(&room, data + 3, size - 3, &conf, &draw, &m, &pixels,
                      &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0')
            abort();
        return 0;
    }
    int64_t n = (int64_t)m.H * m.W * m.C;
    volatile unsigned sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += pixels[i];
    if ((size_t)n > sample_bytes(&conf) ||
        image_u8_check(&m, n, conf.S, conf.gray ? 1 : IMAGE_CHANNELS, &err) < 0)
        abort();
    return 0;
}
