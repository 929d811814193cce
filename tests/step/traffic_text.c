/* traffic_text.c - what a launch of a step on text moves; see traffic.h.
 *
 * A kernel that is not here is an error that names it. A new one gets a row as
 * in traffic.c. A row of logits is read as often as its kernel reads it: what
 * all blocks have of them is more than a cache.
 *
 * Attention is counted by tiles, as its kernels walk over them: a tile of which
 * some pairs are not seen is multiplied as a whole, and masked.
 */
#include "tests/step/traffic.h"

#include <math.h>
#include <string.h>

typedef const struct step_launch launch;

static double of_values(launch *l, double n)
{
    return n * l->op.value;
}

/* ---- bytes ----------------------------------------------------------------
 */
static double few(launch *l) /* a value per row or answer */
{
    (void)l;
    return 0;
}
static double in_out(launch *l)
{
    return of_values(l, (double)(l->op.in + l->op.out));
}
static double only_in(launch *l)
{
    return of_values(l, (double)l->op.in);
}
static double only_out(launch *l)
{
    return of_values(l, (double)l->op.out);
}
static double in_twice(launch *l)
{
    return of_values(l, 2 * (double)l->op.in);
}
/* x, y, what is added, and the sum. */
static double rms_rows(launch *l)
{
    return of_values(l, (2 + l->op.skip + l->op.keeps) * (double)l->op.in);
}
static double grad_rows(launch *l)
{
    return of_values(l, (3 + l->op.extra + l->op.keeps) * (double)l->op.in);
}
/* A double of each block and column. */
static double weight_sums(launch *l)
{
    return in_twice(l) + (double)l->grid * l->op.K * (double)sizeof(double);
}
/* Heads, in place, and the copy. */
static double norm_heads(launch *l)
{
    return of_values(l, (2 + l->op.keeps) * (double)l->op.in);
}
static double grad_heads(launch *l)
{
    return of_values(l, 3 * (double)l->op.in);
}
static double head_weight_sums(launch *l) /* of each head */
{
    return in_twice(l) + (double)l->grid * l->op.N * (double)sizeof(double);
}
static double fold(launch *l)
{
    return (double)l->parts * l->op.N * (double)sizeof(double);
}
static double gate_grads(launch *l)
{
    return of_values(l, 2 * (double)l->op.in +
                            (1 + l->op.keeps) * (double)l->op.out);
}
/* The sums are there before. */
static double add_runs(launch *l)
{
    return of_values(l, (double)l->op.in + 2 * (double)l->op.out);
}
/* Four bits, and eight, or a value, of each 64. */
static double expand(launch *l)
{
    return (double)l->op.in *
           (l->op.value + 0.5 + (l->op.keeps ? 1.0 : l->op.value) / 64);
}
/* Read for the largest, the sum and the gradient; written once. */
static double softmax_loss(launch *l)
{
    return of_values(l, 2 * (double)l->op.in + 2 * (double)l->op.out);
}
static double attend(launch *l) /* q, o; k, v; lse */
{
    return of_values(l, 2 * (double)(l->op.in + l->op.out)) +
           (double)l->op.rows * l->op.heads * (double)sizeof(float);
}
static double fill_about(launch *l) /* o and its gradient; two numbers */
{
    return in_twice(l) +
           (double)l->op.rows * l->op.heads * 2 * (double)sizeof(float);
}
static double attend_dq(launch *l) /* q, its gradient, that of o; k, v */
{
    return of_values(l, 3 * (double)l->op.in + 2 * (double)l->op.out);
}
static double attend_dkv(launch *l) /* q, the gradient of o; k, v, theirs */
{
    return of_values(l, 2 * (double)l->op.in + 4 * (double)l->op.out);
}
/* Weights both ways, two means of float both ways, the gradient. */
static double adamw_step(launch *l)
{
    return (double)l->op.in * (3 * l->op.value + 4 * (double)sizeof(float));
}
static double adamw8_step(launch *l) /* means of a byte */
{
    return (double)l->op.in * (3 * l->op.value + 4);
}
static double product(launch *l)
{
    const double written = (l->beta != 0 ? 2.0 : 1.0) * (double)(l->m * l->n);
    return of_values(l, (double)(l->m * l->k + l->k * l->n) + written);
}

/* ---- values of the hot loop -----------------------------------------------
 */
/* Of two loops over a row that are equally long. */
static double both_loops(launch *l)
{
    return 2 * (double)l->op.in;
}
/* Of the loop that writes, dx, and where it is wanted y, which it has in any
 * case; the one that sums is as long. */
static double grad_values(launch *l)
{
    return 4 * (double)l->op.in;
}
/* dx, and where it is wanted y, which the loop has in any case. */
static double gate_values(launch *l)
{
    return (double)(l->op.in + l->op.out);
}
/* The two numbers of float of each head. */
static double about_values(launch *l)
{
    return (double)l->op.rows * l->op.heads * 8 / l->op.value;
}
/* Weights and two means of float. */
static double adamw_values(launch *l)
{
    return (double)l->op.in * (1 + 8.0 / l->op.value);
}

/* ---- instructions beside the hot loop ---------------------------------------
 * Of warps. Loops of several kinds follow each other in these kernels: they
 * were counted in the machine code of nvcc 13.0 (sm_90), per value. */
static double softmax_beside(launch *l)
{
    return 31.0 * (double)l->op.in / 32;
}
/* A warp passes its loop once for a block of 256 values. Of roots and divisions
 * the slow paths are not counted. */
static double adamw8_beside(launch *l)
{
    return 1162.0 * (double)l->op.in / 256;
}

/* ---- tiles of attention -----------------------------------------------------
 * As attention_mma.h and its kernels divide the rows: a unit is 128 rows of a
 * block, of the list of (query, head of the group) or of keys, and a block has
 * so many consecutive units. */
enum {
    UNIT_ROWS = 128,
    UNIT_WARPS = 8,
    WARP_LANES = 32,
    WARP_ROWS = 16,
    FWD_TILE = 64
};

/* What a warp executes more in a tile that is not seen as a whole, to mask it
 * and to look for values that are not finite; counted as those above, with
 * heads of 128 values. */
enum { FWD_MASKED = 372, DQ_MASKED = 140, DKV_MASKED = 340 };

/* What it executes once for a unit: rows and offsets on their way in, rows on
 * their way out. Of loops, dkv's two that look for the end are passed once. The
 * first fetch is not in it: the loop over tiles counts one for each, and the
 * last one has none. Nor is a division's slow path. */
enum { FWD_UNIT = 604, DQ_UNIT = 591, DKV_UNIT = 621 };

static int32_t back_tile(launch *l)
{
    return 2048 / l->op.D;
}
static int32_t group_of(launch *l)
{
    return l->op.heads / l->op.kv_heads;
}
static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
/* The tiles of a unit, and those of them that are seen as a whole. */
struct tiles {
    int64_t n, whole;
};
/* Keys from the beginning of the document of the unit's first query to its last
 * query. All queries see those of the last one's document that end at the
 * first one. */
static struct tiles tiles_of_queries(launch *l, int64_t unit, int32_t tile)
{
    const int64_t n = l->op.rows * group_of(l), lo = unit * UNIT_ROWS;
    const int64_t first = lo / group_of(l);
    const int64_t last = (least(n, lo + UNIT_ROWS) - 1) / group_of(l);
    const int64_t begin = (first - first % l->document) / tile * tile;
    const int64_t from = (last - last % l->document + tile - 1) / tile * tile;

    return (struct tiles){(last + 1 - begin + tile - 1) / tile,
                          most(0, first + 1 - from) / tile};
}
/* Queries from the unit's first key to the end of the document of its last one,
 * of each head of the group. All keys are seen by those behind the last one, to
 * the end of the document of the first one. */
static struct tiles tiles_of_keys(launch *l, int64_t unit, int32_t tile)
{
    const int64_t lo = unit * UNIT_ROWS, begin = lo / tile * tile;
    const int64_t last = least(l->op.rows, lo + UNIT_ROWS) - 1;
    const int64_t from = (last + tile - 1) / tile * tile;
    const int64_t end =
        least(l->op.rows, (last / l->document + 1) * l->document);
    const int64_t whole_end =
        least(l->op.rows, (lo / l->document + 1) * l->document);

    return (struct tiles){(end - begin + tile - 1) / tile * group_of(l),
                          most(0, whole_end - from) / tile * group_of(l)};
}

/* Blocks go, one after the other, to the multiprocessor that is free first: a
 * lane has too many registers for two of them. */
static void walk_tiles(launch *l, int64_t units, int32_t tile,
                       struct tiles (*of)(launch *l, int64_t unit,
                                          int32_t tile),
                       struct traffic *ret)
{
    const int64_t all = units * l->op.kv_heads;
    const int64_t share = (all + l->grid - 1) / l->grid;
    int64_t busy[STEP_SMS] = {0}, sum = 0, whole = 0, longest = 0;

    for (int64_t at = 0; at < all; at += share) {
        int64_t mine = 0;
        int to = 0;
        for (int64_t u = at; u < least(all, at + share); u++) {
            const int64_t nth = u % units; /* from both ends in turn */
            const struct tiles t =
                of(l, nth % 2 ? units - 1 - nth / 2 : nth / 2, tile);
            mine += t.n;
            whole += t.whole;
        }
        for (int i = 1; i < STEP_SMS; i++)
            to = busy[i] < busy[to] ? i : to;
        busy[to] += mine;
        sum += mine;
        longest = most(longest, busy[to]);
    }
    ret->pairs = (double)sum * UNIT_ROWS * tile;
    ret->masked = (double)(sum - whole) * UNIT_WARPS;
    ret->units = (double)all * UNIT_WARPS;
    ret->uneven = (double)longest * STEP_SMS / (double)sum;
    ret->lane_pairs = WARP_ROWS * tile / WARP_LANES;
    /* 16 bytes of 256 lanes at a time. */
    ret->fetches = tile * l->op.D * l->op.value / 16 / 256;
}
static void walk_fwd(launch *l, struct traffic *ret)
{
    walk_tiles(l, (l->op.rows * group_of(l) + UNIT_ROWS - 1) / UNIT_ROWS,
               FWD_TILE, tiles_of_queries, ret);
    ret->beside = FWD_MASKED * ret->masked + FWD_UNIT * ret->units;
}
static void walk_dq(launch *l, struct traffic *ret)
{
    walk_tiles(l, (l->op.rows * group_of(l) + UNIT_ROWS - 1) / UNIT_ROWS,
               back_tile(l), tiles_of_queries, ret);
    ret->beside = DQ_MASKED * ret->masked + DQ_UNIT * ret->units;
}
static void walk_dkv(launch *l, struct traffic *ret)
{
    walk_tiles(l, (l->op.rows + UNIT_ROWS - 1) / UNIT_ROWS, back_tile(l),
               tiles_of_keys, ret);
    ret->beside = DKV_MASKED * ret->masked + DKV_UNIT * ret->units;
}

/* ---- the rows -------------------------------------------------------------
 */
static const struct row {
    const char *kernel;
    enum role role;
    double (*bytes)(launch *l);
    double (*values)(launch *l); /* NULL: not counted */
    double (*beside)(launch *l); /* NULL: nothing */
    void (*walk)(launch *l, struct traffic *ret);
    bool is_by_row; /* a block's lanes share a row of K values */
} rows[] = {
    {"rms_rows", ROLE_STREAM, .bytes = rms_rows, .values = both_loops,
     .is_by_row = true},
    {"grad_rows", ROLE_STREAM, .bytes = grad_rows, .values = grad_values,
     .is_by_row = true},
    {"weight_sums", ROLE_STREAM, .bytes = weight_sums, .values = both_loops,
     .is_by_row = true},
    {"norm_heads", ROLE_STREAM, .bytes = norm_heads, .values = both_loops,
     .is_by_row = true},
    {"grad_heads", ROLE_STREAM, .bytes = grad_heads, .values = both_loops,
     .is_by_row = true},
    {"head_weight_sums", ROLE_STREAM, .bytes = head_weight_sums,
     .values = both_loops, .is_by_row = true},
    {"fold", ROLE_SUMS, .bytes = fold},
    {"rotate", ROLE_STREAM, .bytes = in_twice, .values = in, .is_by_row = true},
    {"gate_rows", ROLE_STREAM, .bytes = in_out, .values = out,
     .is_by_row = true},
    {"gate_grads", ROLE_STREAM, .bytes = gate_grads, .values = gate_values,
     .is_by_row = true},
    {"attend_mma", ROLE_TILES, .bytes = attend, .walk = walk_fwd},
    {"fill_about", ROLE_STREAM, .bytes = fill_about, .values = about_values},
    {"attend_dq_mma", ROLE_TILES, .bytes = attend_dq, .walk = walk_dq},
    {"attend_dkv_mma", ROLE_TILES, .bytes = attend_dkv, .walk = walk_dkv},
    {"take", ROLE_STREAM, .bytes = in_out, .values = out, .is_by_row = true},
    {"clear_values", ROLE_STREAM, .bytes = only_out, .values = out},
    {"put", ROLE_STREAM, .bytes = in_twice, .values = in, .is_by_row = true},
    {"add_runs", ROLE_STREAM, .bytes = add_runs, .values = in,
     .is_by_row = true},
    {"softmax_loss", ROLE_STREAM, .bytes = softmax_loss,
     .beside = softmax_beside},
    {"softmax_part", ROLE_STREAM, .bytes = in_out, .values = out,
     .is_by_row = true},
    {"mean_rows", ROLE_STREAM, .bytes = only_in, .values = in,
     .is_by_row = true},
    {"scale", ROLE_STREAM, .bytes = in_twice, .values = in, .is_by_row = true},
    {"sum_answers", ROLE_SUMS, .bytes = few},
    {"count_tokens", ROLE_SUMS, .bytes = few},
    {"expand", ROLE_STREAM, .bytes = expand, .values = in},
    {"round_groups", ROLE_STREAM, .bytes = in_twice, .values = both_loops,
     .is_by_row = true},
    {"round_rows", ROLE_STREAM, .bytes = in_twice, .values = both_loops,
     .is_by_row = true},
    {"squares", ROLE_STREAM, .bytes = only_in, .values = in},
    {"adamw_step", ROLE_STREAM, .bytes = adamw_step, .values = adamw_values},
    {"adamw8_step", ROLE_STREAM, .bytes = adamw8_step, .beside = adamw8_beside},
    {"put_bytes", ROLE_SUMS, .bytes = few},
    {STEP_PRODUCT, ROLE_PRODUCT, .bytes = product},
    {STEP_ZERO, ROLE_STREAM, .bytes = told},
    {STEP_COPY, ROLE_STREAM, .bytes = told},
};

static const struct {
    const char *op;
    enum text_part part;
} parts[] = {
    {"rmsnorm_fwd", PART_ROWS},
    {"rmsnorm_bwd", PART_ROWS},
    {"norm_fwd", PART_ROWS},
    {"norm_bwd", PART_ROWS},
    {"rope", PART_ROWS},
    {"swiglu_fwd", PART_ROWS},
    {"swiglu_bwd", PART_ROWS},
    {"attention_fwd", PART_ATTENTION},
    {"attention_bwd", PART_ATTENTION},
    {"nf4_expand", PART_BITS},
    {"round_int4", PART_BITS},
    {"round_int8", PART_BITS},
    {"take_rows", PART_LOSS},
    {"put_rows", PART_LOSS},
    {"add_rows", PART_LOSS},
    {"xent", PART_LOSS},
    {"xent_sums", PART_LOSS},
    {"xent_part", PART_LOSS},
    {"row_means", PART_LOSS},
    {"scale_rows", PART_LOSS},
    {"answer_sums", PART_LOSS},
    {"pair_factors", PART_LOSS},
    {"put", PART_OPTIMIZER},
    {"sum_squares", PART_OPTIMIZER},
    {"adamw", PART_OPTIMIZER},
    {"adamw8", PART_OPTIMIZER},
    {STEP_COPY, PART_BITS},
    {STEP_ZERO, PART_LOSS},
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

/* Of so many columns at most a product reads and writes more than it computes:
 * three adapters of rank 16. */
enum { SKINNY = 48 };

static enum text_part part_of_product(launch *l)
{
    if (l->m == l->vocab || l->n == l->vocab || l->k == l->vocab)
        return PART_HEAD;
    if (least(l->m, least(l->n, l->k)) <= SKINNY)
        return PART_ADAPTERS;
    return l->is_transposed ? PART_WEIGHTS : PART_PRODUCTS;
}

static int part_of(launch *l, enum text_part *ret, struct error *err)
{
    const char *op = l->op.name != NULL ? l->op.name : "none";

    if (strcmp(l->kernel, STEP_PRODUCT) == 0) {
        *ret = part_of_product(l);
        return 0;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(parts[i].op, op) == 0) {
            *ret = parts[i].part;
            return 0;
        }
    return error_set(err, ERR_NOTFOUND,
                     "op '%s' belongs to no part of a step on text: add it to "
                     "`parts` of tests/step/traffic_text.c",
                     op);
}

int traffic_of_text(const struct step_launch *l, struct traffic *ret,
                    struct error *err)
{
    const struct row *r = row_of(l->kernel);
    struct traffic t = {.uneven = 1};

    if (r == NULL)
        return error_set(err, ERR_NOTFOUND,
                         "kernel '%s' of op '%s' is unknown: add what it moves "
                         "to `rows` of tests/step/traffic_text.c",
                         l->kernel, l->op.name != NULL ? l->op.name : "none");
    if (part_of(l, &t.part, err) < 0)
        return -1;
    t.role = r->role;
    t.bytes = r->bytes(l);
    t.values = r->values != NULL ? r->values(l) : 0;
    t.beside = r->beside != NULL ? r->beside(l) : 0;
    t.columns = r->is_by_row ? l->op.K : 0;
    if (r->walk != NULL)
        r->walk(l, &t);
    if (r->role == ROLE_PRODUCT)
        t.flop = 2.0 * (double)l->m * (double)l->n * (double)l->k;
    *ret = t;
    return 0;
}
