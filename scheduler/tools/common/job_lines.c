/* job_lines.c - print the elements of a list one per line, as JSON or as ids;
 * see job_lines.h.
 */
#include "scheduler/tools/common/job_lines.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"

static const struct {
    const char *schema, *list; /* of the document */
    const char *line, *name;   /* of each element */
} lists[] = {
    {"mgpu.queue/1", "jobs", "mgpu.job/1", "job"},
    {"mgpu.nodes/1", "nodes", "mgpu.node/1", "node"},
    {"mgpu.gpus/1", "holds", "mgpu.hold/1", "hold"},
    {"mgpu.events/1", "events", "mgpu.event/1", "event"},
};

/* own  takes o */
static int print(json_t *o, struct error *err)
{
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

/* {"job":12,"attempt":1,...} */
static json_t *named(const json_t *reply, const json_t *row)
{
    json_t *o = json_object(), *v;
    size_t i;
    (void)json_object_set(o, "job", json_object_get(reply, "job"));
    json_array_foreach(row, i, v)
    {
        const json_t *name =
            json_array_get(json_object_get(reply, "columns"), i);
        if (json_is_string(name))
            (void)json_object_set(o, json_string_value(name), v);
    }
    return o;
}

/* "mgpu.iterations/1" becomes "iterations". */
static int print_rows(const json_t *reply, struct error *err)
{
    const char *schema = field_str(reply, "schema"), *dot = strchr(schema, '.');
    char view[40];
    int rc = 0;
    size_t i;
    json_t *row;
    (void)snprintf(view, sizeof(view), "%s", dot ? dot + 1 : schema);
    view[strcspn(view, "/")] = '\0';
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        if (rc == 0)
            rc = print(json_pack("{s:s, s:s, s:o}", "schema", "mgpu.row/1",
                                 "view", view, "row", named(reply, row)),
                       err);
    }
    return rc;
}

static int print_eff(const json_t *reply, struct error *err)
{
    int rc = 0;
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        if (rc == 0)
            rc = print(
                json_pack("{s:s, s:[O]}", "schema", "mgpu.eff/1", "jobs", job),
                err);
    }
    return rc;
}

int lines_print(const json_t *reply, struct error *err)
{
    const char *schema = field_str(reply, "schema");
    int rc = 0;
    size_t i;
    json_t *one;
    if (strcmp(schema, "mgpu.eff/1") == 0)
        return print_eff(reply, err);
    if (json_object_get(reply, "rows")) {
        const json_t *values = json_object_get(reply, "values");
        rc = print_rows(reply, err);
        return rc == 0 && values ? print_rows(values, err) : rc;
    }
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        if (strcmp(schema, lists[k].schema) != 0)
            continue;
        json_array_foreach(json_object_get(reply, lists[k].list), i, one)
        {
            if (rc == 0)
                rc = print(json_pack("{s:s, s:O}", "schema", lists[k].line,
                                     lists[k].name, one),
                           err);
        }
        return rc;
    }
    return client_print(reply, err);
}

/* A node with GPUs of several types has one entry per type. */
static void node_ids(const json_t *nodes, FILE *out)
{
    char name[300], last[300] = "";
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        (void)render_escape(field_str(node, "name"), name, sizeof(name));
        if (strcmp(name, last) != 0)
            (void)fprintf(out, "%s\n", name);
        (void)snprintf(last, sizeof(last), "%s", name);
    }
}

static void gpu_ids(const json_t *nodes, FILE *out)
{
    char name[300];
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
    {
        int64_t from, n = field_gpus(node, &from);
        (void)render_escape(field_str(node, "name"), name, sizeof(name));
        for (int64_t k = 0; k < n; k++)
            (void)fprintf(out, "%s:%" PRId64 "\n", name, from + k);
    }
}

void lines_ids(const json_t *reply, FILE *out)
{
    const json_t *nodes = json_object_get(reply, "nodes");
    char id[64];
    size_t i;
    json_t *job;
    if (json_object_get(reply, "holds"))
        gpu_ids(nodes, out);
    else if (nodes)
        node_ids(nodes, out);
    json_array_foreach(json_object_get(reply, "jobs"), i, job)
    {
        (void)fprintf(
            out, "%s\n",
            render_escape(field_str(job, "display_id"), id, sizeof(id)));
    }
}
