/* main.c - mgpu-sim(1): the scheduler of the daemon in virtual time. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/conf/conf.h"
#include "scheduler/sim/args.h"
#include "scheduler/sim/elastic.h"
#include "scheduler/sim/output/gantt_svg.h"
#include "scheduler/sim/output/run_figures.h"
#include "scheduler/sim/replay.h"
#include "scheduler/sim/self_checks.h"
#include "scheduler/sim/trace/scaling_law.h"
#include "scheduler/sim/trace/slurm_nodes.h"
#include "scheduler/tools/common/client.h"

/* All that the runs share. */
struct simulation {
    struct sim_args *args;
    struct past past; /* of --from-db; its trace and speed are the ones below */
    struct replay replays[SIM_POLICIES_MAX];
    char ran[REPLAY_POLICY_CAP]; /* the policy of the past */
    struct sim_cluster cluster;
    struct sim_trace trace;
    struct speed *speed;
    struct run_figures recorded; /* jobs 0: of no job */
    struct sim_named runs[SIM_POLICIES_MAX];
    size_t n_runs;
};

/* ---- input ----------------------------------------------------------------
 */
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
    const char *text = s->args->scaling ? s->args->scaling : "amdahl:0.95";
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
    size_t n =
        elastic_apply(&e, s->args->conf.seed, s->cluster.gpus_total, &s->trace);
    if (!s->args->json || strcmp(s->args->json, "-") != 0)
        (void)printf("elastic: %zu of %zu jobs\n", n, s->trace.n);
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

/* ---- runs -----------------------------------------------------------------
 */
/* The keys of the policy, as they are in force. */
static void add_parameter(void *arg, const struct conf_value *v)
{
    static const char prefix[] = "scheduler.";
    struct sim_named *run = arg;

    if (v->key == CONF_POLICY &&
        strncmp(v->path, prefix, strlen(prefix)) == 0 &&
        strcmp(v->path, "scheduler.policy") != 0)
        (void)json_object_set_new(run->parameters, v->path + strlen(prefix),
                                  json_string(v->value));
}

/* The actions of people in the past, and the settings of the first moment. */
static int replay_past(struct simulation *s, const char *word,
                       struct past_settings *ret, struct error *err)
{
    const char *config = s->args->config;
    struct replay *r = &s->replays[s->n_runs];
    bool is_past;

    if (replay_is_past(&s->past, config, word, s->ran, &is_past, err) < 0 ||
        replay_make(&s->past, &s->trace, config, word, is_past, r, err) < 0)
        return -1;
    s->args->conf.actions = r->actions;
    s->args->conf.n_actions = r->n;
    *ret = replay_begin(&s->past, is_past);
    return 0;
}

static int run_policy(struct simulation *s, const char *word, struct error *err)
{
    struct sim_named *run = &s->runs[s->n_runs];
    struct past_settings past = {.n = 0};
    struct conf conf;

    if ((s->args->from_db && replay_past(s, word, &past, err) < 0) ||
        sim_policy_args(s->args->config, word, &past, &conf, err) < 0)
        return -1;
    struct sim_policy policy = sim_policy_args_of(&conf);
    s->args->conf.is_fixed = policy.policy != &policy_goodput;
    (void)snprintf(run->name, sizeof(run->name), "%s", conf.scheduler.policy);
    (void)snprintf(run->label, sizeof(run->label), "%s",
                   s->args->sweep ? s->args->sweep_values[s->n_runs]
                                  : run->name);
    run->parameters = json_object();
    s->n_runs++;
    int rc = run->parameters ? conf_each_value(&conf, add_parameter, run, err)
                             : error_set(err, ERR_NOMEM, "parameters");
    conf_clear(&conf);
    if (rc == 0)
        rc = sim_run(&s->args->conf, &policy, &run->out, err);
    if (rc == 0)
        rc = run_figures(&s->args->conf, &run->out, &run->figures, err);
    return rc;
}

static int run_all(struct simulation *s, struct error *err)
{
    const struct sim_args *a = s->args;

    s->args->conf.cluster = &s->cluster;
    s->args->conf.trace = &s->trace;
    s->args->conf.speed = s->speed;
    if (a->n_policies == 0)
        return run_policy(s, NULL, err);
    for (size_t i = 0; i < a->n_policies; i++)
        if (run_policy(s, a->policies[i], err) < 0)
            return error_wrap(err, "%s", a->policies[i]);
    return 0;
}

/* ---- output ---------------------------------------------------------------
 */
/* "a.svg" of the second of several runs is "a.2.svg", "a.csv.gz" "a.2.csv.gz".
 */
static void numbered(const char *path, size_t i, size_t n, char *ret,
                     size_t cap)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strchr(slash ? slash + 1 : path, '.');
    int stem = dot ? (int)(dot - path) : (int)strlen(path);

    if (n == 1 || strcmp(path, "-") == 0)
        (void)snprintf(ret, cap, "%s", path);
    else
        (void)snprintf(ret, cap, "%.*s.%zu%s", stem, path, i + 1,
                       dot ? dot : "");
}

static int write_text(struct simulation *s, const char *path,
                      int (*make)(const struct sim_conf *conf,
                                  const struct sim_output *o, struct buf *out,
                                  struct error *err),
                      struct error *err)
{
    char name[4096];

    for (size_t i = 0; path && i < s->n_runs; i++) {
        struct buf text = BUF_INIT;
        numbered(path, i, s->n_runs, name, sizeof(name));
        int rc = make(&s->args->conf, &s->runs[i].out, &text, err);
        if (rc == 0)
            rc = sim_csv_write(name, &text, err);
        buf_clear(&text);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static void add_stranded(const struct past *p, json_t *o)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_stranded; i++) {
        const struct past_stranded *one = &p->stranded[i];
        (void)json_array_append_new(
            list, json_pack("{s:I, s:s, s:i, s:f, s:o, s:b}", "job",
                            (json_int_t)one->job, "name", one->name, "gpus",
                            one->gpus, "from_s", one->from_s, "until_s",
                            isfinite(one->until_s) ? json_real(one->until_s)
                                                   : json_null(),
                            "is_left_out", one->is_last));
    }
    (void)json_object_set_new(o, "stranded", list);
    (void)json_object_set_new(o, "recorded_makespan_granted_s",
                              json_real(p->granted_s));
}

static int write_json(struct simulation *s, const char *note,
                      const char *missing, struct error *err)
{
    struct buf text = BUF_INIT;
    json_t *o =
        run_json(&s->args->conf, &s->recorded, s->runs, s->n_runs, note);
    if (o && missing[0])
        (void)json_object_set_new(o, "not_replayed", json_string(missing));
    if (o && s->past.n_stranded > 0)
        add_stranded(&s->past, o);
    char *dump = o ? json_dumps(o, JSON_REAL_PRECISION(12)) : NULL;
    int rc = dump ? buf_addf(&text, err, "%s\n", dump)
                  : error_set(err, ERR_NOMEM, "figures");

    if (rc == 0)
        rc = sim_csv_write(s->args->json, &text, err);
    free(dump);
    json_decref(o);
    buf_clear(&text);
    return rc;
}

static int write_cdf(struct simulation *s, struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = cdf_svg(&s->args->conf, s->runs, s->n_runs, &text, err);

    if (rc == 0)
        rc = sim_csv_write(s->args->cdf, &text, err);
    buf_clear(&text);
    return rc;
}

static void print_recorded(const struct simulation *s, const char *stranded)
{
    bool is_less = s->past.granted_s < s->trace.recorded_s && *stranded;

    if (s->trace.recorded_s > 0)
        (void)printf("recorded makespan: %.1f s", s->trace.recorded_s);
    if (is_less)
        (void)printf(", without stranded jobs %.1f s", s->past.granted_s);
    (void)printf("%s%s", s->trace.recorded_s > 0 ? "\n" : "", stranded);
}

static int write_all(struct simulation *s, struct error *err)
{
    const struct sim_args *a = s->args;
    struct buf note = BUF_INIT, missing = BUF_INIT, stranded = BUF_INIT;
    int rc = a->from_db ? past_not_replayed(&s->past, &missing, err) : 0;

    if (rc == 0)
        rc = run_figures_recorded(&a->conf, &s->recorded, err);
    if (rc == 0)
        rc = past_stranded_say(&s->past, &stranded, err);

    for (size_t i = 0; a->from_db && rc == 0 && i < s->n_runs; i++)
        rc = replay_left_out(&s->replays[i], s->runs[i].name, s->ran,
                             s->runs[i].out.n_not_applied, &missing, err);
    if (rc == 0 && s->speed->ops->guessed)
        rc = s->speed->ops->guessed(s->speed, &note, err);
    if (rc == 0 && a->json)
        rc = write_json(s, buf_str(&note), buf_str(&missing), err);
    if (rc == 0 && (!a->json || strcmp(a->json, "-") != 0)) {
        if (a->sweep)
            (void)printf("%s, %.*s:\n", s->runs[0].name,
                         (int)strcspn(a->sweep, "="), a->sweep);
        rc = run_table(&s->recorded, s->runs, s->n_runs, stdout, err);
        if (a->from_db)
            print_recorded(s, buf_str(&stranded));
        if (note.len > 0)
            (void)printf("sizes without a measurement: %s\n", buf_str(&note));
        if (missing.len > 0)
            (void)printf("not repeated: %s\n", buf_str(&missing));
    }
    buf_clear(&note);
    buf_clear(&missing);
    buf_clear(&stranded);
    if (rc < 0 || write_text(s, a->jobs, jobs_csv, err) < 0 ||
        write_text(s, a->events, events_csv, err) < 0 ||
        write_text(s, a->gantt, gantt_svg, err) < 0)
        return -1;
    return a->cdf ? write_cdf(s, err) : 0;
}

/* Names the jobs that did not complete. Returns whether one did not end. */
static bool warn_unfinished(const struct simulation *s)
{
    bool any = false;

    for (size_t i = 0; i < s->n_runs; i++) {
        const struct sim_output *o = &s->runs[i].out;
        if (o->n_unfinished == 0)
            continue;
        any = any || o->n_unended > 0;
        (void)fprintf(stderr, "mgpu-sim: %s: %zu jobs did not complete\n%s",
                      s->runs[i].name, o->n_unfinished,
                      buf_str(&o->unfinished));
    }
    return any;
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    struct simulation s = {.args = arg};

    (void)words;
    if (sim_args_check(s.args, n, err) < 0 ||
        policy_sweep_expand(s.args, err) < 0)
        return -1;
    if (s.args->check)
        return self_check(s.args, err);
    int rc = s.args->bench     ? bench_trace(&s, err)
             : s.args->from_db ? read_past(&s, err)
                               : read_trace(&s, err);
    if (rc == 0)
        rc = run_all(&s, err);
    if (rc == 0)
        rc = write_all(&s, err);
    if (rc == 0)
        *ret_exit = warn_unfinished(&s) ? 1 : 0;
    for (size_t i = 0; i < s.n_runs; i++) {
        sim_output_clear(&s.runs[i].out);
        run_figures_clear(&s.runs[i].figures);
        json_decref(s.runs[i].parameters);
    }
    if (s.speed)
        s.speed->ops->destroy(s.speed);
    run_figures_clear(&s.recorded);
    sim_trace_clear(&s.trace);
    from_db_clear(&s.past);
    for (size_t i = 0; i < SIM_POLICIES_MAX; i++)
        replay_clear(&s.replays[i]);
    return rc;
}

int main(int argc, char **argv)
{
    enum { EXIT_USAGE = 2 };
    struct sim_args a;
    bool json = false;
    const struct tool_main m = {.tool = &sim_tool,
                                .on_option = sim_args_option,
                                .run = run,
                                .arg = &a,
                                .json = &json};

    sim_args_init(&a);
    int status = tool_run(&m, argc, argv);
    return status == error_exit_status(ERR_USAGE) ? EXIT_USAGE : status;
}
