/* spec_settle.c - derive the number of nodes or GPUs from
 * resources.gpus_per_node.
 *
 * It adjusts GPUs and nodes to each other, so that other code can ignore the
 * third key - except for ranges, where only multiples of it are valid. */
#include "jobs/spec/spec_table.h"

#include <string.h>

static const struct schema_from *find(const struct schema_from *from,
                                      const char *path)
{
    size_t i = 0;
    while (strcmp(spec_schema.keys[i].path, path) != 0)
        i++;
    return &from[i];
}

bool spec_is_settled(const struct job_spec *s)
{
    const struct spec_range *gpus = &s->resources.gpus;
    const struct spec_range *nodes = &s->resources.nodes;
    int32_t by = s->resources.gpus_per_node;
    return gpus->min >= by && gpus->min <= gpus->max && gpus->min % by == 0 &&
           gpus->max % by == 0 && nodes->min == gpus->min / by &&
           nodes->max == gpus->max / by;
}

void spec_settle(struct job_spec *s, const struct schema_from *from)
{
    const struct schema_from *gpus = find(from, "resources.gpus");
    const struct schema_from *nodes = find(from, "resources.nodes");
    struct spec_range g = s->resources.gpus, n = s->resources.nodes;
    int64_t by = s->resources.gpus_per_node;

    if (by < 1 || gpus->bad || nodes->bad)
        return;
    bool has_gpus = gpus->node != NULL;
    bool has_nodes = nodes->node || !has_gpus;
    int64_t lo = has_gpus ? (g.min + by - 1) / by : 1;
    int64_t hi = has_gpus ? g.max / by : INT32_MAX;
    lo = has_nodes && n.min > lo ? n.min : lo;
    hi = has_nodes && n.max < hi ? n.max : hi;
    if (lo < 1 || lo > hi)
        return; /* spec_check() reports it */
    s->resources.nodes = (struct spec_range){(int32_t)lo, (int32_t)hi};
    s->resources.gpus =
        (struct spec_range){(int32_t)(lo * by), (int32_t)(hi * by)};
}
