/* synthetic.c - see synthetic.h. */
#include "worker/data/synthetic.h"

#include <stdlib.h>

#include "jobs/base/rng.h"

enum {
    SIDE = 28,
    GRID = 7,  /* fields per side, so 2^49 possible classes */
    FIELD = 6, /* pixels per field: the grid is wider than the image, and
                  what lies outside is cut off as the image moves */
    DARK = 40,
    BRIGHT = 180, /* +- 32 of noise: the classes can be told apart */
    NOISE = 64,
    FIRST_CLASS_SEED = 7000
};

/* The grid of class k, one bit per field. */
static void draw_grid(int32_t k, uint8_t grid[GRID * GRID])
{
    struct rng r;
    rng_seed(&r, FIRST_CLASS_SEED + (uint32_t)k);
    for (int32_t i = 0; i < GRID * GRID; i++)
        grid[i] = rng_u32(&r) >> 31 ? BRIGHT : DARK;
}

static void draw_image(struct rng *r, const uint8_t grid[GRID * GRID],
                       uint8_t *img)
{
    uint32_t bits = rng_u32(r);
    int32_t dy = (int32_t)(bits % 5), dx = (int32_t)(bits / 5 % 5);
    for (int32_t y = 0; y < SIDE; y++) {
        for (int32_t x = 0; x < SIDE; x++) {
            if (x % 4 == 0)
                bits = rng_u32(r); /* noise for four pixels */
            int32_t at = (y + dy) / FIELD * GRID + (x + dx) / FIELD;
            int32_t noise = (int32_t)(bits % NOISE) - NOISE / 2;
            img[y * SIDE + x] = (uint8_t)(grid[at] + noise);
            bits >>= 8;
        }
    }
}

int synthetic_make(int32_t n, int32_t num_classes, uint32_t stream,
                   struct dataset *ret, struct error *err)
{
    const int64_t image = (int64_t)SIDE * SIDE;
    if (n < 1 || num_classes < 1)
        return error_set(err, ERR_INVAL, "%d images in %d classes", n,
                         num_classes);
    if (n > (1LL << 31) / image)
        return error_set(err, ERR_LIMIT, "%d images: more than 2^31 bytes", n);
    ret->images = malloc((size_t)(n * image));
    ret->labels = malloc((size_t)n * sizeof(*ret->labels));
    uint8_t *grids = malloc((size_t)num_classes * GRID * GRID);
    if (!ret->images || !ret->labels || !grids) {
        free(grids);
        return error_set(err, ERR_NOMEM, "%d synthetic images", n);
    }
    for (int32_t k = 0; k < num_classes; k++)
        draw_grid(k, grids + (size_t)k * GRID * GRID);
    struct rng r;
    rng_seed(&r, stream);
    for (int32_t i = 0; i < n; i++) {
        int32_t k = i % num_classes;
        ret->labels[i] = k;
        draw_image(&r, grids + (size_t)k * GRID * GRID,
                   ret->images + i * image);
    }
    free(grids);
    ret->n = n;
    ret->H = ret->W = SIDE;
    ret->C = 1;
    ret->num_classes = num_classes;
    return 0;
}
