/* gpu_select.h - choose the GPU of a rank among those that it can see.
 *
 * There is one GPU for each rank of a node. The launcher shows either all GPUs
 * to each rank (mpirun, srun), or each rank its own alone (srun --gpu-bind, a
 * container). Two ranks on one GPU would halve the speed at best, so all else
 * is an error.
 */
#ifndef MGPU_WORKER_PROCESS_GPU_SELECT_H
#define MGPU_WORKER_PROCESS_GPU_SELECT_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* Chooses the GPU of a rank whose process sees `visible` GPUs.
 * err  ERR_UNAVAIL too few; names CUDA_VISIBLE_DEVICES */
int gpu_index(int32_t visible, int32_t local_rank, int32_t *ret,
              struct error *err) MUST_CHECK;

/* The value of CUDA_VISIBLE_DEVICES for this rank alone.
 *
 * in   list  its value for the ranks of this node; NULL: not set, so that
 *            every GPU is visible
 * out  ret   one of the list; "" when that hides every GPU
 * err  ERR_UNAVAIL too few, as above;  ERR_LIMIT a name over cap - 1 bytes
 */
int gpu_own(const char *list, int32_t local_rank, char *ret, size_t cap,
            struct error *err) MUST_CHECK;

#endif
