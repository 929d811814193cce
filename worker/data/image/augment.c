/* augment.c - see augment.h.
 *
 * Try i of the random part takes block i of the stream: area, shape, top,
 * left. Block TRIES decides about mirroring.
 */
#include "worker/data/image/augment.h"

#include <math.h>

enum { TRIES = 10 };

static void philox(const uint32_t key[2], const uint32_t counter[4],
                   uint32_t ret[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int i = 0; i < 10; i++) {
        uint64_t a = 0xd2511f53u * (uint64_t)c0, b = 0xcd9e8d57u * (uint64_t)c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    ret[0] = c0;
    ret[1] = c1;
    ret[2] = c2;
    ret[3] = c3;
}

void augment_view_random(const struct view_draw *draw, uint32_t n,
                         uint32_t ret[4])
{
    uint64_t seed = (uint64_t)draw->seed, epoch = (uint64_t)draw->epoch;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {n, (uint32_t)draw->sample, (uint32_t)epoch,
                                 (uint32_t)(epoch >> 32)};
    philox(key, counter, ret);
}

/* lo..hi, from a word. */
static double between(double lo, double hi, uint32_t word)
{
    return lo + (hi - lo) * (word / 4294967296.0);
}

/* 0..n-1. */
static int32_t below(int32_t n, uint32_t word)
{
    return (int32_t)((uint64_t)word * (uint64_t)n >> 32);
}

/* Rounds as Python's round() does: halves to the even neighbour. */
static double even(double x)
{
    return nearbyint(x);
}

/* No try fits: takes the largest middle part with an allowed shape. */
static void middle_part(int32_t W, int32_t H, struct view *v)
{
    double shape = (double)W / H;
    v->w = W;
    v->h = H;
    if (shape < 3.0 / 4)
        v->h = (int32_t)even(W / (3.0 / 4));
    else if (shape > 4.0 / 3)
        v->w = (int32_t)even(H * (4.0 / 3));
    v->top = (H - v->h) / 2;
    v->left = (W - v->w) / 2;
}

static void random_part(const struct view_draw *draw, int32_t W, int32_t H,
                        struct view *v)
{
    double area = (double)W * H;
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t r[4];
        augment_view_random(draw, i, r);
        double target = area * between(0.08, 1, r[0]);
        double shape = exp(between(log(3.0 / 4), log(4.0 / 3), r[1]));
        double w = even(sqrt(target * shape)), h = even(sqrt(target / shape));
        if (w < 1 || w > W || h < 1 || h > H)
            continue;
        v->w = (int32_t)w;
        v->h = (int32_t)h;
        v->top = below(H - v->h + 1, r[2]);
        v->left = below(W - v->w + 1, r[3]);
        return;
    }
    middle_part(W, H, v);
}

/* The shorter side to S * 8 / 7, the longer in proportion, rounded down;
 * torchvision's CenterCrop rounds halves to even. */
static void centre(int32_t S, int32_t W, int32_t H, struct view *v)
{
    int32_t side = S * 8 / 7;
    v->to_w = W <= H ? side : (int32_t)((int64_t)side * W / H);
    v->to_h = H <= W ? side : (int32_t)((int64_t)side * H / W);
    v->oy = (int32_t)even((v->to_h - S) / 2.0);
    v->ox = (int32_t)even((v->to_w - S) / 2.0);
}

void augment_view_of(const struct view_conf *conf, const struct view_draw *draw,
                     int32_t W, int32_t H, struct view *ret)
{
    uint32_t r[4];
    *ret = (struct view){.h = H, .w = W, .to_h = conf->S, .to_w = conf->S};
    if (conf->augment == AUGMENT_CROP && !conf->is_train)
        centre(conf->S, W, H, ret);
    if (conf->augment == AUGMENT_NONE || !conf->is_train)
        return;
    if (conf->augment == AUGMENT_CROP)
        random_part(draw, W, H, ret);
    augment_view_random(draw, TRIES, r);
    ret->flip = r[0] < 0x80000000u;
}
