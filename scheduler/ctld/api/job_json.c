/* job_json.c - what replies about jobs have in common. */
#include "scheduler/ctld/api/job_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "scheduler/ctld/ctld_internal.h"

json_t *job_json_sweep(const struct ctld *c, const struct job *job)
{
    int count[JOB_STATE_N] = {0};
    if (job->sweep == 0 || job->sweep != job->id)
        return json_null();
    for (int32_t i = 0; i < job->n_tasks; i++) {
        const struct job *j = engine_job(c->engine, job->sweep + (uint64_t)i);
        if (j)
            j = engine_settled(c->engine, j);
        count[j ? j->state : JOB_NEW]++;
    }
    json_t *states = json_object();
    for (int s = 0; states && s < JOB_STATE_N; s++)
        if (count[s] > 0)
            (void)json_object_set_new(states, job_state_name((enum job_state)s),
                                      json_integer(count[s]));
    return json_pack("{s:I, s:i, s:i, s:b, s:o}", "id", (json_int_t)job->sweep,
                     "n_tasks", job->n_tasks, "max_parallel", job->max_parallel,
                     "stop_on_fail", job->stop_on_fail, "states", states);
}

/* The first task of its sweep that asks something of a GPU's memory; NULL:
 * none does, nor a job by itself. */
static const struct job *asks_memory(const struct ctld *c,
                                     const struct job *job)
{
    int32_t n = job->sweep > 0 && job->sweep == job->id ? job->n_tasks : 1;
    for (int32_t i = 0; i < n; i++) {
        const struct job *j =
            i == 0 ? job : engine_job(c->engine, job->id + (uint64_t)i);
        if (j && (j->where.gpu_min_bytes > 0 || j->where.gpu_max_bytes > 0))
            return j;
    }
    return NULL;
}

json_t *job_json_warnings(const struct ctld *c, const struct job *job)
{
    const struct job *asks =
        job_state_is_final(job->state) ? NULL : asks_memory(c, job);
    size_t n_all = 0, n_may = 0, n_unknown = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n_all);
    char text[200];

    for (size_t i = 0; asks && i < n_all; i++) {
        bool may = nodes[i].gpus_total > 0 &&
                   engine_node_fits(c->engine, asks, i, false);
        n_may += may;
        n_unknown += may && nodes[i].gpu_bytes == 0;
    }
    if (n_unknown == 0)
        return NULL;
    (void)snprintf(text, sizeof(text),
                   "what memory the GPUs of %zu of %zu nodes have is not "
                   "known, and these are not left out",
                   n_unknown, n_may);
    return json_pack("[{s:s, s:s, s:s}]", "code", "W201", "path",
                     "resources.gpu_memory", "message", text);
}

int32_t job_json_take_free(const struct alloc_node *nodes, size_t i,
                           bool counts, int32_t *io_room)
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

/* GPUs of a job that are on nodes which are down or drained: it goes on. */
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

void job_json_slots(const struct ctld *c, int64_t *ret_total, int64_t *ret_free)
{
    size_t n = 0;
    int32_t room = 0;
    bool are_up = true;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    *ret_total = *ret_free = 0;
    for (size_t i = 0; i < n; i++) {
        *ret_total += nodes[i].is_up ? nodes[i].gpus_total : 0;
        *ret_free += job_json_take_free(nodes, i, nodes[i].is_up, &room);
        are_up = are_up && nodes[i].is_up;
    }
    const struct job *j =
        are_up ? NULL : engine_next_since(c->engine, 0, INFINITY);
    for (; j; j = engine_next_since(c->engine, j->id, INFINITY))
        *ret_total += n_shut(nodes, n, j);
}
