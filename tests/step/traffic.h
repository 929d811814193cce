/* traffic.h - what a launch of a training step moves, and for how many values
 * its hot loop runs: one row for each kernel, in traffic.c, or for a step on
 * text in traffic_text.c. */
#ifndef MGPU_TESTS_TRAFFIC_H
#define MGPU_TESTS_TRAFFIC_H

#include "tests/step/step.h"

enum group {
    GROUP_STEM,
    GROUP_PW_FWD,
    GROUP_DW_FWD,
    GROUP_PW_BWD,
    GROUP_DW_BWD,
    GROUP_SUMS, /* statistics and folds, of all layers */
    GROUP_HEAD,
    GROUP_OPTIMIZER,
    GROUPS
};

/* The parts of a step on text. */
enum text_part {
    PART_PRODUCTS, /* of the layers, with all but adapters' weights */
    PART_WEIGHTS,  /* the gradients of all weights */
    PART_ADAPTERS,
    PART_ATTENTION,
    PART_ROWS, /* norms, rotation, SwiGLU */
    PART_BITS, /* weights and rows of fewer bits */
    PART_HEAD, /* products of the output layer */
    PART_LOSS, /* and look-ups, pairs */
    PART_OPTIMIZER,
    PARTS
};

/* What share of the bandwidth a launch reaches depends on what it is. */
enum role {
    ROLE_STREAM,  /* reads rows and writes rows */
    ROLE_PRODUCT, /* of matrices, on tensor cores */
    ROLE_WEIGHTS, /* a library's gradient of weights: few tiles, a long sum */
    ROLE_BACK,    /* our gradient of weights: as many tiles as blocks */
    ROLE_SUMS,    /* a few values: the launch is what it costs */
    ROLE_TILES,   /* attention on tensor cores */
};

struct traffic {
    enum group group;    /* of a step on images */
    enum text_part part; /* of one on text */
    enum role role;
    double bytes;
    /* Values that the hot loop stores, or loads if it stores none; 0: its
     * instructions do not count. In rows of so many; 0: in no rows. */
    double values;
    int32_t columns;
    /* Instructions of warps beside the hot loop, and how much longer than the
     * mean block the longest one takes. */
    double beside, uneven;
    bool is_odd; /* a product of rows that are no multiples of 16 bytes */
    /* Of text. Multiplications and additions on tensor cores of a product. Of
     * attention: pairs of a row and a row of a tile, of which a lane has
     * `lane_pairs` in a tile, in which it passes a loop that fetches `fetches`
     * times; tiles of a warp that are not seen as a whole; and units of rows
     * that a warp has. beside has what the last two take more. */
    double flop;
    double pairs, masked, units;
    int32_t lane_pairs, fetches;
};

/* For the rows of both files: bytes of a copy, and values of the hot loop. */
static inline double told(const struct step_launch *l)
{
    return (double)l->bytes;
}
static inline double in(const struct step_launch *l)
{
    return (double)l->op.in;
}
static inline double out(const struct step_launch *l)
{
    return (double)l->op.out;
}

/* err  ERR_NOTFOUND no row for this kernel, or no group for its op: named */
int traffic_of(const struct step_launch *l, struct traffic *ret,
               struct error *err) MUST_CHECK;
/* traffic_text.c: of a launch of a step on text. */
int traffic_of_text(const struct step_launch *l, struct traffic *ret,
                    struct error *err) MUST_CHECK;

#endif
