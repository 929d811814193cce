/* top.c - build the document of --top; see top.h.
 *
 * Where a job runs is in its place, which the daemon sends with each change;
 * GPU utilisation is in mgpu.gpus/1, which is requested now and then.
 */
#include "scheduler/tools/views/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/state.h"

/* Utilisation is that of the last minute; an attempt that has GPUs is included
 * however long ago it began. */
static const double look_back_s = 60;

int top_read_gpus(struct client *c, json_t **ret, struct error *err)
{
    return client_get(c, ret, err, "/v1/gpus?limit=100000&since=%.3f",
                      clock_real.wall_s(&clock_real) - look_back_s);
}

/* Whether "0,2-5" of "n1:0,2-5 n2:0" contains the index. */
static bool has_index(const char *list, int64_t index)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        int64_t from = strtoll(list, &end, 10), to = from;
        if (*end == '-')
            to = strtoll(end + 1, &end, 10);
        if (index >= from && index <= to)
            return true;
        list = end + (*end == ',');
    }
    return false;
}

static bool is_at(const char *place, const char *node, int64_t index)
{
    size_t n = strlen(node);
    for (const char *p = place; *p; p += strspn(p, " ")) {
        if (strncmp(p, node, n) == 0 && p[n] == ':' &&
            has_index(p + n + 1, index))
            return true;
        p += strcspn(p, " ");
    }
    return false;
}

/* NULL: no job of the queue. */
static const json_t *job_at(const json_t *jobs, const char *node, int64_t index)
{
    size_t i;
    json_t *job;
    json_array_foreach(jobs, i, job)
    {
        if (job_is_live(job) && is_at(field_str(job, "place"), node, index))
            return job;
    }
    return NULL;
}

/* NULL: the GPU is idle. */
static const json_t *hold_at(const json_t *holds, const char *node,
                             int64_t index)
{
    size_t i, k;
    json_t *hold, *gpu;
    json_array_foreach(holds, i, hold)
    {
        if (strcmp(field_str(hold, "node"), node) != 0 ||
            *field_str(hold, "to"))
            continue;
        json_array_foreach(json_object_get(hold, "gpus"), k, gpu)
        {
            if (json_integer_value(gpu) == index)
                return hold;
        }
    }
    return NULL;
}

static json_t *gpu_of(const json_t *queue, const json_t *gpus, bool others,
                      const json_t *node, int64_t index)
{
    const char *name = field_str(node, "name");
    const json_t *job = job_at(json_object_get(queue, "jobs"), name, index);
    const json_t *hold = hold_at(json_object_get(gpus, "holds"), name, index);
    bool is_same =
        job && hold && field_int(job, "id", 0) == field_int(hold, "job", -1);
    const json_t *who = job ? job : others ? hold : NULL;
    json_t *o = json_pack(
        "{s:s, s:I, s:O?, s:b, s:s}", "node", name, "index", (json_int_t)index,
        "gpu_type", json_object_get(node, "gpu_type"), "is_up",
        field_yes(node, "is_up"), "state", show_node_state(node));
    static const char *const keys[] = {"display_id", "name", "user"};
    (void)json_object_set_new(
        o, "job",
        who ? json_integer(field_int(who, job ? "id" : "job", 0))
            : json_null());
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *v = json_object_get(who, keys[i]);
        (void)json_object_set(o, keys[i], v ? v : json_null());
    }
    json_t *share = is_same || (who && who == hold)
                        ? json_object_get(hold, "computing")
                        : NULL;
    (void)json_object_set(o, "computing", share ? share : json_null());
    return o;
}

/* Sorts jobs with a queue position first, then by id, as held jobs are. */
static int in_line(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    int64_t i = field_int(x, "position", INT64_MAX);
    int64_t k = field_int(y, "position", INT64_MAX);
    if (i != k)
        return i < k ? -1 : 1;
    i = field_int(x, "id", 0);
    k = field_int(y, "id", 0);
    return (i > k) - (i < k);
}

static int add_jobs(const json_t *queue, json_t *o, struct error *err)
{
    json_t *jobs = json_object_get(queue, "jobs"), *job;
    json_t *runs = json_array(), *waits = json_array();
    json_t **v = calloc(json_array_size(jobs) + 1, sizeof(json_t *));
    size_t i, n = 0;
    json_array_foreach(jobs, i, job)
    {
        enum job_state s = JOB_NEW;
        (void)job_state_from_name(field_str(job, "state"), &s);
        if (job_state_is_live(s) && !job_state_is_pending(s))
            (void)json_array_append(runs, job);
        else if (v && !job_state_is_final(s))
            v[n++] = job;
    }
    if (v)
        qsort(v, n, sizeof(json_t *), in_line);
    for (i = 0; v && i < n; i++)
        (void)json_array_append(waits, v[i]);
    bool is_short = !v || !runs || !waits;
    free(v);
    if (json_object_set_new(o, "jobs", runs) < 0 ||
        json_object_set_new(o, "queue", waits) < 0 || is_short)
        return error_set(err, ERR_NOMEM, "jobs");
    return 0;
}

int top_document(const json_t *queue, const json_t *gpus, bool others,
                 json_t **ret, struct error *err)
{
    json_t *o = json_copy((json_t *)queue), *list = json_array(), *node;
    size_t i;
    json_array_foreach(json_object_get(gpus, "nodes"), i, node)
    {
        int64_t from, n = field_gpus(node, &from);
        for (int64_t k = 0; k < n; k++)
            (void)json_array_append_new(
                list, gpu_of(queue, gpus, others, node, from + k));
    }
    if (!o || json_object_set_new(o, "gpus", list) < 0 ||
        json_object_set_new(o, "schema", json_string("mgpu.top/1")) < 0 ||
        add_jobs(queue, o, err) < 0) {
        json_decref(o);
        return error_set(err, ERR_NOMEM, "the cluster's state");
    }
    *ret = o;
    return 0;
}

int top_once(struct client *c, const struct filter *filter, json_t **ret,
             struct error *err)
{
    struct buf query = BUF_INIT;
    json_t *queue = NULL, *gpus = NULL;
    int rc = filter_query(filter, &query, err);
    if (rc == 0)
        rc = client_get(c, &queue, err, "/v1/jobs?limit=100000%s",
                        buf_str(&query));
    if (rc == 0)
        rc = top_read_gpus(c, &gpus, err);
    if (rc == 0)
        rc = top_document(queue, gpus, true, ret, err);
    buf_clear(&query);
    json_decref(queue);
    json_decref(gpus);
    return rc;
}
