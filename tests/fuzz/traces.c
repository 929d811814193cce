/* traces.c - every reader of mgpu-sim: traces, tables, compressed files, and
 * what a state directory has. READER, 0 to 15, or else the first byte names the
 * reader. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/sim/past/from_db.h"
#include "scheduler/sim/trace/gz_text.h"
#include "scheduler/sim/trace/pollux_app.h"
#include "scheduler/sim/trace/scaling_law.h"
#include "scheduler/sim/trace/slurm_nodes.h"
#include "scheduler/sim/trace/speed.h"

enum { READERS = 16 };

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
    char cluster[128], *spec = NULL, *sized = NULL;

    nodes.n = 0;
    past_nodes_add(&nodes, text);
    past_nodes_text(&nodes, cluster, sizeof(cluster));
    if (past_spec(text, has_job, NULL, &spec, NULL) == 0 &&
        past_spec_sized(spec, 4, &sized, NULL) == 0)
        free(sized);
    free(spec);
}

static void read_settings(struct lines *l)
{
    struct past p = {.n_actions = 0};
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;

    if (past_settings_read(l, 1.79e9, 1.8e9, &p, &err) == 0 &&
        (p.n_settings == 0 || past_not_replayed(&p, &text, &err) < 0))
        abort(); /* there is always a first one */
    buf_clear(&text);
    free(p.settings);
}

/* Traces that go on after a bad line: each job has GPUs and a length. */
static void read_recorded(int kind, struct lines *l)
{
    struct sim_trace t = {.n = 0};
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = kind == 0 ? sacct_trace_read(l, &t, &err)
                       : swf_trace_read(l, 4, &t, &err);

    for (size_t i = 0; rc == 0 && i < t.n; i++)
        if (t.jobs[i].gpus_min < 1 || !(t.jobs[i].work >= 0) ||
            !(t.jobs[i].submit_s >= 0) || !t.jobs[i].class[0])
            abort();
    if (rc == 0 && sim_trace_say_left_out(&t, &text, &err) < 0)
        abort();
    buf_clear(&text);
    sim_trace_clear(&t);
}

static void read_nodes(struct lines *l)
{
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;

    if (slurm_nodes_read(l, &text, &err) == 0 && text.len == 0)
        abort(); /* it says that there is none */
    buf_clear(&text);
}

/* A file with these bytes. */
static void make_file(const uint8_t *data, size_t n, char *ret, size_t cap,
                      const char *prefix)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("traces", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, data, n, 0) != (ssize_t)n)
        abort();
    (void)snprintf(ret, cap, "%s/proc/self/fd/%d", prefix, fd);
}

static void read_law(const uint8_t *data, size_t n)
{
    const struct sim_job job = {.work = 10, .work_gpus = 2};
    const struct speed_place place = {"", 1, 3};
    struct scaling_law law;
    struct error err = ERROR_INIT;
    struct speed *s;
    char text[40];

    make_file(data, n, text, sizeof(text), "table:");
    if (scaling_law_parse(text, &law, &err) < 0 ||
        scaling_law_speed(&law, &s, &err) < 0)
        return;
    if (!(speed_time(s, &job, &place, 0, job.work) > 0))
        abort();
    s->ops->destroy(s);
}

/* As a file, because zlib reads a descriptor. */
static void read_file(const uint8_t *data, size_t n)
{
    char path[40];
    struct lines l;
    struct error err = ERROR_INIT;

    make_file(data, n, path, sizeof(path), "");
    if (lines_open(&l, path, &err) < 0)
        return;
    read_trace(0, &l);
    lines_clear(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct error err = ERROR_INIT;
    struct speed *s = NULL;
    struct lines l;
    const char *only = getenv("READER");
    int kind = only ? (int)strtol(only, NULL, 10) : n > 0 ? data[0] : 0;

    kind %= READERS;

    if (kind == 11 || kind == 15) {
        (kind == 11 ? read_file : read_law)(data + 1, n > 0 ? n - 1 : 0);
        return 0;
    }
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
    else if (kind == 10)
        read_settings(&l);
    else if (kind == 12 || kind == 13)
        read_recorded(kind - 12, &l);
    else if (kind == 14)
        read_nodes(&l);
    else if (gavel_table_read("f", buf_str(&l.text), l.text.len, &s, &err) == 0)
        s->ops->destroy(s);
    lines_clear(&l);
    return 0;
}
