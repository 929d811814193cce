/* gpu_use.h - how busy a rank's GPUs are while a user's program has them, by
 * NVIDIA's NVML.
 *
 * A thread opens the library and samples, because a driver whose GPU has fallen
 * off the bus blocks each caller; ending it does not wait for such a thread. */
#ifndef MGPU_WORKER_PROCESS_GPU_USE_H
#define MGPU_WORKER_PROCESS_GPU_USE_H

#include <stdint.h>

#include "jobs/base/error.h"

struct gpu_use;

/* GPU milliseconds; a GPU is busy while a kernel runs on it. */
struct gpu_used {
    int64_t busy_ms;
    int64_t gpus_ms; /* that were sampled; 0: none were */
};

/* in   library  NULL: libnvidia-ml.so.1
 *      list     a value of CUDA_VISIBLE_DEVICES: "0,1", "GPU-aaaa"
 *      each_ms  between two samples
 * out  ret      NULL, and 0 returned, if the list is empty
 * err  ERR_NOMEM, ERR_EXTERN no thread */
int gpu_use_begin(const char *library, const char *list, int each_ms,
                  struct gpu_use **ret, struct error *err) MUST_CHECK;
/* Frees u, or leaves it to a thread that hangs in the driver. NULL is fine.
 * out  why  the first thing that could not be asked; code ERR_NONE: nothing */
struct gpu_used gpu_use_end(struct gpu_use *u, struct error *why);

#endif
