/* simulation_input.c - see simulation.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/sim/elastic.h"
#include "scheduler/sim/self_checks.h"
#include "scheduler/sim/simulation.h"
#include "scheduler/sim/trace/scaling_law.h"
#include "scheduler/sim/trace/slurm_nodes.h"

static int open_gavel(const char *file, struct speed **ret, struct error *err)
{
    struct lines l;

    if (lines_open(&l, file, err) < 0)
        return -1;
    int rc = gavel_table_read(file, buf_str(&l.text), l.text.len, ret, err);
    lines_clear(&l);
    return rc;
}

static int open_sizes(const char *file, struct speed **ret, struct error *err)
{
    struct lines l;

    if (lines_open(&l, file, err) < 0)
        return -1;
    int rc = size_table_read(&l, ret, err);
    lines_clear(&l);
    return rc;
}

/* Jobs of a recorded length: fixed, or of a size that the law is for. */
static int open_law(struct simulation *s, struct error *err)
{
    const char *text =
        s->args->scaling ? s->args->scaling : SIM_SCALING_DEFAULT;
    struct scaling_law law;

    if (!s->args->elastic)
        return speed_constant(&s->speed, err);
    return scaling_law_parse(text, &law, err) < 0
               ? -1
               : scaling_law_speed(&law, &s->speed, err);
}

static int open_tables(struct simulation *s, enum trace_format f,
                       struct error *err)
{
    const struct sim_args *a = s->args;
    enum trace_format tables = TRACE_CSV;
    const char *path = NULL;

    if (a->tables && sim_args_trace(a->tables, &tables, &path, err) < 0)
        return error_wrap(err, "--tables");
    if (f == TRACE_SACCT || f == TRACE_SWF)
        return a->tables ? error_set(err, ERR_USAGE,
                                     "a trace of %s has no --tables: --scaling "
                                     "is for its elastic jobs",
                                     trace_file_format_name(f))
                         : open_law(s, err);
    if (tables != f)
        return error_set(err, ERR_USAGE, "a trace of %s needs --tables %s:PATH",
                         trace_file_format_name(f), trace_file_format_name(f));
    switch (f) {
    case TRACE_MGPU:
        return open_sizes(path, &s->speed, err);
    case TRACE_POLLUX:
        return pollux_table_open(path, a->is_adaptive, &s->speed, err);
    case TRACE_GAVEL:
        return open_gavel(path, &s->speed, err);
    case TRACE_CSV:
        return open_law(s, err);
    case TRACE_SACCT:
    case TRACE_SWF:
        break;
    }
    return 0;
}

/* "4x8", or slurm:FILE. */
static int open_cluster(const char *text, struct sim_cluster *ret,
                        struct error *err)
{
    static const char slurm[] = "slurm:";
    struct buf nodes = BUF_INIT;
    struct lines l;

    if (strncmp(text, slurm, strlen(slurm)) != 0)
        return sim_cluster_parse(text, ret, err);
    if (lines_open(&l, text + strlen(slurm), err) < 0)
        return -1;
    int rc = slurm_nodes_read(&l, &nodes, err);
    lines_clear(&l);
    if (rc == 0)
        rc = sim_cluster_parse(buf_str(&nodes), ret, err);
    buf_clear(&nodes);
    return rc;
}

/* Says what the file has beside the jobs of the trace. */
static int say_left_out(const struct sim_trace *t, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = sim_trace_say_left_out(t, &text, err);

    if (rc == 0 && text.len > 0)
        (void)fprintf(stderr, "%smgpu-sim: %s: left out: %s\n",
                      buf_str(&t->findings), t->name, buf_str(&text));
    if (rc == 0 && t->left_out.rounded > 0)
        (void)fprintf(stderr,
                      "mgpu-sim: %s: jobs with more GPUs than recorded, for "
                      "nodes to share them evenly: %zu\n",
                      t->name, t->left_out.rounded);
    buf_clear(&text);
    return rc;
}

/* Slurm ran them all, perhaps on nodes that are gone or shared unevenly. */
static int fit_recorded(struct simulation *s, enum trace_format f,
                        const char *file, struct error *err)
{
    if (f != TRACE_SACCT && f != TRACE_SWF)
        return 0;
    sim_cluster_fit_jobs(&s->cluster, &s->trace);
    return s->trace.n > 0
               ? 0
               : error_set(err, ERR_INVAL,
                           "%s: each job is larger than the cluster", file);
}

static int make_elastic(struct simulation *s, struct error *err)
{
    struct elastic e;

    if (elastic_parse(s->args->elastic, &e, err) < 0)
        return -1;
    s->n_elastic =
        elastic_apply(&e, s->args->conf.seed, s->cluster.gpus_total, &s->trace);
    if (!s->args->json || strcmp(s->args->json, "-") != 0)
        (void)printf("elastic: %zu of %zu jobs\n", s->n_elastic, s->trace.n);
    return 0;
}

static int read_trace(struct simulation *s, struct error *err)
{
    enum trace_format f;
    const char *file;

    if (sim_args_trace(s->args->trace, &f, &file, err) < 0)
        return error_wrap(err, "--trace");
    if (open_cluster(s->args->cluster, &s->cluster, err) < 0 ||
        open_tables(s, f, err) < 0 ||
        trace_file_load(f, file, s->args->procs_per_gpu, &s->trace, err) < 0 ||
        fit_recorded(s, f, file, err) < 0 || say_left_out(&s->trace, err) < 0 ||
        (s->args->elastic && make_elastic(s, err) < 0))
        return -1;
    for (size_t i = 0; i < s->trace.n; i++)
        if (s->speed->ops->prepare(s->speed, &s->trace.jobs[i], err) < 0)
            return error_wrap(err, "%s", file);
    return 0;
}

static int read_past(struct simulation *s, struct error *err)
{
    const struct sim_args *a = s->args;

    if (from_db_open(a->from_db, a->since_s, a->until_s, &s->past, err) < 0)
        return -1;
    s->trace = s->past.trace;
    s->speed = s->past.speed;
    s->past.trace = (struct sim_trace){.n = 0};
    s->past.speed = NULL;
    const char *cluster = a->cluster ? a->cluster : s->past.cluster;
    if (cluster[0] == '\0')
        return error_set(err, ERR_USAGE,
                         "no job in '%s' has run: expected --cluster",
                         a->from_db);
    return open_cluster(cluster, &s->cluster, err);
}

static int bench_trace(struct simulation *s, struct error *err)
{
    if (speed_constant(&s->speed, err) < 0)
        return -1;
    return self_bench(s->args, &s->cluster, &s->trace, err);
}

/* Each type of the cluster has its power, and each power a type. */
static int check_watts(const struct simulation *s, struct error *err)
{
    const struct sim_classes *watts = &s->args->conf.watts;
    const struct sim_cluster *c = &s->cluster;

    for (int32_t k = 0; watts->n > 0 && k < c->n_groups; k++)
        if (isnan(sim_class_value(watts, c->groups[k].type, NAN)))
            return error_set(
                err, ERR_USAGE,
                "--watts: nothing for GPUs of type '%s' of the cluster %s",
                c->groups[k].type, c->text);
    for (int32_t i = 0; i < watts->n; i++) {
        int32_t k = 0;
        while (k < c->n_groups && watts->at[i].class[0] &&
               strcmp(c->groups[k].type, watts->at[i].class) != 0)
            k++;
        if (k == c->n_groups)
            return error_set(err, ERR_USAGE,
                             "--watts: the cluster %s has no GPUs of type '%s'",
                             c->text, watts->at[i].class);
    }
    return 0;
}

int simulation_read(struct simulation *s, struct error *err)
{
    int rc = s->args->bench     ? bench_trace(s, err)
             : s->args->from_db ? read_past(s, err)
                                : read_trace(s, err);

    return rc == 0 ? check_watts(s, err) : rc;
}
