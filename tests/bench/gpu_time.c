/* gpu_time.c - see gpu_time.h.
 *
 * A launch takes a constant, and the longest of its bytes at the bandwidth that
 * it reaches, its instructions at the rate that it reaches, and what belongs to
 * its kind: a library's product its multiplications on the multiprocessors that
 * have a tile, attention its products and what is beside them one after the
 * other. */
#include "tests/bench/gpu_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/error.h"
#include "kernels/exec/exec_cuda.h"

/* ---- constants --------------------------------------------------------------
 */
/* src  NVIDIA's data sheets of the H100 and H200 SXM: 3.35 and 4.8 TB/s, of
 *      which a copy reaches some 90 %; a scheduler issues an instruction of a
 *      warp per cycle, at 1.755 GHz. The shares are estimates for kernels of
 *      this kind, to be replaced by measurements. */
enum { SCHEDULERS = 4, WARP = 32 };
const char *const card_names[CARDS] = {"H100", "H200"};
static const double bandwidth[CARDS] = {3.0e12, 4.3e12};
static const double clock_hz = 1.755e9;
static const double launch_s = 2e-6;
static const double stream_share = 0.85; /* of the bandwidth, rows */
/* Of images: products on tensor cores, a library's gradient of weights with
 * split sums, ours with shares of rows in registers, and of these the stem's
 * with rows of no 16 bytes. */
static const double product_share = 0.75, weights_share = 0.4,
                    back_share = 0.65, odd_share = 0.7;
/* Instructions; and what 1x1 products reach if they are as far from it as
 * products of this size with 16 warps on a multiprocessor often are: of the
 * bandwidth 60 %, with 8 to 16 KB in flight where 26 would be needed, of the
 * issue slots 58 %. */
static const double issue_share = 0.7;
static const double careful_share = 0.6, careful_issue = 0.58;
/* Of text: a library's product in bf16 on random data, taken as what one
 * reaches whose best tile has this share of full waves; carefully, as what one
 * reaches whose waves are all full. A product that reads more than it computes.
 */
static const double product_flop_s = 700e12, best_tile = 0.97;
static const double skinny_share = 0.55;
enum { SKINNY = 48 };
/* src  NVIDIA's data sheet: 989 TFLOP/s in bf16, at 1.83 GHz 1,024 per cycle
 *      and scheduler; Luo et al. 2024, arXiv:2402.13499: on an H100 mma.sync
 *      reaches 62.9 % of the limit, that of wgmma */
static const double mma_flop = 2 * 16 * 8 * 16, mma_cycle_flop = 1024,
                    mma_share = 0.629;

/* ---- machine code -----------------------------------------------------------
 */

int facts_read(struct facts *ret, const char *path, struct error *err)
{
    FILE *f = fopen(path, "r");
    struct facts all = {.n = 0};
    struct fact one;
    char line[256];

    if (f == NULL)
        return error_set(err, ERR_IO, "'%s' cannot be opened", path);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%95s %*d %*d %lf %lf %lf %lf %lf %lf", one.kernel,
                   &one.instructions, &one.stored, &one.loaded, &one.path,
                   &one.fetch, &one.mma) != 7)
            continue;
        struct fact *more = realloc(all.at, (all.n + 1) * sizeof(*all.at));
        if (more == NULL)
            break;
        all.at = more;
        all.at[all.n++] = one;
    }
    (void)fclose(f);
    if (all.n == 0)
        return error_set(err, ERR_INVAL,
                         "'%s' names no kernel: it is to be what "
                         "tests/lint/sass.sh --facts prints",
                         path);
    *ret = all;
    return 0;
}

void facts_clear(struct facts *f)
{
    free(f->at);
    *f = (struct facts){.n = 0};
}

static int find(const struct facts *f, const struct step_launch *l,
                const struct fact **ret, struct error *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->at[i].kernel, l->kernel) == 0) {
            *ret = &f->at[i];
            return 0;
        }
    return error_set(err, ERR_NOTFOUND,
                     "the machine code has no kernel '%s', which a step "
                     "launches: build the objects again",
                     l->kernel);
}

/* Instructions for each value that the hot loop stores, or else loads. */
static int per_value(const struct facts *f, const struct step_launch *l,
                     double *ret, struct error *err)
{
    const struct fact *x = NULL;

    if (find(f, l, &x, err) < 0)
        return -1;
    const double bytes = x->stored > 0 ? x->stored : x->loaded;
    *ret = bytes > 0 ? x->instructions * l->op.value / bytes : 0;
    return 0;
}

/* The share of a block's lanes that have work: vectors of a row first, then
 * rows (struct rect of kernels/exec/exec.h). */
static double busy_lanes(const struct step_launch *l, int32_t columns)
{
    const char *comma = strchr(l->kernel, ',');
    long width = comma != NULL ? strtol(comma + 1, NULL, 10) : 0;
    const long tiles = columns / (width > 0 ? width : 1);

    if (tiles < 1)
        return 1;
    if (tiles <= CUDA_LANES)
        return (double)(CUDA_LANES / tiles * tiles) / CUDA_LANES;
    return (double)tiles /
           (double)((tiles + CUDA_LANES - 1) / CUDA_LANES * CUDA_LANES);
}

/* ---- products of a library --------------------------------------------------
 */

/* The share of multiplications in tiles of tall x wide that are wanted, where
 * each multiprocessor makes a tile at a time. */
static double full_waves(const struct step_launch *l, double tall, double wide)
{
    const double tiles = ceil((double)l->m / tall) * ceil((double)l->n / wide);

    return (double)l->m * (double)l->n /
           (ceil(tiles / STEP_SMS) * STEP_SMS * tall * wide);
}

/* With the best of four tiles, of which the smaller reach less. */
static double product_s(const struct step_launch *l, const struct traffic *t,
                        enum estimate e)
{
    static const struct {
        double tall, wide, reaches;
    } tiles[] = {
        {128, 256, 1}, {256, 128, 1}, {128, 192, 0.97}, {128, 128, 0.93}};
    double best = 0;

    for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++)
        best = fmax(best, tiles[i].reaches *
                              full_waves(l, tiles[i].tall, tiles[i].wide));
    return t->flop /
           (product_flop_s * (e == CAREFUL ? best : fmin(1, best / best_tile)));
}

static bool is_skinny(const struct step_launch *l)
{
    return l->m <= SKINNY || l->n <= SKINNY || l->k <= SKINNY;
}

/* ---- attention --------------------------------------------------------------
 */

/* Two warps of a scheduler and a barrier per tile overlap little: products come
 * one after the other with what is beside them. */
static int tiles_time(const struct facts *f, const struct step_launch *l,
                      const struct traffic *t, struct total *to, double *ret_s,
                      struct error *err)
{
    const struct fact *x = NULL;

    if (find(f, l, &x, err) < 0)
        return -1;
    const double tiles = t->pairs / t->lane_pairs / WARP;
    const double beside = x->path + x->fetch * t->fetches - x->mma;
    const double mma_cycles = mma_flop / (mma_cycle_flop * mma_share);
    const double others = tiles * beside + t->beside;
    const double cycles = tiles * x->mma * mma_cycles + others / issue_share;
    to->instructions = tiles * x->mma + others;
    to->flop = tiles * x->mma * mma_flop;
    *ret_s = t->uneven * cycles / (STEP_SMS * SCHEDULERS * clock_hz);
    return 0;
}

/* ---- time -------------------------------------------------------------------
 */

static double share_of(const struct step_launch *l, const struct traffic *t)
{
    const double odd = t->is_odd ? odd_share : 1;

    if (l->vocab > 0 && t->role == ROLE_PRODUCT)
        return is_skinny(l) ? skinny_share : stream_share;
    switch (t->role) {
    case ROLE_PRODUCT:
        return odd * product_share;
    case ROLE_WEIGHTS:
        return odd * weights_share;
    case ROLE_BACK:
        return odd * back_share;
    case ROLE_STREAM:
    case ROLE_SUMS:
    case ROLE_TILES:
        break;
    }
    return stream_share;
}

double card_copies(int card)
{
    return bandwidth[card];
}

void total_add(struct total *to, const struct total *x)
{
    to->launches += x->launches;
    to->bytes += x->bytes;
    to->instructions += x->instructions;
    to->flop += x->flop;
    for (int e = 0; e < ESTIMATES; e++)
        for (int c = 0; c < CARDS; c++)
            to->s[e][c] += x->s[e][c];
}

int time_launch(const struct facts *f, const struct step_launch *l,
                struct traffic *ret_traffic, struct total *ret, double *ret_per,
                struct error *err)
{
    struct traffic t;
    double per = 0, own_s = 0;

    if (traffic_of(l, &t, err) < 0 ||
        (t.values > 0 && per_value(f, l, &per, err) < 0))
        return -1;
    struct total x = {.launches = 1, .bytes = t.bytes, .flop = t.flop};
    x.instructions =
        t.values * per / WARP / busy_lanes(l, t.columns) + t.beside;
    if (t.role == ROLE_TILES && tiles_time(f, l, &t, &x, &own_s, err) < 0)
        return -1;
    const bool is_large =
        l->vocab > 0 && t.role == ROLE_PRODUCT && !is_skinny(l);
    const bool is_1x1 = strncmp(l->kernel, "pw_", 3) == 0 &&
                        (t.role == ROLE_PRODUCT || t.role == ROLE_BACK);
    const double sms = l->grid < STEP_SMS ? (double)l->grid : STEP_SMS;
    const double slots = sms * SCHEDULERS * clock_hz;
    for (int e = 0; e < ESTIMATES; e++) {
        const bool careful = e == CAREFUL && is_1x1;
        const double product = is_large ? product_s(l, &t, e) : 0;
        const double share = careful
                                 ? careful_share * (t.is_odd ? odd_share : 1)
                                 : share_of(l, &t);
        /* Tiles have their instructions in own_s. */
        const double by_issue =
            t.role == ROLE_TILES
                ? 0
                : t.uneven * x.instructions /
                      (slots * (careful ? careful_issue : issue_share));
        for (int c = 0; c < CARDS; c++)
            x.s[e][c] = launch_s + fmax(t.bytes / (bandwidth[c] * share),
                                        fmax(by_issue, fmax(own_s, product)));
    }
    *ret_traffic = t;
    *ret = x;
    *ret_per = per;
    return 0;
}
