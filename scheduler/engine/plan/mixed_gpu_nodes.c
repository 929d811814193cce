/* mixed_gpu_nodes.c - nodes with GPUs of several types.
 *
 * Such a node is several entries of the inventory in a row, one for each type
 * (alloc.h). A policy sees as many nodes, which share their CPUs and memory.
 * All GPUs of a job there are of one type. If the job names no type, the engine
 * chooses one and stores it in the intent of each attempt (detail.gpu_type), so
 * that the request to the allocator names it, also after a restart.
 *
 * If no node has several types, none of this applies: a job that names no type
 * may get nodes of different types, and the allocator chooses. But a job that
 * asks for memory per GPU gets a type in this case, too, because an allocator
 * knows only types.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/policy/placement.h"

bool eng_is_more(const struct engine *e, size_t i)
{
    return i > 0 && strcmp(e->nodes[i - 1].name, e->nodes[i].name) == 0;
}

/* Index of the type of this name; c->n_types: none. */
static size_t find_type(const struct engine *e, const struct node_classes *c,
                        const char *name)
{
    size_t k = 0;
    while (k < c->n_types &&
           strcasecmp(e->nodes[c->of_type[k]].gpu_type, name) != 0)
        k++;
    return k;
}

void eng_part_types(const struct engine *e, struct node_classes *io)
{
    uint64_t mixed = 0; /* classes with several types; only the last class
                           can be one */

    io->n_types = 0;
    io->has_parts = false;
    for (size_t i = 0; i < e->n_nodes; i++) {
        const char *name = e->nodes[i].gpu_type;
        uint64_t bit = UINT64_C(1) << (unsigned)io->of[i];
        io->has_parts = io->has_parts || eng_is_more(e, i);
        if (name[0] == '\0')
            continue;
        size_t k = find_type(e, io, name);
        if (k == POLICY_CLASSES)
            continue; /* more types than classes: the last class holds the
                         rest */
        if (k == io->n_types) {
            io->of_type[io->n_types] = i;
            io->types[io->n_types++] = 0;
        }
        for (size_t other = 0; other < io->n_types; other++)
            mixed |= other != k ? io->types[other] & bit : 0;
        io->types[k] |= bit;
    }
    for (size_t k = 0; k < io->n_types; k++)
        io->types[k] &= ~mixed;
}

bool eng_wants_type(const struct engine *e, const struct job *job)
{
    const struct alloc_where w = eng_where(e->parts.conf, job, 1);
    bool has_memory = w.gpu_min_bytes > 0 || w.gpu_max_bytes > 0;
    return job->gpus_max > 0 && !w.gpu_type &&
           (e->classes.has_parts || (has_memory && e->classes.n_types > 1));
}

const char *eng_type_of(const struct engine *e, uint64_t classes)
{
    const struct node_classes *c = &e->classes;
    for (size_t k = 0; k < c->n_types; k++)
        if (classes != 0 && (classes & ~c->types[k]) == 0)
            return e->nodes[c->of_type[k]].gpu_type;
    return "";
}

uint64_t eng_type_classes(const struct engine *e, const char *type)
{
    if (type[0] == '\0')
        return POLICY_ANY_CLASS;
    size_t k = find_type(e, &e->classes, type);
    return k < e->classes.n_types ? e->classes.types[k] : 0;
}

/* ---- in the view -----------------------------------------------------------
 */
void eng_part_nodes(const struct engine *e, struct policy_node *nodes)
{
    for (size_t i = 0, n; i < e->n_nodes; i += n) {
        for (n = 1; i + n < e->n_nodes && eng_is_more(e, i + n);)
            n++;
        for (size_t k = 0; n > 1 && k < n; k++) {
            nodes[i + k].part = (int32_t)k;
            nodes[i + k].n_parts = (int32_t)n;
        }
        nodes[i].shared_total = n > 1 ? e->nodes[i].shared_total : 0;
        nodes[i].shared_free = nodes[i].shared_total;
    }
}

static int64_t free_in(const struct eng_view *t, uint64_t classes)
{
    int64_t n = 0;
    for (size_t i = 0; i < t->v.n_nodes; i++)
        if (t->nodes[i].is_up && place_may_use(classes, &t->nodes[i]))
            n += place_free(&t->nodes[i]);
    return n;
}

/* A job without a preference goes where most GPUs are free, and leaves rare
 * types to the jobs that need them. */
void eng_part_jobs(const struct engine *e, struct eng_view *t)
{
    const struct node_classes *c = &e->classes;
    int64_t free[POLICY_CLASSES] = {0};

    if (c->n_types < 2)
        return;
    for (size_t k = 0; k < c->n_types; k++) {
        int64_t n = t->free[k] = free_in(t, c->types[k]);
        size_t at = k;
        for (; at > 0 && free[at - 1] < n; at--) {
            free[at] = free[at - 1];
            t->sets[at] = t->sets[at - 1];
        }
        free[at] = n;
        t->sets[at] = c->types[k];
    }
    for (size_t i = 0; i < t->v.n_jobs; i++) {
        struct policy_job *pj = &t->jobs[i];
        if (pj->state != JOB_QUEUED ||
            !eng_wants_type(e, &eng_find(e, pj->id)->job))
            continue;
        pj->sets = t->sets;
        pj->n_sets = c->n_types;
    }
}

/* ---- by name ---------------------------------------------------------------
 */
/* Where the node is in the table, or would be. */
static size_t *slot_of(const struct engine *e, const struct node_classes *c,
                       const char *name, size_t len)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 1099511628211u;
    for (size_t k = (size_t)(h ^ h >> 32);; k++) {
        size_t *slot = &c->by_name[k & (c->n_by_name - 1)];
        const char *found = *slot > 0 ? e->nodes[*slot - 1].name : NULL;
        if (!found || (strncmp(found, name, len) == 0 && found[len] == '\0'))
            return slot;
    }
}

bool mixed_gpu_nodes_index(const struct engine *e, struct node_classes *io)
{
    io->n_by_name = 2;
    while (io->n_by_name < 2 * e->n_nodes)
        io->n_by_name *= 2;
    io->by_name = calloc(io->n_by_name, sizeof(*io->by_name));
    for (size_t i = 0; io->by_name && i < e->n_nodes; i++) {
        const char *name = e->nodes[i].name;
        size_t *slot = slot_of(e, io, name, strlen(name));
        if (*slot == 0)
            *slot = i + 1;
    }
    return io->by_name != NULL;
}

/* The entry, of the node that a place names, for this GPU type; the node's
 * first entry if the type is not found, for example because the node had only
 * one type when the job started. e->n_nodes: no such node. */
size_t eng_part_at(const struct engine *e, const char *name, size_t len,
                   const char *type)
{
    size_t slot = e->classes.by_name ? *slot_of(e, &e->classes, name, len) : 0;
    size_t i = slot > 0 && slot <= e->n_nodes ? slot - 1 : e->n_nodes;

    for (size_t k = i; type && k < e->n_nodes && (k == i || eng_is_more(e, k));
         k++)
        if (strcasecmp(e->nodes[k].gpu_type, type) == 0)
            return k;
    return i;
}

const char *eng_type_at(const struct engine *e, const struct job *job,
                        const char *place)
{
    size_t len = strcspn(place, ": ");
    size_t i = len > 0 ? eng_part_at(e, place, len,
                                     eng_where(e->parts.conf, job, 1).gpu_type)
                       : e->n_nodes;

    return i < e->n_nodes ? e->nodes[i].gpu_type : "";
}
