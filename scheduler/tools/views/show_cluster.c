/* show_cluster.c - print the nodes, and the state of the daemon. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jobs/state.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

/* An older daemon only reports whether the node is up. */
const char *show_node_state(const json_t *node)
{
    const char *state = field_str(node, "state");
    return *state ? state : field_yes(node, "is_up") ? "up" : "down";
}

const char *show_idle(const json_t *node)
{
    const char *state = show_node_state(node);
    return strcmp(state, "up") == 0     ? "free"
           : strcmp(state, "down") == 0 ? "down"
                                        : "drained";
}

/* Prints why a node is down before its reservation: down concerns every job. */
static int add_node(struct render_table *t, const json_t *n, struct error *err)
{
    const char *held = field_str(n, "reservation");
    bool up = field_yes(n, "is_up");
    bool is_open = !json_is_false(json_object_get(n, "is_open"));
    int64_t drained = field_int(n, "gpus_drained", 0);
    char state[48];

    (void)snprintf(state, sizeof(state), "%s",
                   up && !is_open ? "closed" : show_node_state(n));
    if (up && drained > 0)
        (void)snprintf(state, sizeof(state), "%s, %" PRId64 " drained",
                       is_open ? "up" : "closed", drained);
    if (render_table_add(t, err, "%s", field_str(n, "name")) < 0 ||
        render_table_add(t, err, "%s", field_str(n, "gpu_type")) < 0 ||
        render_table_add(t, err, "%" PRId64, field_int(n, "gpus_total", 0)) <
            0 ||
        render_table_add(t, err, "%" PRId64, field_int(n, "gpus_free", 0)) <
            0 ||
        render_table_add(t, err, "%s", state) < 0)
        return -1;
    render_table_paint(t, strcmp(state, "down") == 0       ? RENDER_BAD
                          : !up || !is_open || drained > 0 ? RENDER_ODD
                                                           : RENDER_PLAIN);
    if (render_table_add(t, err, "%s", field_str(n, "partitions")) < 0 ||
        render_table_add(t, err, "%s", field_str(n, "used")) < 0 ||
        render_table_add(t, err, "%s%s%s%s", field_str(n, "why"),
                         *field_str(n, "why") && *held ? "; " : "",
                         *held ? "reservation " : "", held) < 0)
        return -1;
    return 0;
}

int show_nodes(const struct show_conf *s, const json_t *reply,
               struct error *err)
{
    static const struct render_column columns[] = {
        {"NODE", RENDER_LEFT},    {"TYPE", RENDER_LEFT},
        {"TOTAL", RENDER_RIGHT},  {"FREE", RENDER_RIGHT},
        {"STATE", RENDER_LEFT},   {"PARTITIONS", RENDER_LEFT},
        {"USED BY", RENDER_LEFT}, {"WHY", RENDER_LEFT},
    };
    struct render_table *t = NULL;
    if (render_table_create(columns, sizeof(columns) / sizeof(*columns), &t,
                            err) < 0)
        return -1;
    size_t i;
    json_t *n;
    int rc = 0;
    json_array_foreach(json_object_get(reply, "nodes"), i, n)
    {
        if (rc == 0)
            rc = add_node(t, n, err);
    }
    if (rc == 0)
        render_table_print(t, &s->style, s->header, s->out);
    render_table_destroy(t);
    return rc;
}

static void print_loop(const struct show_conf *s, const json_t *loop)
{
    char longest[32], n[32];
    if (!loop)
        return;
    (void)fprintf(
        s->out, "%-12s longest callback %s of %s\n", "loop",
        render_time(field_real(loop, "longest_s"), longest, sizeof(longest)),
        render_count(field_int(loop, "callbacks", 0), n, sizeof(n)));
}

static void print_allocator(const struct show_conf *s, const json_t *state)
{
    char why[600], since[64];
    if (!state || field_yes(state, "is_ok"))
        return;
    (void)fprintf(
        s->out, "%-12s unavailable since %s: %s\n", "",
        render_escape(field_str(state, "since"), since, sizeof(since)),
        render_escape(field_str(state, "why"), why, sizeof(why)));
}

int show_status(const struct show_conf *s, const json_t *reply,
                struct error *err)
{
    static const char *const keys[] = {
        "version",    "pid",         "cluster",    "allocator",
        "policy",     "started",     "state_dir",  "state_db",
        "metrics_db", "slots_total", "slots_free",
    };
    char safe[1200];
    (void)err;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const json_t *v = json_object_get(reply, keys[i]);
        if (json_is_string(v))
            (void)fprintf(
                s->out, "%-12s %s\n", keys[i],
                render_escape(json_string_value(v), safe, sizeof(safe)));
        else if (json_is_integer(v))
            (void)fprintf(s->out, "%-12s %" JSON_INTEGER_FORMAT "\n", keys[i],
                          json_integer_value(v));
        if (strcmp(keys[i], "allocator") == 0)
            print_allocator(s, json_object_get(reply, "allocator_state"));
    }
    print_loop(s, json_object_get(reply, "loop"));
    const json_t *jobs = json_object_get(reply, "jobs");
    for (int st = 0; st < JOB_STATE_N; st++) {
        const char *name = job_state_name((enum job_state)st);
        int64_t n = field_int(jobs, name, 0);
        if (n > 0)
            (void)fprintf(s->out, "  %-12s %" PRId64 "\n", name, n);
    }
    return 0;
}
