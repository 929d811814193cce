/* mobilenet.h - MobileNetV2 as torchvision defines it, on one device.
 *
 * Parameters lie in one flat array in torchvision's registration order, as
 * gradients and optimizer state do, so that one all-reduce, one optimizer
 * call or one broadcast covers any contiguous range. Activations are NHWC.
 * Convolution weights are kept as the kernels want them: 1x1 [Cout, Cin],
 * depthwise [3, 3, C], stem [Cout, 3, 3, Cin]; model_export() and
 * model_import() speak torchvision's names and shapes.
 *
 * All memory is one arena, planned by model_plan() before anything is
 * allocated; a step allocates nothing.
 */
#ifndef MGPU_WORKER_CV_MOBILENET_H
#define MGPU_WORKER_CV_MOBILENET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"

struct model_conf {
    enum dtype dt;
    double width_mult, dropout;
    double label_smoothing; /* of the training loss; evaluations have none */
    int32_t num_classes;
    int32_t in_channels; /* of the images: 1 or 3; 0: 3 */
    int32_t image_size;
    int32_t batch; /* largest batch that forward() will see */
};

struct model_plan {
    int64_t params;  /* elements, e.g. 3,504,872 at 1000 classes */
    int64_t running; /* batch norm statistics, elements of A */
    int64_t bytes_params, bytes_grads, bytes_activations, bytes_work;
    int64_t bytes_total;
    /* Beside it, on a GPU: what the widest layer's op has in the device's
     * scratch, between two of its kernels. */
    int64_t bytes_scratch;
};

struct model;

int model_plan(const struct model_conf *conf, struct model_plan *ret,
               struct error *err) MUST_CHECK;
/* The device is borrowed and outlives the model. Parameters are zero until
 * model_init() or model_import(). */
int model_create(struct device *d, const struct model_conf *conf,
                 struct model **ret, struct error *err) MUST_CHECK;
void model_destroy(struct model *m); /* NULL is fine */

/* torchvision's initialisation from rng.h's stream: convolutions normal with
 * std sqrt(2 / fan_out), batch norm 1 and 0, classifier normal 0.01 and 0;
 * running mean 0, variance 1. The same bits for a given seed everywhere. */
int model_init(struct model *m, uint32_t seed, struct error *err) MUST_CHECK;

/* One training pass over n <= batch samples.
 *
 * in   x     [n, S, S, in_channels] T, device
 *      label [n] i32, device; < 0: the sample is left out
 *      scale the gradient is scale * d(sum of losses)/dp: 1/n for the mean
 *      seed  of this step's dropout
 * out  the gradients, and loss_sum, hits (host) over the n samples
 *
 * forward() then backward(); on_ready is called during backward() whenever
 * the gradients [first, first + count) are final, from the last layer to the
 * first, so that an all-reduce can overlap the rest. NULL: not called.
 */
int model_forward(struct model *m, const void *x, const int32_t *label,
                  int32_t n, bool train, uint64_t seed,
                  struct error *err) MUST_CHECK;
int model_backward(struct model *m, int32_t n, double scale,
                   int (*on_ready)(void *arg, int64_t first, int64_t count,
                                   struct error *err),
                   void *arg, struct error *err) MUST_CHECK;
/* The same in parts, for a step that is captured and launched again
 * (kernels/device.h): model_put() what changes between two of them, then the
 * passes, which call nothing that cannot be captured; or instead of the passes
 * model_repeat(), for what they leave here, and a launch. */
int model_put(struct model *m, uint64_t seed, double scale,
              struct error *err) MUST_CHECK;
int model_forward_only(struct model *m, const void *x, const int32_t *label,
                       int32_t n, bool train, struct error *err) MUST_CHECK;
int model_backward_only(struct model *m, int32_t n,
                        int (*on_ready)(void *arg, int64_t first, int64_t count,
                                        struct error *err),
                        void *arg, struct error *err) MUST_CHECK;
void model_repeat(struct model *m, int32_t n, bool train);
/* Of the last forward(). Waits for the device. */
int model_result(struct model *m, int32_t n, double *ret_loss_sum,
                 int64_t *ret_hits, struct error *err) MUST_CHECK;
/* Of the last forward(train = false); [n, classes] doubles, host. */
int model_logits(struct model *m, int32_t n, double *ret,
                 struct error *err) MUST_CHECK;

/* Device pointers, valid until model_destroy(). */
void *model_params(struct model *m);
void *model_grads(struct model *m);
void *model_running(struct model *m); /* A; for broadcast */
const struct model_plan *model_planned(const struct model *m);

/* The parameters in their order: convolutions and the classifier's weights,
 * and between them the norms' and the biases, which recipes keep from weight
 * decay. Returns how many there are. */
enum { MODEL_RANGES = 128 };
struct model_range {
    int64_t first, count;
    bool is_norm_bias;
};
int32_t model_ranges(const struct model *m,
                     struct model_range ret[MODEL_RANGES]);

/* Tensors in torchvision's state_dict() order, for safetensors and tests.
 * each() gets the name ("features.0.0.weight"), the shape and the values in
 * torchvision's layout, as T on the host, running statistics as A;
 * num_batches_tracked is an i64 scalar with dt DT_N. */
struct model_tensor {
    const char *name;
    enum dtype dt; /* DT_N: int64 */
    int32_t dims, shape[4];
    void *data; /* host */
    size_t bytes;
};
int model_export(struct model *m,
                 int (*each)(void *arg, const struct model_tensor *t,
                             struct error *err),
                 void *arg, struct error *err) MUST_CHECK;
/* One tensor by name; the shape must be this model's (of floating point types
 * each is converted to each).
 * err ERR_NOTFOUND no such name, ERR_INVAL another shape (both named) */
int model_import(struct model *m, const struct model_tensor *t,
                 struct error *err) MUST_CHECK;

#endif
