/* mobilenet.h - MobileNetV2 as torchvision defines it, on one device.
 *
 * Implements worker/model.h. Parameters lie in torchvision's registration
 * order; activations are NHWC. Convolution weights are kept as the kernels
 * want them: 1x1 [Cout, Cin], depthwise [3, 3, C], stem [Cout, 3, 3, Cin];
 * export and import use torchvision's names and shapes, in state_dict()
 * order: T for parameters, A for running statistics, and
 * num_batches_tracked as an i64 scalar.
 *
 * The state of the model is the running statistics of the batch norms. Its
 * initialisation is torchvision's, from rng.h's stream: convolutions normal
 * with std sqrt(2 / fan_out), batch norm 1 and 0, classifier normal 0.01 and
 * 0; running mean 0, variance 1.
 *
 * All memory is one arena, planned by mobilenet_plan() before anything is
 * allocated; a step allocates nothing.
 */
#ifndef MGPU_WORKER_CV_MOBILENET_H
#define MGPU_WORKER_CV_MOBILENET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/model_call.h"
#include "worker/model_kind.h"

struct mobilenet_conf {
    enum dtype dt;
    double width_mult, dropout;
    double label_smoothing; /* of the training loss; evaluations have none */
    int32_t num_classes;
    int32_t in_channels; /* of the images: 1 or 3; 0: 3 */
    int32_t image_size;
    int32_t batch; /* largest batch that forward() will see */
};

/* err  ERR_INVAL a value of conf is out of range; it is named */
int mobilenet_plan(const struct mobilenet_conf *conf, struct model_plan *ret,
                   struct error *err) MUST_CHECK;

/* The device is borrowed and outlives the model. Parameters are zero until
 * model_init() or model_import(). Batches are those of cv/image_batches.h. */
int mobilenet_create(struct device *d, const struct mobilenet_conf *conf,
                     struct model **ret, struct error *err) MUST_CHECK;

/* Jobs of kind cv. */
extern const struct model_kind mobilenet_kind;

/* Logits of the last forward(train = false): [n, classes] doubles, host. */
int mobilenet_logits(struct model *m, int32_t n, double *ret,
                     struct error *err) MUST_CHECK;

#endif
