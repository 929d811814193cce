/* conf.c - the table of mgpu.yaml, one row per key. See conf.h. */
#include "jobs/conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema.h"

#define AT(m) \
    .at = offsetof(struct conf, m), .size = sizeof(((struct conf *)0)->m)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define NONE(v) .null_ok = true, .none_value = (v)
#define WORDS(...)               \
    (const struct schema_word[]) \
    {                            \
        __VA_ARGS__,             \
        {                        \
            .name = NULL         \
        }                        \
    }
#define WORD(word, v)                \
    {                                \
        .name = (word), .value = (v) \
    }
#define LATER(word)                   \
    {                                 \
        .name = (word), .later = true \
    }

static const struct schema_key keys[] = {
    {"version", KEY_INT, AT(version), .def = "1", RANGE(1, 1), .code = "E011",
     .doc = "version of this format"},
    {"cluster", KEY_NAME, AT(cluster), .def = "local", .code = "E014",
     .doc = "name under which this controller's jobs are known to others"},

    {"controller.state_dir", KEY_PATH, AT(controller.state_dir), .def = "null",
     NONE(0), .code = "E015",
     .doc = "databases and job directories; null: mgpu in $XDG_STATE_HOME"},
    {"controller.socket", KEY_PATH, AT(controller.socket), .def = "null",
     NONE(0), .code = "E015",
     .doc =
         "where the tools connect; null: mgpu/ctld.sock in $XDG_RUNTIME_DIR"},
    {"controller.max_clients", KEY_INT, AT(controller.max_clients),
     .def = "2048", RANGE(8, 65536), .code = "E013",
     .doc = "the most connections at a time"},

    {"allocator", KEY_ENUM, AT(allocator), .def = "auto", .code = "E012",
     .words = WORDS(WORD("auto", ALLOCATOR_AUTO),
                    WORD("local", ALLOCATOR_LOCAL), LATER("slurm")),
     .doc = "where devices come from; local: this machine"},

    {"local.gpus", KEY_INT, AT(local.gpus), .def = "auto", RANGE(0, 1024),
     .code = "E013", .words = WORDS(WORD("auto", CONF_AUTO)),
     .doc = "GPUs to hand out; auto: those that are there; 0: none"},
    {"local.cpu_slots", KEY_INT, AT(local.cpu_slots), .def = "auto",
     RANGE(1, 1024), .code = "E013", .words = WORDS(WORD("auto", CONF_AUTO)),
     .doc = "ranks at a time without GPUs; auto: one per core"},
    {"local.mpirun", KEY_STRING, AT(local.mpirun), .def = "mpirun",
     .code = "E014", .doc = "program that starts the ranks"},

    {"scheduler.policy", KEY_NAME, AT(scheduler.policy), .def = "backfill",
     .code = "E012",
     .words = WORDS(WORD("fifo", 0), WORD("backfill", 1), LATER("profile"),
                    LATER("srtf"), LATER("las"), LATER("goodput")),
     .doc = "which job is next"},
    {"scheduler.interval", KEY_DURATION, AT(scheduler.interval_s), .def = "1s",
     RANGE(1, 3600), .code = "E023",
     .doc = "time between two looks at the queue when nothing happens"},

    {"limits.max_jobs_per_user", KEY_INT, AT(limits.max_jobs_per_user),
     .def = "1000", RANGE(1, 1000000), .code = "E013",
     .doc = "the most jobs of one user that have not ended"},
    {"limits.max_spec_bytes", KEY_SIZE, AT(limits.max_spec_bytes), .def = "1M",
     RANGE(1024, TREE_MAX_BYTES), .code = "E023",
     .doc = "the largest job specification that is accepted"},
    {"limits.max_log_bytes", KEY_SIZE, AT(limits.max_log_bytes), .def = "1G",
     RANGE(4096, 1099511627776.0), .code = "E023",
     .doc = "the most that logs.max_bytes of a job may ask for"},

    {"watchdog.heartbeat", KEY_DURATION, AT(watchdog.heartbeat_s), .def = "10s",
     RANGE(1, 3600), .code = "E023",
     .doc = "how often a worker says that it lives"},
    {"watchdog.node_lost_after", KEY_DURATION, AT(watchdog.node_lost_after_s),
     .def = "90s", RANGE(2, 86400), .code = "E023",
     .doc = "silence after which a job's node counts as lost"},

    {"log.level", KEY_ENUM, AT(log.level), .def = "info", .code = "E012",
     .words = WORDS(WORD("err", LOG_ERR), WORD("warn", LOG_WARN),
                    WORD("notice", LOG_NOTICE), WORD("info", LOG_INFO),
                    WORD("debug", LOG_DEBUG)),
     .doc = "how much the daemon writes"},
};

/* Keys of other versions of mgpu; one stands for all that is below it. */
static const char *const later[] = {
    "controller.socket_group",
    "controller.listen",
    "controller.metrics_listen",
    "controller.user",
    "auth",
    "slurm",
    "scheduler.aging_half_life",
    "scheduler.weights",
    "scheduler.min_efficiency_default",
    "scheduler.preempt",
    "scheduler.reserve",
    "limits.max_gpus_per_user",
    "limits.max_sweep",
    "limits.rpc_rate",
    "limits.rpc_burst",
    "limits.max_clients_per_user",
    "store",
    "watchdog.stall_factor",
    "watchdog.stall_min",
    "notify",
    "log.format",
    "log.target",
    NULL,
};

enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static const struct schema conf_schema = {
    .keys = keys,
    .n = N_KEYS,
    .later = later,
    .notes = "x-",
};

int conf_default(struct conf *ret, struct error *err)
{
    struct conf c = {.version = 0};
    if (schema_defaults(&conf_schema, &c, err) < 0) {
        conf_clear(&c);
        return -1;
    }
    *ret = c;
    return 0;
}

void conf_clear(struct conf *c)
{
    if (c)
        schema_clear(&conf_schema, c);
}

static const struct schema_from *from_of(const struct schema_from *from,
                                         const char *path)
{
    size_t i = 0;
    while (strcmp(keys[i].path, path) != 0)
        i++;
    return &from[i];
}

/* What one row cannot say. */
static void check(const struct conf *c, const struct schema_from *from,
                  struct spec_report *report)
{
    const struct schema_from *lost = from_of(from, "watchdog.node_lost_after");
    const struct schema_from *beat = from_of(from, "watchdog.heartbeat");
    const struct schema_from *mpirun = from_of(from, "local.mpirun");

    if (!from_of(from, "version")->node)
        report_add(report, "W001", (struct mark){1, 1, 1}, "version",
                   "begin with version: 1",
                   "'version' is missing; 1 is assumed");
    if (!lost->bad && !beat->bad && (lost->node || beat->node) &&
        c->watchdog.node_lost_after_s < 2 * c->watchdog.heartbeat_s)
        report_add(report, "E023", (lost->node ? lost : beat)->node->at,
                   "watchdog.node_lost_after",
                   "one lost heartbeat must not end a job",
                   "'watchdog.node_lost_after' must be at least twice "
                   "watchdog.heartbeat");
    if (mpirun->node && !mpirun->bad &&
        (c->local.mpirun[0] == '\0' || c->local.mpirun[0] == '-'))
        report_add(report, "E014", mpirun->node->at, "local.mpirun", NULL,
                   "'local.mpirun' must be a program");
}

static int read_conf(const char *text, size_t len, const char *file,
                     struct conf *c, struct spec_report *report,
                     struct error *err)
{
    struct schema_from from[N_KEYS];
    struct schema_base base = {NULL, NULL};
    struct node *root = NULL;
    char *dir = NULL;

    int rc = schema_dir_of(file, &dir, err);
    base.dir = dir;
    if (rc == 0)
        rc = tree_parse(text, len, report, &root, err);
    if (rc == 0 && root)
        rc = schema_apply(&conf_schema, root, &base, c, from, report, err);
    if (rc == 0 && root)
        check(c, from, report);
    node_destroy(root);
    free(dir);
    return rc;
}

int conf_parse(const char *text, size_t len, const char *file, struct conf *ret,
               struct spec_report *report, struct error *err)
{
    struct conf c;
    int rc = report_init(report, err);
    if (rc < 0 || conf_default(&c, err) < 0)
        return -1;
    rc = read_conf(text, len, file, &c, report, err);
    if (rc == 0 && report_verdict(report, err) < 0) {
        if (err)
            err->code = ERR_CONFIG;
        rc = -1;
    }
    if (rc == 0)
        *ret = c;
    else
        conf_clear(&c);
    return rc;
}

int conf_load(const char *path, struct conf *ret, struct buf *text_out,
              struct error *err)
{
    struct buf text = BUF_INIT;
    struct spec_report report = {.findings = NULL};
    struct conf c = {.version = 0};

    int rc = buf_read_file(&text, path, TREE_MAX_BYTES, err);
    if (rc == 0) {
        rc = conf_parse(buf_str(&text), text.len, path, &c, &report, err);
        if (rc < 0)
            (void)error_wrap(err, "%s", path);
        if (report_print(&report, path, buf_str(&text), text.len, "", text_out,
                         rc < 0 ? NULL : err) < 0)
            rc = -1;
    }
    if (rc == 0)
        *ret = c;
    else
        conf_clear(&c);
    spec_report_clear(&report);
    buf_clear(&text);
    return rc;
}

/* ---- words --------------------------------------------------------------- */

static void note_live(void *arg, size_t row, char *out, size_t cap)
{
    (void)arg;
    (void)snprintf(out, cap, "%s", keys[row].live ? "live" : "restart");
}

int conf_print(const struct conf *c, struct buf *out, struct error *err)
{
    return schema_yaml(&conf_schema, c, NULL, note_live, NULL, out, err);
}

void conf_each_key(void (*each)(void *arg, const char *path, const char *type,
                                const char *def, const char *range, bool live,
                                const char *doc),
                   void *arg)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        char range[RANGE_CAP];
        each(arg, keys[i].path, schema_type_name(&keys[i]),
             keys[i].def ? keys[i].def : "none", schema_range(&keys[i], range),
             keys[i].live, keys[i].doc);
    }
}
