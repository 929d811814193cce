/* gpu_sizes.h - the numbers of GPUs that a job may have: those of its range
 * that its nodes allow and, with train.global_batch_size, among which its
 * micro-batches can be divided equally. */
#ifndef MGPU_JOBS_SPEC_GPU_SIZES_H
#define MGPU_JOBS_SPEC_GPU_SIZES_H

#include "jobs/spec/spec.h"

struct gpu_sizes {
    struct spec_range gpus, nodes;
    int32_t per_node; /* GPUs on each node; 0: any number */
    int32_t parts;    /* micro-batches of an iteration, which the ranks divide
                       * equally among them; 0: any number of ranks */
};

/* Micro-batches of an iteration; 0: no train.global_batch_size. */
int32_t gpu_sizes_parts(const struct job_spec *s);
struct gpu_sizes spec_gpu_sizes(const struct job_spec *s);

/* Whether ranks of that number can divide the parts equally: one per GPU, or
 * without GPUs one per node. */
static inline bool gpu_sizes_divide(int32_t parts, int64_t gpus, int64_t nodes)
{
    int64_t ranks = gpus > 0 ? gpus : nodes;
    return parts == 0 || (ranks > 0 && parts % ranks == 0);
}

/* in   nodes  0: any number of nodes of its range */
bool gpu_sizes_have(const struct gpu_sizes *s, int32_t gpus, int32_t nodes);
/* Whether there is any, and more than one. */
bool gpu_sizes_any(const struct gpu_sizes *s);
bool gpu_sizes_several(const struct gpu_sizes *s);

/* "1, 2, 3, 4, 6, 12", or "1..8" if all are; cut with "..." at cap. Returns
 * out. */
enum { GPU_SIZES_CAP = 96 };
const char *gpu_sizes_text(const struct gpu_sizes *s, char out[GPU_SIZES_CAP]);

/* The allowed number that is nearest to the range; 0: there is none. */
int32_t gpu_sizes_nearest(const struct gpu_sizes *s);

#endif
