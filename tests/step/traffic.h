/* traffic.h - what a launch of a training step moves, and for how many values
 * its hot loop runs: one row for each kernel, in traffic.c. */
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

/* What share of the bandwidth a launch reaches depends on what it is. */
enum role {
    ROLE_STREAM,  /* reads rows and writes rows */
    ROLE_PRODUCT, /* of matrices, on tensor cores */
    ROLE_WEIGHTS, /* a library's gradient of weights: few tiles, a long sum */
    ROLE_BACK,    /* our gradient of weights: as many tiles as blocks */
    ROLE_SUMS,    /* a few values: the launch is what it costs */
};

struct traffic {
    enum group group;
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
};

/* err  ERR_NOTFOUND no row for this kernel, or no group for its op: named */
int traffic_of(const struct step_launch *l, struct traffic *ret,
               struct error *err) MUST_CHECK;

#endif
