/* data_view.c - which part of a picture is seen: torchvision's own choice
 * from the same random words; and which way up it is. */
#include "worker/data/image/augment.h"

#include <string.h>

#include "kernels/cv/image_u8.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "worker/data/image/exif.h"

/* Salmon's known answer, with our arrangement of key and counter. */
static void test_random(const struct golden *g)
{
    const struct view_draw draw = {.seed = 0x299f31d0a4093822,
                                   .epoch = 0x0370734413198a2e,
                                   .sample = (int32_t)0x85a308d3};
    uint32_t r[4];
    double got[4];
    augment_view_random(&draw, 0x243f6a88, r);
    for (int i = 0; i < 4; i++)
        got[i] = r[i];
    golden_is(g, "philox", got, 4, 0);
    ok(r[0] == 0xd16cfe09 && r[3] == 0x24126ea1, "as Random123 has it");
}

static void test_crops(const struct golden *g)
{
    static const int32_t shapes[][2] = {{224, 224}, {40, 50},  {375, 500},
                                        {60, 700},  {700, 60}, {1, 1}};
    static const struct view_draw draws[] = {
        {0, 0, 0}, {1, 0, 0}, {1, 5, 17}, {(1LL << 33) + 9, 2, 3}};
    const struct view_conf conf = {
        .augment = AUGMENT_CROP, .is_train = true, .S = 28};
    for (int i = 0; i < 6 * 4; i++) {
        const struct view_draw *d = &draws[i % 4];
        int32_t H = shapes[i / 4][0], W = shapes[i / 4][1];
        struct view v;
        char line[96];
        augment_view_of(&conf, d, W, H, &v);
        (void)snprintf(line, sizeof(line), "crop %d %d %lld %lld %d", H, W,
                       (long long)d->seed, (long long)d->epoch, d->sample);
        const double got[] = {v.top, v.left, v.h, v.w, v.flip};
        golden_is(g, line, got, 5, 0);
    }
}

/* Over many samples: in the picture, of the allowed shapes and areas, and
 * about half of them mirrored. */
static void test_bounds(void)
{
    const struct view_conf conf = {
        .augment = AUGMENT_CROP, .is_train = true, .S = 32};
    bool inside = true, shaped = true;
    int32_t flips = 0;
    double area = 0;
    for (int32_t i = 0; i < 4000; i++) {
        const struct view_draw draw = {.seed = 7, .sample = i};
        struct view v;
        augment_view_of(&conf, &draw, 320, 240, &v);
        inside = inside && v.top >= 0 && v.left >= 0 && v.h >= 1 && v.w >= 1 &&
                 v.top + v.h <= 240 && v.left + v.w <= 320 && v.to_h == 32 &&
                 v.to_w == 32 && v.oy == 0 && v.ox == 0;
        double share = (double)v.h * v.w / (320 * 240);
        shaped = shaped && share > 0.07 && share < 1.01 && v.w < 1.36 * v.h &&
                 v.h < 1.36 * v.w;
        area += share;
        flips += v.flip;
    }
    ok(inside, "parts are inside the picture");
    ok(shaped, "of the allowed shapes and areas");
    ok(flips > 1800 && flips < 2200, "%d of 4000 are mirrored", flips);
    ok(area / 4000 > 0.4 && area / 4000 < 0.6, "and half of the area is seen");
}

static void test_others(void)
{
    struct view_conf conf = {
        .augment = AUGMENT_NONE, .is_train = true, .S = 224};
    struct view_draw draw = {.seed = 1};
    struct view v, w;
    augment_view_of(&conf, &draw, 500, 375, &v);
    const struct view all = {.h = 375, .w = 500, .to_h = 224, .to_w = 224};
    ok(memcmp(&v, &all, sizeof(v)) == 0, "none: all of the picture");
    conf.augment = AUGMENT_FLIP;
    int32_t flips = 0;
    for (draw.sample = 0; draw.sample < 64; draw.sample++) {
        augment_view_of(&conf, &draw, 500, 375, &v);
        flips += v.flip;
    }
    ok(flips > 16 && flips < 48 && v.h == 375 && v.to_h == 224,
       "flip: some are mirrored");
    conf.is_train = false;
    augment_view_of(&conf, &draw, 500, 375, &v);
    ok(memcmp(&v, &all, sizeof(v)) == 0, "but not in evaluation");
    conf.augment = AUGMENT_CROP;
    augment_view_of(&conf, &draw, 500, 375, &v);
    const struct view middle = {
        .h = 375, .w = 500, .to_h = 256, .to_w = 341, .oy = 16, .ox = 58};
    ok(memcmp(&v, &middle, sizeof(v)) == 0,
       "crop: the middle of the shorter side at 256");
    conf.is_train = true;
    augment_view_of(&conf, &draw, 500, 375, &v);
    augment_view_of(&conf, &draw, 500, 375, &w);
    ok(memcmp(&v, &w, sizeof(v)) == 0, "the same sample twice is the same");
    draw.epoch = 1;
    augment_view_of(&conf, &draw, 500, 375, &w);
    ok(memcmp(&v, &w, sizeof(v)) != 0, "in another epoch it is not");
}

/* The upright picture of 0..5 in two rows of three, read through exif_turn. */
static void test_turns(const struct golden *g)
{
    for (int32_t o = 1; o <= 8; o++) {
        struct exif_turn t = exif_turn(o);
        int32_t h = t.swap ? 3 : 2, w = t.swap ? 2 : 3;
        double got[8] = {h, w};
        char line[32];
        for (int32_t y = 0; y < 2; y++) {
            for (int32_t x = 0; x < 3; x++) {
                int32_t a = t.x_back ? 2 - x : x, b = t.y_back ? 1 - y : y;
                got[2 + (t.swap ? a * w + b : b * w + a)] = y * 3 + x;
            }
        }
        (void)snprintf(line, sizeof(line), "turned %d", o);
        golden_is(g, line, got, 8, 0);
    }
}

static void test_exif(void)
{
    static const uint8_t big[] = {'M', 'M', 0, '*', 0, 0, 0, 8, 0, 2, 1,    0,
                                  0,   3,   0, 0,   0, 1, 0, 9, 0, 0, 1,    18,
                                  0,   3,   0, 0,   0, 1, 0, 6, 0, 0, 0xff, 0};
    static const uint8_t little[] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0,
                                     8,   0,   0,   0,   1, 0, 18,  1,   3,   0,
                                     1,   0,   0,   0,   3, 0, 0,   0};
    uint8_t bad[sizeof(big)];
    is_int(exif_orientation(big, sizeof(big)), 6, "the second entry, Motorola");
    is_int(exif_orientation(little, sizeof(little)), 3, "Intel, in an APP1");
    bool upright = true;
    for (size_t n = 0; n < 34; n++)
        upright = upright && exif_orientation(big, n) == 1;
    ok(upright, "cut off anywhere it is upright");
    is_int(exif_orientation(big, 34), 6, "the end of the entry is enough");
#define WITH(at, v)                                                          \
    do {                                                                     \
        memcpy(bad, big, sizeof(bad));                                       \
        bad[at] = (v);                                                       \
        is_int(exif_orientation(bad, sizeof(bad)), 1, "byte " #at " = " #v); \
    } while (0)
    WITH(0, 'I');
    WITH(3, 0);
    WITH(4, 0xff); /* a directory far behind the end */
    WITH(7, 34);
    WITH(9, 1); /* fewer entries than there are */
    WITH(25, 4);
    WITH(29, 2);
    WITH(31, 0);
    WITH(31, 9);
#undef WITH
}

int main(void)
{
    struct golden g;
    golden_open(&g, "tests/golden/images.txt");
    test_random(&g);
    test_crops(&g);
    test_bounds();
    test_others();
    test_turns(&g);
    test_exif();
    golden_close(&g);
    return tap_done();
}
