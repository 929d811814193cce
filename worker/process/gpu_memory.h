/* gpu_memory.h - memory in use on the GPU, by NVIDIA's NVML: all of it, not
 * only our own. */
#ifndef MGPU_WORKER_PROCESS_GPU_MEMORY_H
#define MGPU_WORKER_PROCESS_GPU_MEMORY_H

#include <stdint.h>

#include "jobs/base/error.h"

struct gpu_memory;

/* in   library  NULL: libnvidia-ml.so.1
 *      bus      the PCI address, as device_ops.bus says it
 * err  ERR_NOTFOUND, ERR_EXTERN  as nvml_library_open();  ERR_EXTERN it does
 *      not know the GPU */
int gpu_memory_open(const char *library, const char *bus,
                    struct gpu_memory **ret, struct error *err) MUST_CHECK;
int gpu_memory_read(struct gpu_memory *m, int64_t *ret_used_bytes,
                    int64_t *ret_total_bytes, struct error *err) MUST_CHECK;
void gpu_memory_close(struct gpu_memory *m); /* NULL is fine */

#endif
