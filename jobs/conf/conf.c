/* conf.c - the table of mgpu.yaml, one row per key. See conf.h. */
#include "jobs/conf/conf.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf_table.h"
#include "jobs/schema/schema_dir.h"
#include "jobs/schema/schema_row.h"

#define AT(m) AT_IN(struct conf, m)

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
    {"controller.socket_group", KEY_WORD, AT(controller.socket_group),
     .def = "null", NONE(0), .code = "E014",
     .doc = "group whose members may connect; null: every user of the machine"},
    {"controller.max_clients", KEY_INT, AT(controller.max_clients),
     .def = "2048", RANGE(8, 65536), .code = "E013",
     .doc = "the most connections at a time; administrators have 8 more, over "
            "the socket"},
    {"controller.listen", KEY_STRING, AT(controller.listen), .def = "null",
     NONE(0), .code = "E014",
     .doc = "HOST:PORT for tools and workers of other machines; null: none"},
    {"controller.url", KEY_STRING, AT(controller.url), .def = "null", NONE(0),
     .code = "E014",
     .doc = "where workers call, http://HOST:PORT; null: this host"},
    {"controller.metrics_listen", KEY_STRING, AT(controller.metrics_listen),
     .def = "null", NONE(0), .code = "E014",
     .doc = "HOST:PORT where anybody may read /metrics; null: none"},
    {"controller.metrics_labels", KEY_LIST, AT(controller.metrics_labels),
     .code = "E012", .live = true,
     .doc = "labels by which /metrics has jobs and GPUs; none: it has neither"},
    {"controller.web_listen", KEY_STRING, AT(controller.web_listen),
     .def = "null", NONE(0), .code = "E014", .live = true,
     .doc = "HOST:PORT or unix:PATH of the page of the cluster; null: none"},
    {"controller.web_token_file", KEY_PATH, AT(controller.web_token_file),
     .def = "null", NONE(0), .code = "E015", .live = true,
     .doc = "file with the token that opens the page; null: it needs none"},
    {"controller.web_hosts", KEY_LIST, AT(controller.web_hosts), .code = "E014",
     .live = true,
     .doc = "names, beside this host's, under which browsers ask for the page"},
    {"controller.web_group", KEY_WORD, AT(controller.web_group), .def = "null",
     NONE(0), .code = "E014", .live = true,
     .doc =
         "group that may connect to a unix socket of web_listen; null: none"},
    {"controller.jobs_dir", KEY_PATH, AT(controller.jobs_dir), .def = "null",
     NONE(0), .code = "E015",
     .doc = "job directories; %u is the user's name; null: in state_dir"},
    {"controller.user", KEY_WORD, AT(controller.user), .def = "null", NONE(0),
     .code = "E014",
     .doc = "account that a daemon becomes which root started; null: none"},

    {"auth.remote", KEY_ENUM, AT(auth.remote), .def = "none", .code = "E012",
     .words = WORDS(WORD("none", AUTH_NONE), WORD("munge", AUTH_MUNGE)),
     .doc = "how users of other machines prove who they are; none: not at all"},
    {"auth.munge_socket", KEY_PATH, AT(auth.munge_socket), .def = "null",
     NONE(0), .code = "E015",
     .doc = "socket of munged; null: the one that libmunge knows"},
    {"auth.admins", KEY_LIST, AT(auth.admins), .def = "[root]", .code = "E014",
     .live = true, .doc = "users who may see and end everybody's jobs"},
    {"auth.workers_from", KEY_ENUM, AT(auth.workers_from), .def = "nodes",
     .code = "E012",
     .words = WORDS(WORD("nodes", WORKERS_FROM_NODES),
                    WORD("any", WORKERS_FROM_ANY)),
     .doc = "addresses that workers may speak from; nodes: of the inventory"},

    {"allocator", KEY_ENUM, AT(allocator), .def = "auto", .code = "E012",
     .words =
         WORDS(WORD("auto", ALLOCATOR_AUTO), WORD("local", ALLOCATOR_LOCAL),
               WORD("slurm", ALLOCATOR_SLURM)),
     .doc = "where devices come from; local: this machine"},

    {"local.gpus", KEY_INT, AT(local.gpus), .def = "auto", RANGE(0, 1024),
     .code = "E013", .words = WORDS(WORD("auto", CONF_AUTO)),
     .doc = "GPUs to hand out; auto: those that are there; 0: none"},
    {"local.cpu_slots", KEY_INT, AT(local.cpu_slots), .def = "auto",
     RANGE(1, 1024), .code = "E013", .words = WORDS(WORD("auto", CONF_AUTO)),
     .doc = "ranks at a time without GPUs; auto: one per core"},
    {"local.bind", KEY_BOOL, AT(local.bind), .def = "false", .code = "E012",
     .doc = "ranks without GPUs run on the cores of their slots alone"},
    {"local.mpirun", KEY_STRING, AT(local.mpirun), .def = "mpirun",
     .code = "E014",
     .doc = "program that starts ranks, where there are several"},

    {"slurm.conf", KEY_PATH, AT(slurm.conf), .def = "null", NONE(0),
     .code = "E015",
     .doc = "path of slurm.conf; null: where Slurm looks for it"},
    {"slurm.partition", KEY_WORD, AT(slurm.partition), .def = "null", NONE(0),
     .code = "E040", .live = true,
     .doc = "of jobs that name none, as the next five; null: Slurm's default"},
    {"slurm.account", KEY_WORD, AT(slurm.account), .def = "null", NONE(0),
     .code = "E040", .live = true,
     .doc = "account that is charged; null: the user's default"},
    {"slurm.qos", KEY_WORD, AT(slurm.qos), .def = "null", NONE(0),
     .code = "E040", .live = true,
     .doc = "quality of service; null: the user's default"},
    {"slurm.constraint", KEY_WORD, AT(slurm.constraint), .def = "null", NONE(0),
     .code = "E040", .live = true,
     .doc = "features that a node must have; null: none"},
    {"slurm.reservation", KEY_WORD, AT(slurm.reservation), .def = "null",
     NONE(0), .code = "E040", .live = true,
     .doc = "reservation to run in; null: none"},
    {"slurm.gpu_type", KEY_WORD, AT(slurm.gpu_type), .def = "null", NONE(0),
     .name_only = true, .code = "E040", .live = true,
     .doc = "type of the GPUs, as in gres.conf; null: any"},
    {"slurm.exclusive", KEY_BOOL, AT(slurm.exclusive), .def = "false",
     .code = "E011", .live = true,
     .doc = "whether jobs share their nodes with no other job"},
    {"slurm.cpus_per_gpu", KEY_INT, AT(slurm.cpus_per_gpu), .def = "4",
     RANGE(1, 1024), .code = "E013", .live = true,
     .doc = "cores per GPU, or of a job without GPUs"},
    {"slurm.memory_per_gpu", KEY_SIZE, AT(slurm.memory_per_gpu_bytes),
     .def = "null", RANGE(1048576, 1125899906842624.0), NONE(0), .code = "E023",
     .live = true,
     .doc = "memory per GPU of jobs that ask for none; null: Slurm's default"},
    {"slurm.gpu_memory", KEY_MAP, AT(slurm.gpu_memory), .code = "E023",
     .live = true, .doc = "memory of each GPU by its type, as in {h100: 80G}"},
    {"slurm.submit_as", KEY_ENUM, AT(slurm.submit_as), .def = "user",
     .code = "E012",
     .words = WORDS(WORD("user", SUBMIT_AS_USER), LATER("service")),
     .doc = "whose Slurm's jobs are; user: of who submitted them to mgpu"},
    {"slurm.launcher", KEY_ENUM, AT(slurm.launcher), .def = "srun",
     .code = "E012",
     .words =
         WORDS(WORD("srun", LAUNCHER_SRUN), WORD("mpirun", LAUNCHER_MPIRUN)),
     .doc = "what starts the ranks in an allocation"},
    {"slurm.srun", KEY_STRING, AT(slurm.srun), .def = "srun", .code = "E014",
     .doc = "program, on the nodes"},
    {"slurm.mpirun", KEY_STRING, AT(slurm.mpirun), .def = "mpirun",
     .code = "E014", .doc = "program, on the nodes"},
    {"slurm.mpi", KEY_WORD, AT(slurm.mpi), .def = "pmix", .name_only = true,
     .code = "E014", .doc = "what srun --mpi is given"},
    {"slurm.poll_interval", KEY_DURATION, AT(slurm.poll_interval_s),
     .def = "1s", RANGE(1, 3600), .code = "E023",
     .doc = "time between two looks at Slurm's jobs and nodes"},
    {"slurm.call_timeout", KEY_DURATION, AT(slurm.call_timeout_s), .def = "5s",
     RANGE(2, 600), .code = "E023",
     .doc = "time that one call to Slurm may take"},
    {"slurm.reconcile_after", KEY_DURATION, AT(slurm.reconcile_after_s),
     .def = "30s", RANGE(1, 3600), .code = "E023",
     .doc = "absence after which a submit counts as never accepted"},
    {"slurm.limit_margin", KEY_DURATION, AT(slurm.limit_margin_s), .def = "2m",
     RANGE(0, 86400), .code = "E023",
     .doc = "how much later than the job's time limit Slurm's is"},
    {"slurm.submit_ahead", KEY_INT, AT(slurm.submit_ahead), .def = "1",
     RANGE(0, 64), .code = "E013",
     .doc = "jobs that wait in Slurm's queue for GPUs that others have"},
    {"slurm.resize_patience", KEY_DURATION, AT(slurm.resize_patience_s),
     .def = "1m", RANGE(5, 86400), .code = "E023",
     .doc = "time after which a resize that Slurm does not grant is undone"},

    {"scheduler.policy", KEY_NAME, AT(scheduler.policy), .def = "goodput",
     .code = "E012",
     .words = WORDS(WORD("fifo", 0), WORD("backfill", 1), WORD("goodput", 2),
                    LATER("profile"), LATER("srtf"), LATER("las")),
     .live = true, .doc = "which job is next"},
    {"scheduler.interval", KEY_DURATION, AT(scheduler.interval_s), .def = "1s",
     RANGE(1, 3600), .code = "E023", .live = true,
     .doc = "time between two looks at the queue when nothing happens"},
    {"scheduler.preempt.enabled", KEY_BOOL, AT(scheduler.preempt.enabled),
     .def = "false", .code = "E011", .live = true,
     .doc = "whether jobs that run make room for those of higher priority"},
    {"scheduler.preempt.grace", KEY_DURATION, AT(scheduler.preempt.grace_s),
     .def = "2m", RANGE(1, 3600), .code = "E023", .live = true,
     .doc = "the longest time to write a checkpoint, before being killed"},
    {"scheduler.preempt.min_runtime", KEY_DURATION,
     AT(scheduler.preempt.min_runtime_s), .def = "10m", RANGE(0, 30.0 * 86400),
     .code = "E023", .live = true,
     .doc = "so long an attempt runs before it has to"},
#include "jobs/conf/conf_table_goodput.def"

    {"limits.max_jobs_per_user", KEY_INT, AT(limits.max_jobs_per_user),
     .def = "1000", RANGE(1, 1000000), .code = "E013", .live = true,
     .doc = "the most jobs of one user that have not ended"},
    {"limits.max_gpus_per_user", KEY_INT, AT(limits.max_gpus_per_user),
     .def = "null", RANGE(1, 1000000), NONE(0), .code = "E013", .live = true,
     .doc = "the most GPUs of one user at a time; null: no limit"},
    {"limits.max_gpus_per_account", KEY_INT, AT(limits.max_gpus_per_account),
     .def = "null", RANGE(1, 1000000), NONE(0), .code = "E013", .live = true,
     .doc = "the most GPUs of one account at a time; null: no limit"},
    {"limits.max_running_per_user", KEY_INT, AT(limits.max_running_per_user),
     .def = "null", RANGE(1, 1000000), NONE(0), .code = "E013", .live = true,
     .doc = "the most jobs of one user that run at a time; null: no limit"},
    {"limits.max_running_per_account", KEY_INT,
     AT(limits.max_running_per_account), .def = "null", RANGE(1, 1000000),
     NONE(0), .code = "E013", .live = true,
     .doc = "the most jobs of one account that run at a time; null: no limit"},
    {"limits.gpu_hours", KEY_MAP, AT(limits.gpu_hours), .code = "E023",
     .live = true,
     .doc = "GPU-hours of users and accounts, as in {vision: 5000 per 30d}"},
    {"limits.max_ended_jobs", KEY_INT, AT(limits.max_ended_jobs),
     .def = "10000", RANGE(1, 10000000), NONE(0), .code = "E013", .live = true,
     .doc = "ended jobs that the daemon keeps in memory; null: all"},
    {"limits.max_sweep", KEY_INT, AT(limits.max_sweep), .def = "4096",
     RANGE(1, SPEC_TASKS_MAX), .code = "E013", .live = true,
     .doc = "jobs that may come out of one sweep"},
    {"limits.max_spec_bytes", KEY_SIZE, AT(limits.max_spec_bytes), .def = "1M",
     RANGE(1024, TREE_MAX_BYTES), .code = "E023", .live = true,
     .doc = "the largest job specification that is accepted"},
    {"limits.max_log_bytes", KEY_SIZE, AT(limits.max_log_bytes), .def = "1G",
     RANGE(4096, 1099511627776.0), .code = "E023", .live = true,
     .doc = "the most that logs.max_bytes of a job may ask for"},

    {"limits.rpc_rate", KEY_INT, AT(limits.rpc_rate), .def = "null",
     RANGE(1, 1000000), NONE(0), .code = "E013", .live = true,
     .doc = "requests of one user per second; null: 20 where all are served"},
    {"limits.rpc_burst", KEY_INT, AT(limits.rpc_burst), .def = "60",
     RANGE(1, 1000000), .code = "E013", .live = true,
     .doc = "so many of them at once"},

    {"limits.max_clients_per_user", KEY_INT, AT(limits.max_clients_per_user),
     .def = "null", RANGE(8, 65536), NONE(0), .code = "E013", .live = true,
     .doc = "connections of one user at a time; null: 64 where all are served"},

    {"store.metrics_retention", KEY_DURATION, AT(store.metrics_retention_s),
     .def = "null", RANGE(3600, 36525.0 * 86400), NONE(0), .code = "E023",
     .live = true,
     .doc = "time after a job's end for which its metric rows are kept; null: "
            "for good"},
    {"store.jobs_retention", KEY_DURATION, AT(store.jobs_retention_s),
     .def = "null", RANGE(3600, 36525.0 * 86400), NONE(0), .code = "E023",
     .live = true,
     .doc = "time after its end for which an archived job is kept; null: for "
            "good"},
    {"store.min_free", KEY_SIZE, AT(store.min_free_bytes), .def = "null",
     RANGE(1048576, 1125899906842624.0), NONE(0), .code = "E023", .live = true,
     .doc = "free space of state_dir below which no job is accepted; null: "
            "accepted while there is any"},
    {"store.backup.dir", KEY_PATH, AT(store.backup.dir), .def = "null", NONE(0),
     .code = "E015", .live = true,
     .doc = "where backups are put at intervals; null: there are none"},
    {"store.backup.every", KEY_DURATION, AT(store.backup.every_s), .def = "6h",
     RANGE(1, 366.0 * 86400), .code = "E023", .live = true,
     .doc = "time between two of them"},
    {"store.backup.keep", KEY_INT, AT(store.backup.keep), .def = "8",
     RANGE(1, 10000), .code = "E013", .live = true,
     .doc = "how many of them stay"},

    {"watchdog.heartbeat", KEY_DURATION, AT(watchdog.heartbeat_s), .def = "10s",
     RANGE(1, 3600), .code = "E023", .live = true,
     .doc = "how often a worker says that it lives"},
    {"watchdog.node_lost_after", KEY_DURATION, AT(watchdog.node_lost_after_s),
     .def = "90s", RANGE(2, 86400), .code = "E023", .live = true,
     .doc = "silence after which a job's node counts as lost"},
    {"watchdog.run_lost_after", KEY_DURATION, AT(watchdog.run_lost_after_s),
     .def = "10m", RANGE(30, 30 * 86400.0), .code = "E023", .live = true,
     .doc = "silence after which a run from outside of jobs has FAILED"},
    {"watchdog.stall_factor", KEY_FLOAT, AT(watchdog.stall_factor), .def = "20",
     RANGE(2, 1000000), NONE(0), .code = "E013", .live = true,
     .doc = "iterations' time without one after which a job is STALLED; null: "
            "never"},
    {"watchdog.stall_min", KEY_DURATION, AT(watchdog.stall_min_s), .def = "5m",
     RANGE(1, 7 * 86400.0), .code = "E023", .live = true,
     .doc = "but not before so long"},

    {"notify.program", KEY_LIST, AT(notify.program), .code = "E015",
     .live = true,
     .doc = "program and arguments, run for each event that a job wants told"},

    {"log.level", KEY_ENUM, AT(log.level), .def = "info", .code = "E012",
     .words = WORDS(WORD("err", LOG_ERR), WORD("warn", LOG_WARN),
                    WORD("notice", LOG_NOTICE), WORD("info", LOG_INFO),
                    WORD("debug", LOG_DEBUG)),
     .live = true, .doc = "how much the daemon writes"},
    {"log.format", KEY_ENUM, AT(log.format), .def = "text", .code = "E012",
     .words = WORDS(WORD("text", LOG_TEXT), WORD("json", LOG_JSON)),
     .live = true, .doc = "lines for people, or a JSON object each"},
    {"log.target", KEY_ENUM, AT(log.target), .def = "auto", .code = "E012",
     .words = WORDS(WORD("auto", LOG_TO_AUTO), WORD("stderr", LOG_TO_STDERR),
                    WORD("file", LOG_TO_FILE), WORD("journal", LOG_TO_JOURNAL)),
     .doc = "where to; auto: standard error, or ctld.log in the background"},
};

/* Keys of other versions of mgpu; one stands for all that is below it. */
static const struct schema_gone gone[] = {
    {"notify.mail_program",
     "notify: {program: [/usr/share/doc/mgpu/notify/mail]}, see mgpu.yaml(5)"},
    {"notify.webhook_allow",
     "notify: {program: [/usr/share/doc/mgpu/notify/webhook, "
     "'https://HOST/']}, see mgpu.yaml(5)"},
    {"notify.ca_file",
     "the program of notify.program has its own, as CURL_CA_BUNDLE for curl"},
    {NULL, NULL}};

static const char *const later[] = {
    "scheduler.aging_half_life",
    "scheduler.weights",
    "scheduler.min_efficiency_default",
    "scheduler.reserve",
    NULL,
};

enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

const struct schema conf_schema = {
    .keys = keys,
    .n = N_KEYS,
    .later = later,
    .gone = gone,
    .notes = "x-",
};

int conf_default(struct conf *ret, struct error *err)
{
    struct conf c = {.version = 0};
    if (schema_defaults(&conf_schema, &c, err) < 0) {
        conf_clear(&c);
        return -1;
    }
    c.from.lines = calloc(N_KEYS, sizeof(*c.from.lines));
    if (!c.from.lines) {
        conf_clear(&c);
        return error_set(err, ERR_NOMEM, "configuration");
    }
    *ret = c;
    return 0;
}

void conf_clear(struct conf *c)
{
    if (!c)
        return;
    schema_clear(&conf_schema, c);
    free(c->from.text);
    free(c->from.file);
    free(c->from.lines);
    c->from.text = c->from.file = NULL;
    c->from.lines = NULL;
}

/* What conf_parse() and those on top of it read. */
struct input {
    const char *text, *file;
    size_t len;
    const struct spec_set *sets;
    size_t n_sets;
};

static void note_lines(struct conf *c, const struct schema_from *from)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (from[i].node)
            c->from.lines[i] =
                from[i].node->at.line > 0 ? from[i].node->at.line : CONF_SET;
}

static int keep_input(struct conf *c, const struct input *in, struct error *err)
{
    c->from.text = malloc(in->len + 1);
    c->from.file = in->file ? strdup(in->file) : NULL;
    c->from.len = in->len;
    if (!c->from.text || (in->file && !c->from.file))
        return error_set(err, ERR_NOMEM, "configuration");
    if (in->len > 0)
        memcpy(c->from.text, in->text, in->len);
    c->from.text[in->len] = '\0';
    return 0;
}

static int read_conf(const struct input *in, struct conf *c,
                     struct spec_report *report, struct error *err)
{
    struct schema_from from[N_KEYS];
    struct schema_base base = {.dir = NULL};
    struct node *root = NULL;
    char *dir = NULL;

    int rc = schema_dir_of(in->file, &dir, err);
    base.dir = base.typed_dir = dir;
    if (rc == 0)
        rc = tree_parse(in->text, in->len, report, &root, err);
    for (size_t i = 0; rc == 0 && root && i < in->n_sets; i++)
        rc = schema_graft(&conf_schema, root, &in->sets[i], report, err);
    if (rc == 0 && root)
        rc = schema_apply(&conf_schema, root, &base, c, from, report, err);
    if (rc == 0 && root) {
        conf_check(c, from, report);
        note_lines(c, from);
    }
    tree_destroy(root);
    free(dir);
    return rc == 0 ? keep_input(c, in, err) : rc;
}

static int parse(const struct input *in, struct conf *ret,
                 struct spec_report *report, struct error *err)
{
    struct conf c;
    int rc = diagnostics_init(report, err);
    if (rc < 0 || conf_default(&c, err) < 0)
        return -1;
    rc = read_conf(in, &c, report, err);
    if (rc == 0 && diagnostics_verdict(report, err) < 0) {
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

int conf_parse(const char *text, size_t len, const char *file, struct conf *ret,
               struct spec_report *report, struct error *err)
{
    const struct input in = {.text = text, .file = file, .len = len};
    return parse(&in, ret, report, err);
}

/* Findings as a person reads them, whatever comes of it. */
static int parse_and_tell(const struct input *in, struct conf *ret,
                          struct buf *text_out, struct error *err)
{
    struct spec_report report = {.findings = NULL};
    struct conf c = {.version = 0};

    int rc = parse(in, &c, &report, err);
    if (rc < 0 && in->file)
        (void)error_wrap(err, "%s", in->file);
    if (report_print(&report, in->file, in->text, in->len, "", text_out,
                     rc < 0 ? NULL : err) < 0)
        rc = -1;
    if (rc == 0)
        *ret = c;
    else
        conf_clear(&c);
    diagnostics_clear(&report);
    return rc;
}

int conf_with(const struct conf *base, const struct spec_set *sets, size_t n,
              struct conf *ret, struct buf *text_out, struct error *err)
{
    static const char nothing[] = "version: 1\n";
    const struct input in = {
        .text = base->from.text ? base->from.text : nothing,
        .len = base->from.text ? base->from.len : sizeof(nothing) - 1,
        .file = base->from.file,
        .sets = sets,
        .n_sets = n,
    };
    return parse_and_tell(&in, ret, text_out, err);
}

int conf_load_with(const char *path, const struct spec_set *sets, size_t n,
                   struct conf *ret, struct buf *text_out, struct error *err)
{
    struct buf text = BUF_INIT;

    struct error why = ERROR_INIT;
    int rc = buf_read_file(&text, path, TREE_MAX_BYTES, &why);
    if (rc < 0)
        rc = error_set(err, why.code == ERR_INVAL ? ERR_CONFIG : why.code, "%s",
                       why.msg);
    if (rc == 0) {
        const struct input in = {.text = buf_str(&text),
                                 .len = text.len,
                                 .file = path,
                                 .sets = sets,
                                 .n_sets = n};
        rc = parse_and_tell(&in, ret, text_out, err);
    }
    buf_clear(&text);
    return rc;
}

int conf_load(const char *path, struct conf *ret, struct buf *text_out,
              struct error *err)
{
    return conf_load_with(path, NULL, 0, ret, text_out, err);
}
