/* tensors.h - the model's tensors by torchvision's names, order and shapes. */
#ifndef MGPU_WORKER_CV_TENSORS_H
#define MGPU_WORKER_CV_TENSORS_H

#include "worker/cv/mobilenet_internal.h"

/* Per row: weight; norm weight, bias, running_mean, running_var,
 * num_batches_tracked. Then the classifier's two. */
enum { SLOTS_PER_ROW = 6, SLOTS = SLOTS_PER_ROW * ARCH_LAYERS + 2 };

enum slot_kind { SLOT_PARAM, SLOT_RUNNING, SLOT_TRACKED };

struct slot {
    char name[ARCH_NAME_CAP + 24];
    enum slot_kind kind;
    int32_t row;   /* -1: the classifier */
    int32_t part;  /* 0..5 in the row; 0, 1 in the classifier */
    int64_t at, n; /* offset in its array, elements */
    int32_t dims, shape[4];
};

void tensor_slot_get(const struct mobilenet *m, int32_t i, struct slot *ret);

/* Type of the slot's values on the device; not for SLOT_TRACKED. */
enum dtype tensor_slot_dtype(const struct mobilenet *m, const struct slot *s);

/* The largest n of all slots. */
int64_t tensor_slot_largest(const struct mobilenet *m);

/* Between the device and v[s->n], doubles in torchvision's layout. raw is
 * scratch for as many doubles; not for SLOT_TRACKED. */
int tensor_slot_read(struct mobilenet *m, const struct slot *s, double *v,
                     void *raw, struct error *err) MUST_CHECK;
int tensor_slot_write(struct mobilenet *m, const struct slot *s,
                      const double *v, void *raw, struct error *err) MUST_CHECK;

#endif
