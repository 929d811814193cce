/* image.c - bytes to values: parts, sizes, windows, mirrored or not; planes to
 * pixels. */
#include "tests/unit/kernels/contract/bed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static const struct image_norm norm = {.mean = {0.485, 0.456, 0.406},
                                       .std = {0.229, 0.224, 0.225}};

/* The share of input j in output i: ATen's upsample_bilinear2d_aa, with every
 * input looked at instead of those that can weigh. */
static double share(int32_t j, int32_t i, int32_t n, int32_t to)
{
    double scale = (double)n / to, wide = fmax(scale, 1), sum = 0, mine = 0;
    for (int32_t k = 0; k < n; k++) {
        double x = fabs((k + 0.5 - scale * (i + 0.5)) / wide);
        double w = x < 1 ? 1 - x : 0;
        sum += w;
        mine = k == j ? w : mine;
    }
    return mine / sum;
}

/* Channel c of the result at (oy, ox); only stored pixels are read. */
static double reference(const struct image_u8 *m, const uint8_t *src, int32_t S,
                        int32_t oy, int32_t ox, int32_t c)
{
    double v = 0;
    if (m->C == 0)
        return 0;
    ox = m->flip ? S - 1 - ox : ox;
    for (int32_t y = m->y0; y < m->y0 + m->H; y++) {
        double wy = share(y, oy + m->oy, m->h, m->to_h);
        for (int32_t x = m->x0; wy > 0 && x < m->x0 + m->W; x++) {
            int64_t at = ((int64_t)(y - m->y0) * m->W + (x - m->x0)) * m->C;
            v += wy * share(x, ox + m->ox, m->w, m->to_w) *
                 src[m->at + at + (m->C > 1 ? c : 0)];
        }
    }
    return (v / 255 - norm.mean[c]) / norm.std[c];
}

enum { SRC = 40000 };

static void resize_all(struct bed *b, struct image_u8 *list, int32_t N,
                       int32_t S, int32_t C, const char *what)
{
    unsigned char *src = malloc(SRC);
    size_t list_bytes = (size_t)N * sizeof(*list);
    void *p = NULL, *q = NULL;
    struct tensor x = tensor_make(b, (int64_t)N * S * S * C, 7, 8);
    double *want = zeros(x.n);
    struct error err = ERROR_INIT;
    int bad = 0;

    for (int64_t i = 0; i < SRC; i++)
        src[i] = (unsigned char)bed_uniform(b, 0, 256);
    for (int32_t i = 0; i < N; i++)
        bad += image_u8_check(&list[i], SRC, S, C, &err) < 0;
    ok(bad == 0, "%s: the images are stored whole %s", what, err.msg);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t pixel = i / C;
        want[i] =
            reference(&list[pixel / S / S], src, S, (int32_t)(pixel / S % S),
                      (int32_t)(pixel % S), (int32_t)(i % C));
    }
    must(b->d->ops->alloc(b->d, SRC, &p, ERR));
    must(b->d->ops->alloc(b->d, list_bytes, &q, ERR));
    must(b->d->ops->to_device(b->d, p, src, SRC, ERR));
    must(b->d->ops->to_device(b->d, q, list, list_bytes, ERR));
    must(b->d->ops->images_u8(b->d, b->dt, x.p, p, q, N, S, C, &norm, ERR));
    near(&x, want, "images_u8 %s: %d to %d, %d channels", what, N, S, C);
    free(want);
    free(src);
    b->d->ops->release(b->d, q);
    b->d->ops->release(b->d, p);
    tensor_drop(&x);
}

/* All of an H x W image to S x S. */
static struct image_u8 whole(int32_t H, int32_t W, int32_t C, int32_t S)
{
    return (struct image_u8){
        .H = H, .W = W, .C = C, .h = H, .w = W, .to_h = S, .to_w = S};
}

static void resize_whole(struct bed *b, int32_t N, int32_t H, int32_t W,
                         int32_t C, int32_t S)
{
    struct image_u8 list[8];
    char what[64];
    for (int32_t i = 0; i < N; i++) {
        list[i] = whole(H, W, C, S);
        list[i].at = (int64_t)i * H * W * C;
    }
    (void)snprintf(what, sizeof(what), "%dx%dx%d", H, W, C);
    resize_all(b, list, N, S, C > 1 ? C : IMAGE_CHANNELS, what);
}

/* Sizes, channels, parts and windows of their own in one batch. */
static void mixed(struct bed *b)
{
    enum { S = 9 };
    struct image_u8 list[] = {
        whole(20, 30, 3, S),
        whole(9, 9, 1, S),
        {.C = 0},
        whole(4, 5, 3, S),
        /* the centre of 16 x 12 of 31 x 40 pixels: rows 7..23 are read */
        {.at = 4001,
         .H = 31,
         .W = 40,
         .C = 3,
         .h = 31,
         .w = 40,
         .to_h = 12,
         .to_w = 16,
         .oy = 2,
         .ox = 3},
        /* the same, of which only what is needed is stored */
        {.at = 9000,
         .H = 29,
         .W = 30,
         .C = 3,
         .y0 = 2,
         .x0 = 5,
         .h = 31,
         .w = 40,
         .to_h = 12,
         .to_w = 16,
         .oy = 2,
         .ox = 3},
        whole(13, 7, 3, S),
        whole(1, 1, 1, S),
    };
    list[3].flip = list[5].flip = 1;
    resize_all(b, list, 8, S, IMAGE_CHANNELS, "mixed");
}

/* Of the same size the bytes come through as they are. */
static void identity(struct bed *b)
{
    struct image_u8 m = whole(16, 16, 3, 16);
    struct image_norm none = {.std = {1 / 255.0, 1 / 255.0, 1 / 255.0}};
    unsigned char src[16 * 16 * 3];
    void *p = NULL, *q = NULL;
    struct tensor x = tensor_make(b, sizeof(src), 7, 8);
    double *want = zeros(x.n);

    for (size_t i = 0; i < sizeof(src); i++)
        want[i] = src[i] = (unsigned char)bed_uniform(b, 0, 256);
    must(b->d->ops->alloc(b->d, sizeof(src), &p, ERR));
    must(b->d->ops->alloc(b->d, sizeof(m), &q, ERR));
    must(b->d->ops->to_device(b->d, p, src, sizeof(src), ERR));
    must(b->d->ops->to_device(b->d, q, &m, sizeof(m), ERR));
    must(b->d->ops->images_u8(b->d, b->dt, x.p, p, q, 1, 16, 3, &none, ERR));
    same(&x, want, "images_u8 of the same size changes nothing");
    free(want);
    b->d->ops->release(b->d, q);
    b->d->ops->release(b->d, p);
    tensor_drop(&x);
}

/* One image from planes to pixels. */
static void move(unsigned char *y, const unsigned char *x, size_t size,
                 int64_t pixels, int32_t C)
{
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < C; c++)
            memcpy(y + (size_t)(p * C + c) * size,
                   x + (size_t)(c * pixels + p) * size, size);
}

/* The op on x, bytes of them, gives want. */
static void moved(struct bed *b, size_t size, const unsigned char *x,
                  const unsigned char *want, size_t bytes, const void *list,
                  int32_t N, int64_t pixels, int32_t C)
{
    unsigned char *y = calloc(bytes, 1);
    void *p = NULL, *q = NULL;

    must(b->d->ops->alloc(b->d, bytes, &p, ERR));
    must(b->d->ops->alloc(b->d, bytes, &q, ERR));
    must(b->d->ops->to_device(b->d, p, x, bytes, ERR));
    must(b->d->ops->to_device(b->d, q, y, bytes, ERR));
    must(b->d->ops->nchw_to_nhwc(b->d, size, q, p, list, N, pixels, C, ERR));
    must(b->d->ops->to_host(b->d, y, q, bytes, ERR));
    ok(memcmp(y, want, bytes) == 0,
       "nchw_to_nhwc %s, %s: %d of %lld pixels, %d channels, %zu bytes each%s",
       b->name, dtype_name(b->dt), N, (long long)pixels, C, size,
       list ? ", by a list" : "");
    b->d->ops->release(b->d, q);
    b->d->ops->release(b->d, p);
    free(y);
}

static void planes_alike(struct bed *b, int32_t N, int64_t pixels, int32_t C)
{
    const size_t size = dtype_bytes(b->dt);
    const size_t image = (size_t)pixels * (size_t)C * size;
    unsigned char *x = malloc((size_t)N * image);
    unsigned char *want = malloc((size_t)N * image);
    for (size_t i = 0; i < (size_t)N * image; i++)
        x[i] = (unsigned char)bed_uniform(b, 0, 256);
    for (int32_t i = 0; i < N; i++)
        move(want + (size_t)i * image, x + (size_t)i * image, size, pixels, C);
    moved(b, size, x, want, (size_t)N * image, NULL, N, pixels, C);
    free(want);
    free(x);
}

/* Images of their own sizes, not in order, with gaps between them. */
static void planes_listed(struct bed *b)
{
    struct image_u8 list[] = {{.at = 5000, .H = 40, .W = 57, .C = 3},
                              {.at = 7, .H = 9, .W = 11, .C = 1},
                              {.C = 0},
                              {.at = 200, .H = 1, .W = 1, .C = 3},
                              {.at = 301, .H = 17, .W = 3, .C = 3}};
    unsigned char x[12000], want[sizeof(x)] = {0};
    void *p = NULL;
    for (size_t i = 0; i < sizeof(x); i++)
        x[i] = (unsigned char)bed_uniform(b, 0, 256);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        move(want + list[i].at, x + list[i].at, 1,
             (int64_t)list[i].H * list[i].W, list[i].C);
    must(b->d->ops->alloc(b->d, sizeof(list), &p, ERR));
    must(b->d->ops->to_device(b->d, p, list, sizeof(list), ERR));
    moved(b, 1, x, want, sizeof(x), p, 5, 1, 0);
    moved(b, 1, x, want, sizeof(x), p, 5, 5000, 0);
    b->d->ops->release(b->d, p);
}

static void check_refuses(void)
{
    struct error err = ERROR_INIT;
    struct image_u8 good = whole(8, 8, 3, 4), m;
    is_int(image_u8_check(&good, 192, 4, 3, &err), 0, "an image that fits");
#define BAD(change)                                                       \
    do {                                                                  \
        m = good;                                                         \
        change;                                                           \
        is_int(image_u8_check(&m, 192, 4, 3, &err), -1, "bad: " #change); \
    } while (0)
    BAD(m.at = 1);
    BAD(m.at = -1);
    BAD(m.H = 7);
    BAD(m.H = INT32_MAX);
    BAD(m.C = 2);
    BAD(m.y0 = 1);
    BAD(m.x0 = -1);
    BAD(m.w = 0);
    BAD(m.h = IMAGE_SIDE_MAX + 1);
    BAD(m.to_h = 3);
    BAD(m.to_w = IMAGE_TO_MAX + 1);
    BAD(m.oy = 1);
    BAD(m.ox = INT32_MAX);
    BAD(m.oy = -1);
#undef BAD
}

void contract_image(struct bed *b)
{
    resize_whole(b, 2, 28, 28, 1, 32);
    resize_whole(b, 1, 28, 28, 1, 28);
    resize_whole(b, 2, 13, 7, 3, 5);
    resize_whole(b, 3, 1, 1, 3, 4);
    resize_whole(b, 1, 5, 9, 3, 1);
    resize_whole(b, 1, 100, 130, 3, 12);
    mixed(b);
    identity(b);
    if (!b->small)
        resize_whole(b, 8, 28, 28, 1, 96);
    planes_alike(b, 3, 49, 3);
    planes_alike(b, 2, 2049, 3);
    planes_alike(b, 2, 1, 3);
    planes_alike(b, 2, 25, 1);
    planes_listed(b);
    check_refuses();
}
