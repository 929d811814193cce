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
/* How a block of 8 warps walks over rows: groups of at most 128 columns, tiles
 * of 64 rows; or, with columns for one warp, of 128 (walk_for of
 * pointwise_walk_mma.h). */
struct walk {
    int32_t across, tall, groups;
    double wide;   /* columns of a group */
    double tiles;  /* of a group */
    double shares; /* blocks that divide them */
};
static struct walk walk_of(launch *l, int32_t columns)
{
    struct walk w = {.across = columns > 64 ? 2 : 1};

    w.tall = 128 / w.across;
    w.groups = (columns + 64 * w.across - 1) / (64 * w.across);
    w.wide = (double)columns / w.groups;
    w.tiles = ceil((double)l->op.in / l->op.K / w.tall);
    w.shares = fmin((double)l->grid / w.groups, w.tiles);
    return w;
}
/* The groups read u or dz side by side: from memory once, unless what all
 * blocks have of these arrays fills more than 30 MB of the second-level cache's
 * 50. */
static double passes(launch *l, const struct walk *w, int32_t arrays,
                     int32_t depth)
{
    const double held = w->shares * w->tall * arrays * depth * l->op.value;
    return held > 30e6 ? w->groups : 1;
}
static double pw_product(launch *l)
{
    const struct walk w = walk_of(l, l->op.N);
    return of_values(l, (int64_t)(passes(l, &w, 1 + l->op.skip, l->op.K) *
                                  (1 + l->op.skip) * (double)l->op.in) +
                            l->op.keeps * l->op.in + l->op.out) +
           partial((int64_t)w.shares, OF_NORM, l->op.N);
}
static double pw_back_dx(launch *l)
{
    const struct walk w = walk_of(l, l->op.K);
    return of_values(
               l, (int64_t)(passes(l, &w, 2, l->op.N) * 2 * (double)l->op.out) +
                      (2 + l->op.extra) * l->op.in) +
           partial((int64_t)w.shares, OF_NORM, l->op.K);
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
    if (strncmp(l->before, "pw_back_one<", 12) == 0)
        return partial(l->parts, OF_NORM, l->op.K) +
               (double)l->parts * l->op.N * l->op.K * (double)sizeof(float);
    return partial(l->parts / walk_of(l, l->op.K).groups, OF_NORM, l->op.K) +
           parts_of_dw(l, l->parts);
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
    const struct walk w = walk_of(l, l->op.N);
    const int64_t parts = strncmp(l->before, "pw_product<", 11) == 0
                              ? l->parts / w.groups
                              : l->parts;
    return partial(parts, OF_NORM, l->op.N) +
           (double)parts * l->op.N * (double)sizeof(float);
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

/* ---- values of the hot loop -----------------------------------------------
 */
static double both(launch *l)
{
    return 2 * (double)l->op.in;
}
/* Rows that the lanes of a block take in turn, of `rows` that lie `across`
 * lanes wide: of each warp the lane with the most, on average. */
static double turns(int32_t rows, int32_t across)
{
    const int32_t down = 256 / across;
    double all = 0;

    for (int32_t warp = 0; warp < 8; warp++) {
        const int32_t first = warp * 32 / across;
        if (first < down && first < rows)
            all += (rows - first + down - 1) / down;
    }
    return all / 8;
}
static int32_t vectors(double columns)
{
    return (int32_t)ceil(columns / 8);
}
/* The same of `depth` columns in chunks of 96, of vectors of 8. */
static double turns_in(int32_t rows, int32_t depth)
{
    double all = 0;

    for (; depth > 0; depth -= 96)
        all += turns(rows, (depth < 96 ? depth + 15 : 96) / 16 * 2);
    return all;
}
enum { LANE_VALUES = 256 * 8 };

/* In values of all lanes, those without a row included. The sum with a skip is
 * stored twice. */
static double pw_ways_in(launch *l)
{
    const struct walk w = walk_of(l, l->op.N);
    return w.tiles * w.groups * turns_in(w.tall, l->op.K) * LANE_VALUES *
           (strstr(l->kernel, "true") != NULL ? 2 : 1);
}
static double dx_ways_out(launch *l)
{
    const struct walk w = walk_of(l, l->op.K);
    return w.tiles * w.groups * turns(w.tall, vectors(w.wide)) * LANE_VALUES;
}
/* Of each 64 rows and tile of dw. */
static double dw_turns(launch *l)
{
    return ceil((double)l->op.in / l->op.K / 64) *
           (double)(across_dw(l) * down_dw(l));
}
static double dw_ways_in(launch *l)
{
    return dw_turns(l) * turns_in(64, l->op.K / (int32_t)across_dw(l)) *
           LANE_VALUES;
}
static double one_turns(launch *l)
{
    return ceil((double)l->op.in / l->op.K / 64);
}
static double one_ways_out(launch *l)
{
    return one_turns(l) * turns(64, l->op.K / 4) * LANE_VALUES / 2;
}

/* ---- instructions beside the hot loop ---------------------------------------
 * Of each warp; they were counted in the machine code of nvcc 13.0 (sm_90), to
 * a tenth. */
enum { OF_BLOCK = 800 }; /* set-up, and what a block leaves at its end */

/* For a tile, for 96 columns of the depth, to multiply 16 of them by 64
 * columns, and for a vector of the weights, which narrow layers keep. */
static double walk_beside(const struct walk *w, int32_t depth, double tile,
                          double vector)
{
    const double chunks = ceil(depth / 96.0), steps = ceil(depth / 16.0);
    const double share = w->wide / (64.0 * w->across);

    return tile + chunks * 130 + steps * (14 + 20 * share) +
           (chunks > 1 ? vector * w->wide * depth / LANE_VALUES : 0);
}
static double pw_product_beside(launch *l)
{
    const struct walk w = walk_of(l, l->op.N);
    return 8 * w.tiles * w.groups *
               (walk_beside(&w, l->op.K, 150, 24) +
                46 * turns(w.tall, vectors(w.wide))) +
           8 * OF_BLOCK * (double)l->grid;
}
static double pw_back_dx_beside(launch *l)
{
    const struct walk w = walk_of(l, l->op.K);
    return 8 * w.tiles * w.groups *
               (walk_beside(&w, l->op.N, 200, 27) +
                54 * turns_in(w.tall, l->op.N)) +
           8 * OF_BLOCK * (double)l->grid;
}
/* dz, and products of three squares. */
static double pw_back_dw_beside(launch *l)
{
    return 8 * dw_turns(l) *
               (54 * turns_in(64, l->op.N / (int32_t)down_dw(l)) + 335) +
           8 * OF_BLOCK * (double)l->grid;
}
/* dz, u, what the warps have of the squares of dw, and dx by 16 rows and 32
 * columns. */
static double pw_back_one_beside(launch *l)
{
    const double high = ceil(l->op.N / 16.0), wide = ceil(l->op.K / 16.0);
    return 8 * one_turns(l) *
               (54 * turns_in(64, l->op.N) + 41 * turns_in(64, l->op.K) + 260 +
                4 * (11 + 10 * high * wide / 8) +
                ceil(wide / 2) / 2 * (90 + 28 * high)) +
           8 * OF_BLOCK * (double)l->grid;
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
    {"pw_back_one", ROLE_BACK, pw_back_one, one_ways_out, FLAT},
    {"pw_back_dx", ROLE_PRODUCT, pw_back_dx, dx_ways_out, FLAT},
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
    {"drop_vectors", ROLE_STREAM, in_twice, in, FLAT},
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

/* The block with the most tiles, and the multiprocessor with the most blocks,
 * against the average. */
static double uneven(launch *l, double tiles, double shares)
{
    const double grid = (double)l->grid;

    return ceil(tiles / shares) * shares / tiles *
           (grid > STEP_SMS ? ceil(grid / STEP_SMS) * STEP_SMS / grid : 1);
}
static double uneven_walk(launch *l, int32_t columns)
{
    const struct walk w = walk_of(l, columns);

    return uneven(l, w.tiles, w.shares);
}
static double uneven_dw(launch *l)
{
    return uneven(l, one_turns(l),
                  (double)l->grid / (double)(across_dw(l) * down_dw(l)));
}

int traffic_of(const struct step_launch *l, struct traffic *ret,
               struct error *err)
{
    const struct row *r = row_of(l->kernel);
    struct traffic t = {.group = GROUP_SUMS};

    if (l->vocab > 0)
        return traffic_of_text(l, ret, err);
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
    if (strcmp(r->kernel, "pw_product") == 0)
        t.uneven = uneven_walk(l, l->op.N);
    else if (strcmp(r->kernel, "pw_back_dx") == 0)
        t.uneven = uneven_walk(l, l->op.K);
    else if (strcmp(r->kernel, "pw_back_dw") == 0)
        t.uneven = uneven_dw(l);
    else if (strcmp(r->kernel, "pw_back_one") == 0)
        t.uneven = uneven(l, one_turns(l), (double)l->grid);
    t.is_odd = l->op.is_stem && l->op.K * l->op.value % 16 != 0;
    *ret = t;
    return 0;
}
