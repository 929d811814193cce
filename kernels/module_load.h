/* module_load.h - load the code of a CUDA device's kernels at once, which a
 * driver otherwise does at the first use of each. */
#ifndef MGPU_KERNELS_MODULE_LOAD_H
#define MGPU_KERNELS_MODULE_LOAD_H

#include <stdint.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct module_load {
    int32_t kernels; /* whose code is there; 0: the driver is too old */
    int32_t refused; /* the driver's error at the next one; 0: all are there */
    int64_t bytes;   /* by which the free memory fell meanwhile */
};

/* mgpu's kernels, not those of cuBLAS and NCCL. A driver older than CUDA 12.4
 * loads none, and what a driver refuses it loads at its first use.
 * err  ERR_EXTERN the device does not tell its free memory; ERR_UNAVAIL there
 *      is no plug-in */
int device_cuda_load(struct device *d, struct module_load *ret,
                     struct error *err) MUST_CHECK;

/* A symbol that the plug-in exports: "mgpu_cuda_load". */
typedef int (*device_cuda_load_f)(struct device *d, struct module_load *ret,
                                  struct error *err);
int mgpu_cuda_load(struct device *d, struct module_load *ret,
                   struct error *err);

#ifdef __cplusplus
}
#endif
#endif
