/* nvml.h - which GPUs this machine has, asked of NVIDIA's driver.
 *
 * The library is opened at run time, so the program builds and runs without
 * it; the few prototypes that we use are our own.
 */
#ifndef MGPU_SLURM_NVML_H
#define MGPU_SLURM_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

struct nvml_gpu {
    char uuid[96]; /* "GPU-8f1c...": what CUDA_VISIBLE_DEVICES takes */
    char name[96]; /* "NVIDIA H100 80GB HBM3" */
    char type[32]; /* "h100" */
    char bus[32];  /* "00000000:18:00.0" */
    bool is_lost;  /* it has fallen off the bus, until the machine is started
                      again: nothing else is known of it */
};

/* The GPUs in the order of their PCI addresses, as CUDA_DEVICE_ORDER=PCI_BUS_ID
 * numbers them; those that are lost where the driver counts them.
 *
 * in   library  NULL: libnvidia-ml.so.1
 * out  gpus[cap], *ret_n
 * err  ERR_NOTFOUND there is no such library: a machine without a driver;
 *      ERR_EXTERN the driver does not answer;  ERR_LIMIT more than cap
 */
int nvml_list(const char *library, struct nvml_gpu *gpus, size_t cap,
              size_t *ret_n, struct error *err) MUST_CHECK;

/* "NVIDIA H100 80GB HBM3" -> "h100", "NVIDIA A100-SXM4-40GB" -> "a100",
 * "NVIDIA GeForce RTX 4090" -> "rtx4090"; "gpu" when nothing is left. */
void nvml_type_of(const char *name, char *ret, size_t cap);

#endif
