/* traffic.c - see traffic.h.
 *
 * A kernel that is not here is an error that names it. A new one gets a row:
 * its name without what it is instantiated for, what it is, the values of T
 * that a launch reads and writes, by the shapes of the op (step.h), those that
 * its hot loop stores, or loads if it stores none, and how many lie in a row.
 * Each array counts once, also if it is read twice and found in a cache.
 */
#include "tests/step/traffic.h"

#include <math.h>
#include <string.h>

typedef const struct step_launch launch;

/* Values of double that blocks leave as partial sums for each column. */
enum { OF_NORM = 2, OF_DEPTHWISE = 11 };

static double partial(int64_t blocks, int32_t sums, int32_t columns)
{
    return (double)blocks * sums * columns * (double)sizeof(double);
}

static double of_values(launch *l, int64_t n)
{
    return (double)n * l->op.value;
}

/* ---- bytes ----------------------------------------------------------------
 */
static double few(launch *l) /* some rows, a column each, scalars */
{
    (void)l;
    return 0;
}
static double in_out(launch *l)
{
    return of_values(l, l->op.in + l->op.out);
}
static double only_in(launch *l)
{
    return of_values(l, l->op.in);
}
static double in_twice(launch *l)
{
    return of_values(l, 2 * l->op.in);
}
static double in_thrice(launch *l)
{
    return of_values(l, 3 * l->op.in);
}
static double norm_rows(launch *l)
{
    return of_values(l, (2 + l->op.skip) * l->op.in);
}
static double norm_sums(launch *l)
{
    return of_values(l, l->op.out) + partial(l->grid, OF_NORM, l->op.N);
}
static double norm_dz(launch *l)
{
    return of_values(l, 3 * l->op.out);
}
static double norm_gate(launch *l)
{
    return of_values(l, (3 + l->op.extra) * l->op.in) +
           partial(l->grid, OF_NORM, l->op.K);
}
static double pw_product(launch *l)
{
    return of_values(l, (1 + l->op.skip + l->op.keeps) * l->op.in + l->op.out) +
           partial(l->grid, OF_NORM, l->op.N);
}
/* A block of 8 warps sums 64 rows and 96 columns of dw [N, K], in float
 * (tile_of_dw of pointwise_back_mma.h). */
static int64_t across_dw(launch *l)
{
    return (l->op.K + 95) / 96;
}
static int64_t down_dw(launch *l)
{
    return (l->op.N + 63) / 64;
}
static double parts_of_dw(launch *l, int64_t blocks)
{
    return (double)blocks / (double)(across_dw(l) * down_dw(l)) *
           (double)l->op.N * l->op.K * (double)sizeof(float);
}
/* Tiles of 128 rows, of a block of 8 warps. */
static double tiles(launch *l)
{
    return (double)((l->op.in / l->op.K + 127) / 128);
}
/* d and z, x for the gate, dx. A wide d and z are read again for each 64
 * columns of dx, from memory if the rows of all blocks fill more than 30 MB of
 * the second-level cache's 50. */
static double pw_back_dx(launch *l)
{
    const double blocks = l->grid < tiles(l) ? (double)l->grid : tiles(l);
    const double held = blocks * 128 * 2 * l->op.N * l->op.value;
    const int64_t passes =
        l->op.N > 96 && held > 30e6 ? (l->op.K + 63) / 64 : 1;
    return of_values(l, 2 * passes * l->op.out + (2 + l->op.extra) * l->op.in) +
           partial(l->grid, OF_NORM, l->op.K);
}
static double pw_back_dw(launch *l)
{
    return of_values(l, 2 * l->op.out + l->op.in) + parts_of_dw(l, l->grid);
}
/* Each block has all of dw. */
static double pw_back_one(launch *l)
{
    return of_values(l, 2 * l->op.out +
                            (2 + l->op.keeps + l->op.extra) * l->op.in) +
           partial(l->grid, OF_NORM, l->op.K) +
           (double)l->grid * l->op.N * l->op.K * (double)sizeof(float);
}
static double pw_back_fold(launch *l)
{
    return partial(l->parts, OF_NORM, l->op.K) +
           (strncmp(l->before, "pw_back_one<", 12) == 0
                ? (double)l->parts * l->op.N * l->op.K * (double)sizeof(float)
                : parts_of_dw(l, l->parts));
}
static double fwd_walk(launch *l)
{
    return in_out(l) + partial(l->grid, OF_NORM, l->op.N);
}
static double bwd_walk(launch *l)
{
    return 2 * in_out(l) + partial(l->grid, OF_DEPTHWISE, l->op.K);
}
static double norm_finish(launch *l)
{
    return partial(l->parts, OF_NORM, l->op.N);
}
/* And an origin of each. */
static double norm_merge(launch *l)
{
    return norm_finish(l) + (double)l->parts * l->op.N * (double)sizeof(float);
}
static double norm_fold(launch *l)
{
    return partial(l->parts, OF_NORM, l->op.K);
}
static double fold_walk(launch *l)
{
    return partial(l->parts, OF_DEPTHWISE, l->op.K);
}
static double fold(launch *l)
{
    return partial(l->parts, 1, l->op.N);
}
static double convert(launch *l)
{
    return (double)l->op.in * (l->op.from + l->op.to);
}
/* Weights and momentum both ways, the gradient. */
static double sgd_step(launch *l)
{
    const double accumulated = l->op.value > 4 ? 8 : 4;
    return (double)l->op.in * (3 * l->op.value + 2 * accumulated);
}
static double product(launch *l)
{
    return of_values(l, l->m * l->k + l->k * l->n + l->m * l->n);
}
static double told(launch *l)
{
    return (double)l->bytes;
}

/* ---- values of the hot loop -----------------------------------------------
 */
static double in(launch *l)
{
    return (double)l->op.in;
}
static double out(launch *l)
{
    return (double)l->op.out;
}
static double both(launch *l)
{
    return 2 * (double)l->op.in;
}
/* A wide input is normalised again for each 64 columns of the result
 * (PRODUCT_K, PRODUCT_N of pointwise_tile_mma.h); the second-level cache has
 * it. Its loop has two stores for each value, one to shared memory and one to
 * y, which most layers skip. */
static double pw_ways_in(launch *l)
{
    const int32_t passes = l->op.K > 96 ? (l->op.N + 63) / 64 : 1;
    return 2.0 * passes * (double)l->op.in;
}

/* The same backwards: dz, and for each tile of dw dz and u. */
static double pw_back_ways_in(launch *l)
{
    const int32_t passes = l->op.N > 96 ? (l->op.K + 63) / 64 : 1;
    return (double)passes * (double)l->op.out;
}
static double dw_ways_in(launch *l)
{
    return (double)(across_dw(l) * l->op.out + down_dw(l) * l->op.in);
}

/* dz and u on the way in, dx on the way out. */
static double one_ways(launch *l)
{
    return (double)(l->op.out + 2 * l->op.in);
}

/* ---- instructions beside the hot loop ---------------------------------------
 * The hot loop of a product is its way in. The others were counted in the
 * machine code of nvcc 13.0 (sm_90), to a quarter: for each warp and 16 rows a
 * way out for each 64 columns, partly by the columns that there are; 200 to set
 * up 96 columns of the factors; and 21 to multiply 16 of them. */
static double of_tile(int32_t depth, int32_t columns, double way_out)
{
    const int32_t chunks = (columns + 63) / 64, steps = (depth + 15) / 16;
    const double share = (double)columns / (64.0 * chunks);

    return chunks * (250 + (way_out - 250) * share +
                     200.0 * ((depth + 95) / 96) + steps * (1 + 20 * share));
}
static double pw_product_beside(launch *l)
{
    return 8 * tiles(l) * of_tile(l->op.K, l->op.N, 563);
}
static double pw_back_dx_beside(launch *l)
{
    return 8 * tiles(l) * of_tile(l->op.N, l->op.K, 1300);
}
/* Each warp and 64 rows of a tile of dw: products of three squares, set-up. */
static double pw_back_dw_beside(launch *l)
{
    return 8 * 2 * tiles(l) * (double)(across_dw(l) * down_dw(l)) * (88 + 250);
}
static double pw_back_one_beside(launch *l)
{
    return 8 * 2 * tiles(l) * 680;
}

static const struct {
    const char *kernel;
    double (*instructions)(launch *l);
} besides[] = {{"pw_product", pw_product_beside},
               {"pw_back_one", pw_back_one_beside},
               {"pw_back_dx", pw_back_dx_beside},
               {"pw_back_dw", pw_back_dw_beside}};

enum columns { FLAT, BY_K, BY_N };

static const struct row {
    const char *kernel;
    enum role role;
    double (*bytes)(launch *l);
    double (*values)(launch *l); /* NULL: not counted */
    enum columns columns;
} rows[] = {
    /* convolutions */
    {"patches", ROLE_STREAM, in_out, out, FLAT},
    {"norm_rows", ROLE_STREAM, norm_rows, in, BY_K},
    {"norm_sums", ROLE_STREAM, norm_sums, out, BY_N},
    {"norm_dz", ROLE_STREAM, norm_dz, out, BY_N},
    {"norm_gate", ROLE_STREAM, norm_gate, in, BY_K},
    {"pw_product", ROLE_PRODUCT, pw_product, pw_ways_in, FLAT},
    {"pw_back_one", ROLE_BACK, pw_back_one, one_ways, FLAT},
    {"pw_back_dx", ROLE_PRODUCT, pw_back_dx, pw_back_ways_in, FLAT},
    {"pw_back_dw", ROLE_BACK, pw_back_dw, dw_ways_in, FLAT},
    {"fwd_walk", ROLE_STREAM, fwd_walk, out, BY_N},
    {"bwd_walk", ROLE_STREAM, bwd_walk, in, BY_K},
    /* statistics */
    {"norm_origin", ROLE_SUMS, few, NULL, FLAT},
    {"norm_finish", ROLE_SUMS, norm_finish, NULL, FLAT},
    {"norm_merge", ROLE_SUMS, norm_merge, NULL, FLAT},
    {"norm_fold", ROLE_SUMS, norm_fold, NULL, FLAT},
    {"pw_back_fold", ROLE_SUMS, pw_back_fold, NULL, FLAT},
    {"pad", ROLE_SUMS, few, NULL, FLAT}, /* the stem's weights */
    {"fold_walk", ROLE_SUMS, fold_walk, NULL, FLAT},
    {"fold", ROLE_SUMS, fold, NULL, FLAT},
    /* head */
    {"mean_fwd", ROLE_STREAM, in_out, in, BY_K},
    {"mean_bwd", ROLE_STREAM, in_out, in, BY_K},
    {"drop", ROLE_STREAM, in_twice, in, FLAT},
    {"add_bias", ROLE_STREAM, in_twice, in, BY_K},
    {"bias_sums", ROLE_STREAM, only_in, in, BY_K},
    {"softmax_loss", ROLE_STREAM, in_out, NULL, FLAT},
    {"sum_into", ROLE_STREAM, in_thrice, in, FLAT},
    /* optimizer */
    {"convert", ROLE_STREAM, convert, in, FLAT},
    {"convert_many", ROLE_STREAM, convert, in, FLAT},
    {"sgd_step", ROLE_STREAM, sgd_step, both, FLAT},
    {"put_bytes", ROLE_STREAM, few, NULL, FLAT},
    /* what is no kernel of ours */
    {STEP_PRODUCT, ROLE_PRODUCT, product, NULL, FLAT},
    {STEP_ZERO, ROLE_STREAM, told, NULL, FLAT},
    {STEP_COPY, ROLE_STREAM, told, NULL, FLAT},
};

static const struct {
    const char *op;
    enum group group;
} groups[] = {
    {"im2col3", GROUP_STEM},      {"pw_fwd", GROUP_PW_FWD},
    {"pw_bwd", GROUP_PW_BWD},     {"dw_fwd", GROUP_DW_FWD},
    {"dw_bwd", GROUP_DW_BWD},     {"norm_apply", GROUP_HEAD},
    {"norm_grads", GROUP_HEAD},   {"add", GROUP_HEAD},
    {"avgpool_fwd", GROUP_HEAD},  {"avgpool_bwd", GROUP_HEAD},
    {"bias_fwd", GROUP_HEAD},     {"bias_bwd", GROUP_HEAD},
    {"dropout", GROUP_HEAD},      {"xent", GROUP_HEAD},
    {"gemm", GROUP_HEAD},         {"put", GROUP_OPTIMIZER},
    {"cast", GROUP_OPTIMIZER},    {"sgd", GROUP_OPTIMIZER},
    {STEP_ZERO, GROUP_OPTIMIZER}, {STEP_COPY, GROUP_OPTIMIZER},
};

static const struct row *row_of(const char *kernel)
{
    const size_t n = strcspn(kernel, "<");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].kernel) == n &&
            strncmp(rows[i].kernel, kernel, n) == 0)
            return &rows[i];
    return NULL;
}

static int group_of(const char *kernel, const struct step_op *op,
                    enum group *ret, struct error *err)
{
    if (op->is_stem) {
        *ret = GROUP_STEM;
        return 0;
    }
    if (op->name == NULL)
        return error_set(err, ERR_NOTFOUND,
                         "kernel '%s' is launched by an op that is not "
                         "noted: add it to tests/step/device_record.cpp",
                         kernel);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (strcmp(groups[i].op, op->name) == 0) {
            *ret = groups[i].group;
            return 0;
        }
    return error_set(err, ERR_NOTFOUND,
                     "op '%s' belongs to no group: add it to `groups` of "
                     "tests/step/traffic.c",
                     op->name);
}

int traffic_of(const struct step_launch *l, struct traffic *ret,
               struct error *err)
{
    const struct row *r = row_of(l->kernel);
    struct traffic t = {.group = GROUP_SUMS};

    if (r == NULL)
        return error_set(err, ERR_NOTFOUND,
                         "kernel '%s' of op '%s' is unknown: add what it moves "
                         "to `rows` of tests/step/traffic.c",
                         l->kernel, l->op.name != NULL ? l->op.name : "none");
    if (r->role != ROLE_SUMS && group_of(l->kernel, &l->op, &t.group, err) < 0)
        return -1;
    t.role = l->is_transposed ? ROLE_WEIGHTS : r->role;
    t.bytes = r->bytes(l);
    t.values = r->values != NULL ? r->values(l) : 0;
    t.columns = r->columns == BY_K ? l->op.K : r->columns == BY_N ? l->op.N : 0;
    t.uneven = 1;
    for (size_t i = 0; i < sizeof(besides) / sizeof(besides[0]); i++)
        if (strcmp(r->kernel, besides[i].kernel) == 0)
            t.beside = besides[i].instructions(l);
    if (strcmp(r->kernel, "pw_product") == 0 ||
        strcmp(r->kernel, "pw_back_dx") == 0) {
        const double most = ceil(tiles(l) / (double)l->grid);
        t.uneven = most * (double)l->grid / tiles(l);
    }
    t.is_odd = l->op.is_stem && l->op.K * l->op.value % 16 != 0;
    *ret = t;
    return 0;
}
