/* arch.h - MobileNetV2 as a table of layers; arithmetic only, no memory.
 *
 * The network is a chain of convolutions, each followed by batch norm, so
 * one table row is one convolution with its norm. Rows stand in torchvision's
 * registration order, which is also the order of the flat parameter array:
 * weight, gamma and beta of row 0, of row 1, ..., then the classifier.
 */
#ifndef MGPU_WORKER_CV_ARCH_H
#define MGPU_WORKER_CV_ARCH_H

#include <stdint.h>

#include "worker/cv/mobilenet.h"

enum {
    ARCH_LAYERS = 52, /* the stem, 17 blocks (one without expand), the last */
    ARCH_NAME_CAP = 40,
};

enum layer_kind { LAYER_STEM, LAYER_POINTWISE, LAYER_DEPTHWISE };

struct layer {
    enum layer_kind kind;
    int32_t cin, cout;
    int32_t side, out_side; /* of the square input and output */
    int32_t stride;
    double cap;   /* 6 with ReLU6, 0 without activation */
    int32_t skip; /* row whose output is added to this one's; -1 none */
    bool is_kept; /* its output is such a row's */

    /* Offsets in the parameter array, and how many weights there are. */
    int64_t weight, weights, gamma, beta;
    int64_t mean, var; /* offsets in the running statistics */

    char conv[ARCH_NAME_CAP], norm[ARCH_NAME_CAP]; /* "features.0.0" */
};

struct arch {
    struct layer layers[ARCH_LAYERS];
    int32_t features;           /* inputs of the classifier */
    int64_t fc_weight, fc_bias; /* offsets */
    int64_t params, running;    /* totals */
};

/* Channels after scaling: the nearest multiple of 8, at least 8, and not
 * more than 10 % below v, as torchvision's _make_divisible. */
int32_t arch_channels(double v);

/* Fills in the table.
 * err  ERR_INVAL a value of conf is out of range; it is named */
int arch_build(const struct mobilenet_conf *conf, struct arch *ret,
               struct error *err) MUST_CHECK;

#endif
