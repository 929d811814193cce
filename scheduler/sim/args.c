/* args.c - see args.h. */
#include "scheduler/sim/args.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "jobs/text/timestamp.h"

enum {
    OPT_POLICY = 1,
    OPT_CONFIG,
    OPT_CLUSTER,
    OPT_TRACE,
    OPT_FROM_DB,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_TABLES,
    OPT_SWEEP,
    OPT_ELASTIC,
    OPT_SCALING,
    OPT_PROCS,
    OPT_WATTS,
    OPT_BATCH,
    OPT_REQUEST,
    OPT_ROUND,
    OPT_RESTART_COST,
    OPT_SLOWDOWN,
    OPT_GRANT_DELAY,
    OPT_LIMITS,
    OPT_LENGTH_ERROR,
    OPT_SPEED_NOISE,
    OPT_NODE_FAILURES,
    OPT_SEED,
    OPT_REPLICATE,
    OPT_JSON,
    OPT_JOBS,
    OPT_EVENTS,
    OPT_GANTT,
    OPT_CDF,
    OPT_HTML,
    OPT_BENCH,
    OPT_CHECK,
    OPT_SEEDS
};

static const struct opt opts[] = {
    {OPT_POLICY, 0, "policy", "NAME[:KEY=VALUE,...]",
     "policy, and keys of mgpu.yaml without 'scheduler.'; repeat it to "
     "compare"},
    {OPT_SWEEP, 0, "sweep", "KEY=VALUE,...",
     "run the policy once for each value of a key of it"},
    {OPT_CONFIG, 0, "config", "FILE", "mgpu.yaml; without it the defaults"},
    {OPT_CLUSTER, 0, "cluster", "NxG[:TYPE],...|slurm:FILE",
     "nodes with so many GPUs each, such as 4x8:h100,2x4, or the output of "
     "scontrol show node"},
    {OPT_TRACE, 0, "trace", "FORMAT:FILE",
     "jobs to run: sacct, swf, csv, mgpu, pollux or gavel"},
    {OPT_FROM_DB, 0, "from-db", "STATE_DIR",
     "replay the jobs of a daemon's state directory"},
    {OPT_SINCE, 0, "since", "TIME",
     "with --from-db: submitted at TIME or later"},
    {OPT_UNTIL, 0, "until", "TIME", "with --from-db: submitted before TIME"},
    {OPT_TABLES, 0, "tables", "FORMAT:PATH",
     "speeds of jobs: mgpu:FILE.csv, pollux:DIR or gavel:FILE.json"},
    {OPT_ELASTIC, 0, "elastic", "PERCENT%|user=NAME|name=PATTERN",
     "these jobs of sacct, swf and csv take a quarter to four times their "
     "GPUs"},
    {OPT_SCALING, 0, "scaling", "LAW",
     "speed of elastic jobs: linear, amdahl:PART (amdahl:0.95), "
     "power:EXPONENT or table:FILE"},
    {OPT_PROCS, 0, "procs-per-gpu", "N",
     "in a swf trace, N processors are a GPU (1)"},
    {OPT_WATTS, 0, "watts", "WATTS|TYPE=WATTS,...",
     "power of a GPU in use, by type, for the energy of each policy"},
    {OPT_BATCH, 0, "batch", "fixed|adaptive",
     "global batch of pollux jobs: the trace's, or the best one"},
    {OPT_REQUEST, 0, "request", "elastic|trace|N",
     "GPUs of each job: 1 to all, the trace's, or N"},
    {OPT_ROUND, 0, "round", "DURATION",
     "time between two heartbeats of a worker (60s)"},
    {OPT_RESTART_COST, 0, "restart-cost", "DURATION|CLASS=DURATION,...",
     "from the GPUs to the first iteration (30s)"},
    {OPT_SLOWDOWN, 0, "slowdown", "CLASS=X,...",
     "jobs of CLASS take X times as long as their table says"},
    {OPT_GRANT_DELAY, 0, "grant-delay", "DURATION",
     "from the request to the GPUs (0s)"},
    {OPT_LIMITS, 0, "limits", "exact|FACTOR",
     "time limit: FACTOR times what the smallest size takes (3)"},
    {OPT_LENGTH_ERROR, 0, "length-error", "SIGMA",
     "lognormal error of the length that workers report"},
    {OPT_SPEED_NOISE, 0, "speed-noise", "SIGMA",
     "lognormal error of the speed of each attempt"},
    {OPT_NODE_FAILURES, 0, "node-failures", "PER_NODE_DAY",
     "failures of a node per day; it is back after an hour"},
    {OPT_SEED, 0, "seed", "N", "of all random numbers (1)"},
    {OPT_REPLICATE, 0, "replicate", "N",
     "repeat all runs N times with other arrivals, for intervals"},
    {OPT_JSON, 0, "json", "FILE",
     "write the figures as JSON; '-': to standard "
     "output, without the table"},
    {OPT_JOBS, 0, "jobs", "FILE", "write a line of CSV for each job"},
    {OPT_EVENTS, 0, "events", "FILE", "write each start and stop as CSV"},
    {OPT_GANTT, 0, "gantt", "FILE.svg", "draw which job has which GPU"},
    {OPT_CDF, 0, "cdf", "FILE.svg", "draw the distribution of the JCT"},
    {OPT_HTML, 0, "html", "FILE",
     "write figures and charts of all policies as a page"},
    {OPT_BENCH, 0, "bench", "JOBSxGPUS",
     "time the decisions of a policy on a synthetic queue"},
    {OPT_CHECK, 0, "check", NULL, "run random worlds and check invariants"},
    {OPT_SEEDS, 0, "seeds", "N", "with --check: how many worlds (100)"},
    {0, 0, NULL, NULL, NULL},
};

const struct tool sim_tool = {
    .name = "mgpu-sim",
    .synopsis = "[options] --trace FORMAT:FILE|--from-db STATE_DIR",
    .summary = "Runs the scheduler of mgpu-ctld on a trace or on a cluster's "
               "own past, in virtual time.",
    .opts = opts,
};

void sim_args_init(struct sim_args *a)
{
    *a = (struct sim_args){
        .since_s = NAN,
        .until_s = NAN,
        .seeds = 100,
        .procs_per_gpu = 1,
        .conf = {.round_s = 60, .restart_s = 30, .limit_factor = 3, .seed = 1}};
}

static int bad(const char *name, const char *value, const char *allowed,
               struct error *err)
{
    char quoted[TEXT_QUOTE_CAP];
    return error_set(err, ERR_USAGE, "--%s: '%s' is not %s", name,
                     text_quote(quoted, sizeof(quoted), value), allowed);
}

static int real(const char *name, const char *value, double min, double max,
                double *ret, struct error *err)
{
    char allowed[64];
    double x;

    if (scalar_float(value, &x) == 0 && x >= min && x <= max) {
        *ret = x;
        return 0;
    }
    (void)snprintf(allowed, sizeof(allowed), "a number in %g..%g", min, max);
    return bad(name, value, allowed, err);
}

static int whole_from(const char *name, const char *value, int64_t min,
                      int64_t max, int64_t *ret, struct error *err)
{
    char allowed[64];

    if (scalar_int(value, ret) == 0 && *ret >= min && *ret <= max)
        return 0;
    (void)snprintf(allowed, sizeof(allowed),
                   "a whole number in %" PRId64 "..%" PRId64, min, max);
    return bad(name, value, allowed, err);
}

static int whole(const char *name, const char *value, int64_t max, int64_t *ret,
                 struct error *err)
{
    return whole_from(name, value, 1, max, ret, err);
}

/* CLASS=X,... or X for all classes. A class may contain '='. */
static int classes(const char *name, const char *text, bool is_duration,
                   struct sim_classes *ret, struct error *err)
{
    *ret = (struct sim_classes){.n = 0};
    for (const char *p = text;; p++) {
        char word[160];
        size_t n = strcspn(p, ",");
        struct sim_of_class *c = &ret->at[ret->n];
        if (n == 0 || n >= sizeof(word) || ret->n == SIM_CLASSES_MAX)
            return bad(name, text, "CLASS=VALUE,... of at most 32 classes",
                       err);
        memcpy(word, p, n);
        word[n] = '\0';
        char *equals = strrchr(word, '=');
        const char *value = equals ? equals + 1 : word;
        if (equals)
            *equals = '\0';
        if (equals && (word[0] == '\0' || strlen(word) >= sizeof(c->class)))
            return bad(name, text, "CLASS=VALUE,...", err);
        if (equals)
            memcpy(c->class, word, strlen(word) + 1);
        if ((is_duration ? options_duration(name, value, &c->x, err)
                         : real(name, value, 1e-3, 1e6, &c->x, err)) < 0)
            return -1;
        ret->n++;
        p += n;
        if (*p == '\0')
            return 0;
    }
}

static int request(struct sim_args *a, const char *value, struct error *err)
{
    int64_t n;

    if (strcmp(value, "elastic") == 0) {
        a->conf.request = REQUEST_ELASTIC;
    } else if (strcmp(value, "trace") == 0) {
        a->conf.request = REQUEST_TRACE;
    } else if (scalar_int(value, &n) == 0 && n >= 1 && n <= 65536) {
        a->conf.request = REQUEST_FIXED;
        a->conf.request_gpus = (int32_t)n;
    } else {
        return bad("request", value, "elastic, trace or a number in 1..65536",
                   err);
    }
    return 0;
}

static int limits(struct sim_args *a, const char *value, struct error *err)
{
    if (strcmp(value, "exact") == 0) {
        a->conf.limit_factor = 0;
        return 0;
    }
    return real("limits", value, 1, 1000, &a->conf.limit_factor, err);
}

static int moment(const char *name, const char *value, double *ret_s,
                  struct error *err)
{
    char hint[WHEN_HINT_CAP];
    struct when when;

    if (timestamp_parse(value, &when, hint, err) < 0) {
        if (err)
            err->code = ERR_USAGE;
        return error_wrap(err, "--%s", name);
    }
    *ret_s = when.s;
    return when.is_after
               ? bad(name, value, "a date, such as 2026-12-01T08:00:00Z", err)
               : 0;
}

static int policy(struct sim_args *a, const char *value, struct error *err)
{
    if (a->n_policies == SIM_POLICIES_MAX)
        return error_set(err, ERR_USAGE, "--policy: at most %d",
                         SIM_POLICIES_MAX);
    a->policies[a->n_policies++] = value;
    return 0;
}

/* Options whose value is kept as it is; NULL: another one. */
static const char **text_of(struct sim_args *a, int id)
{
    switch (id) {
    case OPT_CONFIG:
        return &a->config;
    case OPT_CLUSTER:
        return &a->cluster;
    case OPT_TRACE:
        return &a->trace;
    case OPT_FROM_DB:
        return &a->from_db;
    case OPT_TABLES:
        return &a->tables;
    case OPT_SWEEP:
        return &a->sweep;
    case OPT_ELASTIC:
        return &a->elastic;
    case OPT_SCALING:
        return &a->scaling;
    case OPT_JSON:
        return &a->json;
    case OPT_JOBS:
        return &a->jobs;
    case OPT_EVENTS:
        return &a->events;
    case OPT_GANTT:
        return &a->gantt;
    case OPT_CDF:
        return &a->cdf;
    case OPT_HTML:
        return &a->html;
    case OPT_BENCH:
        return &a->bench;
    default:
        return NULL;
    }
}

int sim_args_option(void *arg, const struct opt *o, const char *value,
                    struct error *err)
{
    struct sim_args *a = arg;
    const char **text = text_of(a, o->id);
    int64_t n = 0;
    int rc = 0;

    if (text) {
        *text = value;
        return 0;
    }
    switch (o->id) {
    case OPT_POLICY:
        return policy(a, value, err);
    case OPT_SINCE:
        return moment("since", value, &a->since_s, err);
    case OPT_UNTIL:
        return moment("until", value, &a->until_s, err);
    case OPT_BATCH:
        a->is_adaptive = strcmp(value, "adaptive") == 0;
        return a->is_adaptive || strcmp(value, "fixed") == 0
                   ? 0
                   : bad("batch", value, "fixed or adaptive", err);
    case OPT_REQUEST:
        return request(a, value, err);
    case OPT_ROUND:
        rc = options_duration("round", value, &a->conf.round_s, err);
        return rc == 0 && a->conf.round_s < 1
                   ? bad("round", value, "a duration of at least 1s", err)
                   : rc;
    case OPT_RESTART_COST:
        return classes("restart-cost", value, true, &a->conf.restarts, err);
    case OPT_SLOWDOWN:
        return classes("slowdown", value, false, &a->conf.slowdowns, err);
    case OPT_WATTS:
        a->watts = value;
        return classes("watts", value, false, &a->conf.watts, err);
    case OPT_GRANT_DELAY:
        return options_duration("grant-delay", value, &a->conf.grant_delay_s,
                                err);
    case OPT_LIMITS:
        return limits(a, value, err);
    case OPT_LENGTH_ERROR:
        return real("length-error", value, 0, 5, &a->conf.length_error, err);
    case OPT_SPEED_NOISE:
        return real("speed-noise", value, 0, 5, &a->conf.speed_noise, err);
    case OPT_NODE_FAILURES:
        return real("node-failures", value, 0, 100,
                    &a->conf.failures_per_node_day, err);
    case OPT_SEED:
        rc = whole("seed", value, UINT32_MAX, &n, err);
        a->conf.seed = (uint32_t)n;
        return rc;
    case OPT_REPLICATE:
        rc = whole_from("replicate", value, 2, 1000, &n, err);
        a->replicates = (int32_t)n;
        return rc;
    case OPT_PROCS:
        rc = whole("procs-per-gpu", value, 65536, &n, err);
        a->procs_per_gpu = (int32_t)n;
        return rc;
    case OPT_SEEDS:
        rc = whole("seeds", value, 1000000, &n, err);
        a->seeds = (int32_t)n;
        return rc;
    case OPT_CHECK:
        a->check = true;
        return 0;
    default:
        return 0;
    }
}

/* Of jobs with one size and its length. */
static bool is_rigid_trace(const char *trace)
{
    static const char *const formats[] = {"sacct:", "swf:", "csv:"};

    for (size_t i = 0; trace && i < sizeof(formats) / sizeof(formats[0]); i++)
        if (strncmp(trace, formats[i], strlen(formats[i])) == 0)
            return true;
    return false;
}

int sim_args_check(const struct sim_args *a, int n_operands, struct error *err)
{
    const char *lack = NULL;

    if (n_operands > 0)
        lack = "options only: a trace is --trace FORMAT:FILE";
    else if (a->replicates > 0 && !a->trace)
        lack = "--trace with --replicate: what people did in a past belongs "
               "to its arrivals";
    else if (a->check && a->html)
        lack = "no --html: --check writes no page";
    else if (a->check || a->bench)
        lack = a->trace || a->from_db
                   ? "--check and --bench run without --trace and --from-db"
                   : NULL;
    else if (!a->trace == !a->from_db)
        lack = "either --trace FORMAT:FILE or --from-db STATE_DIR";
    else if (a->trace && !a->cluster)
        lack = "--cluster, such as --cluster 4x8";
    else if (a->from_db && a->tables)
        lack = "--from-db has its own speeds: leave out --tables";
    else if (a->scaling && !a->elastic)
        lack = "--elastic with --scaling";
    else if (a->elastic && !is_rigid_trace(a->trace))
        lack = "--elastic with --trace sacct:FILE, swf:FILE or csv:FILE";
    return lack ? error_set(err, ERR_USAGE, "expected %s", lack) : 0;
}

int sim_args_trace(const char *text, enum trace_format *ret,
                   const char **ret_file, struct error *err)
{
    for (int f = 0; trace_file_format_name((enum trace_format)f); f++) {
        const char *name = trace_file_format_name((enum trace_format)f);
        size_t n = strlen(name);
        if (strncmp(text, name, n) != 0 || text[n] != ':' || !text[n + 1])
            continue;
        *ret = (enum trace_format)f;
        *ret_file = text + n + 1;
        return 0;
    }
    return error_set(err, ERR_USAGE,
                     "'%.80s' is not FORMAT:FILE with csv, mgpu, pollux, "
                     "gavel, sacct or swf",
                     text);
}
