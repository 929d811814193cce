/* optimizer.h - one step of SGD or AdamW over all parameters at once, and
 * the state that it keeps. As PyTorch's optimizers do by default, weight
 * decay applies to every parameter. */
#ifndef MGPU_WORKER_OPTIMIZER_H
#define MGPU_WORKER_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/spec.h"
#include "kernels/device.h"

struct optimizer {
    struct device *dev; /* borrowed */
    const struct job_spec *spec;
    enum dtype dt;
    int64_t n;
    void *m, *v; /* owned, A on the device; v: AdamW only */
};

/* Bytes of device memory that optimizer_init() will take. */
int64_t optimizer_bytes(const struct job_spec *spec, enum dtype dt, int64_t n);

int optimizer_init(struct optimizer *ret, struct device *dev,
                   const struct job_spec *spec, enum dtype dt, int64_t n,
                   struct error *err) MUST_CHECK;
void optimizer_clear(struct optimizer *o); /* zeroed is fine */

/* step counts from 1; lr is the whole rate, schedule included. */
int optimizer_step(struct optimizer *o, void *params, const void *grads,
                   int64_t step, double lr, struct error *err) MUST_CHECK;

#endif
