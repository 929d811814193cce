/* free_slots.c - see free_slots.h. */
#include "scheduler/ctld/request/free_slots.h"

#include <math.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"

int32_t free_slots_take(const struct alloc_node *nodes, size_t i, bool counts,
                        int32_t *io_room)
{
    bool is_first = i == 0 || strcmp(nodes[i - 1].name, nodes[i].name) != 0;
    if (is_first)
        *io_room = nodes[i].shared_total > 0 ? nodes[i].shared_free : INT32_MAX;
    int32_t n = nodes[i].gpus_free < *io_room ? nodes[i].gpus_free : *io_room;
    if (!counts)
        return 0;
    *io_room -= n;
    return n;
}

static bool is_shut(const struct alloc_node *nodes, size_t n, const char *name,
                    size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(nodes[i].name, name, len) == 0 && !nodes[i].name[len])
            return !nodes[i].is_up;
    return false;
}

/* The GPUs of a running job on nodes that are down or drained. */
static int64_t n_shut(const struct alloc_node *nodes, size_t n,
                      const struct job *job)
{
    int64_t words = 0;
    if (!job_state_is_live(job->state) || job->gpus < 1 || job->nodes < 1)
        return 0;
    for (const char *p = job->place; *p;) {
        size_t word = strcspn(p, " ");
        words += is_shut(nodes, n, p, strcspn(p, ": "));
        p += word;
        p += strspn(p, " ");
    }
    return words * (job->gpus / job->nodes);
}

void free_slots_count(const struct ctld *c, int64_t *ret_total,
                      int64_t *ret_free)
{
    size_t n = 0;
    int32_t room = 0;
    bool are_up = true;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    *ret_total = *ret_free = 0;
    for (size_t i = 0; i < n; i++) {
        *ret_total += nodes[i].is_up ? nodes[i].gpus_total : 0;
        *ret_free += free_slots_take(nodes, i, nodes[i].is_up, &room);
        are_up = are_up && nodes[i].is_up;
    }
    const struct job *j =
        are_up ? NULL : engine_next_since(c->engine, 0, INFINITY);
    for (; j; j = engine_next_since(c->engine, j->id, INFINITY))
        *ret_total += n_shut(nodes, n, j);
}
