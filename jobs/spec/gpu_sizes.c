/* gpu_sizes.c - see gpu_sizes.h. */
#include "jobs/spec/gpu_sizes.h"

#include <inttypes.h>
#include <stdio.h>

enum { GPUS_MAX = 1024 }; /* of resources.gpus */

int32_t gpu_sizes_parts(const struct job_spec *s)
{
    if (s->kind == SPEC_COMMAND || s->train.global_batch_size == 0 ||
        s->train.batch_size < 1)
        return 0;
    return s->train.global_batch_size / s->train.batch_size;
}

struct gpu_sizes spec_gpu_sizes(const struct job_spec *s)
{
    return (struct gpu_sizes){.gpus = s->resources.gpus,
                              .nodes = s->resources.nodes,
                              .per_node = s->resources.gpus_per_node,
                              .parts = gpu_sizes_parts(s)};
}

/* Whatever the range is. */
static bool can_have(const struct gpu_sizes *s, int32_t gpus, int32_t nodes)
{
    int32_t first = nodes > 0 ? nodes : s->nodes.min;
    int32_t last = nodes > 0 ? nodes : s->nodes.max;
    if (nodes > 0 && (nodes < s->nodes.min || nodes > s->nodes.max))
        return false;
    for (int32_t k = first; k <= last && (k <= gpus || gpus == 0); k++)
        if (gpus % k == 0 && gpu_sizes_divide(s->parts, gpus, k) &&
            (s->per_node == 0 || gpus / k == s->per_node))
            return true;
    return false;
}

bool gpu_sizes_have(const struct gpu_sizes *s, int32_t gpus, int32_t nodes)
{
    return gpus >= s->gpus.min && gpus <= s->gpus.max &&
           can_have(s, gpus, nodes);
}

static int32_t count(const struct gpu_sizes *s, int32_t most)
{
    int32_t n = 0;
    for (int32_t g = s->gpus.min; g <= s->gpus.max && n < most; g++)
        n += can_have(s, g, 0);
    return n;
}

bool gpu_sizes_any(const struct gpu_sizes *s)
{
    return count(s, 1) > 0;
}

bool gpu_sizes_several(const struct gpu_sizes *s)
{
    return count(s, 2) > 1;
}

const char *gpu_sizes_text(const struct gpu_sizes *s, char out[GPU_SIZES_CAP])
{
    int32_t all = s->gpus.max - s->gpus.min + 1;
    size_t len = 0;

    out[0] = '\0';
    if (all > 2 && count(s, all) == all) {
        (void)snprintf(out, GPU_SIZES_CAP, "%" PRId32 "..%" PRId32, s->gpus.min,
                       s->gpus.max);
        return out;
    }
    for (int32_t g = s->gpus.min; g <= s->gpus.max; g++) {
        if (!can_have(s, g, 0))
            continue;
        if (len + 20 > GPU_SIZES_CAP) {
            (void)snprintf(out + len, GPU_SIZES_CAP - len, ", ...");
            break;
        }
        len += (size_t)snprintf(out + len, GPU_SIZES_CAP - len, "%s%" PRId32,
                                len > 0 ? ", " : "", g);
    }
    return out;
}

int32_t gpu_sizes_nearest(const struct gpu_sizes *s)
{
    for (int32_t off = 1; off < GPUS_MAX; off++) {
        if (s->gpus.min - off >= 1 && can_have(s, s->gpus.min - off, 0))
            return s->gpus.min - off;
        if (s->gpus.max + off <= GPUS_MAX && can_have(s, s->gpus.max + off, 0))
            return s->gpus.max + off;
    }
    return 0;
}
