/* traces.c - every reader of mgpu-sim: traces and tables. The first byte names
 * the reader. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "scheduler/sim/trace/from_db.h"
#include "scheduler/sim/trace/pollux_app.h"
#include "scheduler/sim/trace/speed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void read_trace(int kind, struct lines *l)
{
    static int (*const readers[])(struct lines *, struct sim_trace *,
                                  struct error *) = {
        csv_trace_read, mgpu_trace_read, pollux_trace_read, gavel_trace_read};
    struct sim_trace t = {.n = 0};
    struct error err = ERROR_INIT;

    if (readers[kind](l, &t, &err) == 0 && sim_trace_sort(&t, &err) < 0)
        abort(); /* only memory can lack */
    sim_trace_clear(&t);
}

static void read_sizes(struct lines *l)
{
    struct sim_job job = {.class = "c", .work = 10};
    struct speed_place p = {"", 2, 4};
    struct error err = ERROR_INIT;
    struct speed *s;

    if (size_table_read(l, &s, &err) < 0)
        return;
    if (s->ops->prepare(s, &job, &err) == 0)
        (void)speed_time(s, &job, &p, 0, job.work);
    s->ops->destroy(s);
}

static void read_app(int kind, struct lines *l)
{
    struct pollux_app a = {.name = "a"};
    struct error err = ERROR_INIT;
    double step_s, sync_s;
    int rc = kind == 0   ? pollux_app_placements(&a, l, &err)
             : kind == 1 ? pollux_app_scalability(&a, l, &err)
                         : pollux_app_validation(&a, 8, l, &err);

    if (rc == 0 && kind == 2)
        a.first_batch = a.last_batch = 8;
    if (rc == 0 && kind == 2 && a.validations[0].n > 0) {
        (void)pollux_app_gain(&a, 16, 0);
        (void)pollux_app_progress(&a, a.validations[0].n);
    }
    if (rc == 0 && kind < 2)
        (void)pollux_app_step(&a, 3, 2, 5, &step_s, &sync_s);
    pollux_app_clear(&a);
}

static bool has_job(void *arg, uint64_t id)
{
    (void)arg;
    return id % 2 == 0;
}

static void read_past(char *text)
{
    static struct past_nodes nodes;
    char cluster[128], *spec = NULL;

    nodes.n = 0;
    past_nodes_add(&nodes, text);
    past_nodes_text(&nodes, cluster, sizeof(cluster));
    if (past_spec(text, has_job, NULL, &spec, NULL) == 0)
        free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error err = ERROR_INIT;
    struct speed *s = NULL;
    struct lines l;
    int kind = n > 0 ? data[0] % 10 : 0;

    if (n == 0 || lines_text(&l, "f", (const char *)data + 1, n - 1, &err) < 0)
        return 0;
    if (kind < 4)
        read_trace(kind, &l);
    else if (kind == 4)
        read_sizes(&l);
    else if (kind < 8)
        read_app(kind - 5, &l);
    else if (kind == 8 && l.text.len > 0)
        read_past(l.text.data);
    else if (gavel_table_read("f", buf_str(&l.text), l.text.len, &s, &err) == 0)
        s->ops->destroy(s);
    lines_clear(&l);
    return 0;
}
