/* past_spec.c - what of a recorded job a simulated cluster can honour, and the
 * cluster that the recorded places show. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/past/from_db.h"

enum { GPUS_MAX = 1024 };

/* "12" and "afterok:12" name job 12; "12_3" is a task. */
static uint64_t depends_id(const json_t *item)
{
    const char *s = json_string_value(item);
    const char *colon = s ? strrchr(s, ':') : NULL;

    if (json_is_integer(item))
        return (uint64_t)json_integer_value(item);
    return s ? strtoull(colon ? colon + 1 : s, NULL, 10) : 0;
}

static void filter_depends(json_t *list, bool (*has_job)(void *, uint64_t),
                           void *arg)
{
    for (size_t i = json_array_size(list); i-- > 0;)
        if (!has_job(arg, depends_id(json_array_get(list, i))))
            (void)json_array_remove(list, i);
}

int past_spec(const char *spec, bool (*has_job)(void *arg, uint64_t id),
              void *arg, char **ret, struct error *err)
{
    static const char *const dropped[] = {
        "partition",  "constraint",   "reservation", "gpu_type",
        "gpu_memory", "cpus_per_gpu", "memory"};
    json_t *o = json_loads(spec, 0, NULL);

    if (!json_is_object(o)) {
        json_decref(o);
        return error_set(err, ERR_INVAL, "its specification is no JSON object");
    }
    json_t *resources = json_object_get(o, "resources");
    for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
        if (json_object_get(resources, dropped[i]))
            (void)json_object_set_new(resources, dropped[i], json_null());
    filter_depends(json_object_get(o, "depends_on"), has_job, arg);
    char *text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "specification");
    *ret = text;
    return 0;
}

int past_spec_sized(const char *spec, int32_t gpus, char **ret,
                    struct error *err)
{
    json_t *o = json_loads(spec, 0, NULL);
    json_t *resources = json_object_get(o, "resources");
    char *text = NULL;

    if (!json_is_object(resources)) {
        json_decref(o);
        return error_set(err, ERR_INVAL, "its specification has no resources");
    }
    if (json_object_set_new(resources, "gpus", json_integer(gpus)) == 0)
        text = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "specification");
    *ret = text;
    return 0;
}

/* ---- sweeps ---------------------------------------------------------------
 */
/* The simulation submits a sweep as one if all of its tasks are there; other
 * tasks are jobs of their own. */
static bool is_whole(const struct sim_trace *t, size_t i)
{
    size_t n = (size_t)t->jobs[i].n_tasks;

    for (size_t k = 0; k < n; k++)
        if (i + k >= t->n || t->jobs[i + k].task != (int32_t)k ||
            t->jobs[i + k].n_tasks != t->jobs[i].n_tasks ||
            t->jobs[i + k].id != t->jobs[i].id + k)
            return false;
    return true;
}

void past_find_sweeps(struct past *p)
{
    struct sim_trace *t = &p->trace;

    for (size_t i = 0; i < t->n;) {
        struct sim_job *job = &t->jobs[i];
        if (job->n_tasks > 0 && is_whole(t, i)) {
            i += (size_t)job->n_tasks;
            continue;
        }
        p->n_cut += job->n_tasks > 0;
        job->n_tasks = 0;
        i++;
    }
}

/* ---- the cluster ----------------------------------------------------------
 */
/* The highest index of "0-3,5", plus one. */
static int32_t gpus_of(const char *p)
{
    long most = -1;

    while (*p && *p != ' ') {
        char *end;
        long i = strtol(p, &end, 10);
        if (end == p)
            break;
        most = i > most ? i : most;
        p = *end == ',' || *end == '-' ? end + 1 : end;
    }
    return most < 0 ? 1 : most < GPUS_MAX ? (int32_t)most + 1 : GPUS_MAX;
}

void past_nodes_add(struct past_nodes *n, const char *place)
{
    for (const char *p = place; *p; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        size_t len = strcspn(p, ": "), i = 0;
        if (p[len] != ':' || len >= sizeof(n->at[0].name))
            continue;
        while (i < n->n && (strncmp(n->at[i].name, p, len) != 0 ||
                            n->at[i].name[len] != '\0'))
            i++;
        if (i == PAST_NODES_MAX)
            return;
        if (i == n->n) {
            memcpy(n->at[i].name, p, len);
            n->at[n->n++].gpus = 0;
        }
        int32_t gpus = gpus_of(p + len + 1);
        if (gpus > n->at[i].gpus)
            n->at[i].gpus = gpus;
    }
}

void past_nodes_text(const struct past_nodes *n, char *ret, size_t cap)
{
    size_t len = 0;

    ret[0] = '\0';
    for (int32_t gpus = GPUS_MAX; gpus > 0; gpus--) {
        int32_t nodes = 0;
        for (size_t i = 0; i < n->n; i++)
            nodes += n->at[i].gpus == gpus;
        if (nodes > 0 && len < cap)
            len +=
                (size_t)snprintf(ret + len, cap - len, "%s%" PRId32 "x%" PRId32,
                                 len ? "," : "", nodes, gpus);
    }
}
