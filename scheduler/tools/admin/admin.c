/* admin.c - mgpu-admin(8): administer the daemon and the jobs of all users.
 *
 * A table has one row per command; each command sends one request or two.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/wire/wire.h"
#include "scheduler/tools/admin/admin_log.h"
#include "scheduler/tools/admin/admin_nodes.h"
#include "scheduler/tools/admin/admin_policy.h"
#include "scheduler/tools/admin/admin_resize.h"
#include "scheduler/tools/admin/admin_status.h"
#include "scheduler/tools/admin/admin_update.h"
#include "scheduler/tools/admin/admin_users.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/options.h"
#include "scheduler/tools/common/render.h"

enum {
    OPT_REASON = 1,
    OPT_WAIT,
    OPT_TIMEOUT,
    OPT_LAST,
    OPT_FOR,
    OPT_NODES,
    OPT_SINCE
};

static const struct opt opts[] = {
    {OPT_REASON, 0, "reason", "TEXT",
     "with pause, drain, resume: reason, kept in the log"},
    {OPT_WAIT, 'w', "wait", NULL, "with pause: wait until no job runs"},
    {OPT_TIMEOUT, 0, "timeout", "DURATION", "with --wait: give up after it"},
    {OPT_LAST, 0, "last", "N", "with log: only the last N entries"},
    {OPT_FOR, 0, "for", "DURATION", "with policy set: expire after this long"},
    {OPT_SINCE, 0, "since", "DURATION", "with policy try: jobs of this time"},
    {OPT_NODES, 0, "nodes", "N", "with resize: on so many nodes"},
    OPTION_ROW_JSON,
    OPTION_ROW_QUIET,
    OPTION_ROW_URL,
    {0, 0, NULL, NULL, NULL},
};

struct args {
    struct option_common common;
    const char *reason;
    double timeout_s, for_s, since_s; /* 0: none */
    int64_t last, nodes;              /* 0: none */
    bool waits;
};

static const struct tool tool = {
    .name = "mgpu-admin",
    .section = 8,
    .synopsis = "[options] COMMAND [JOB...]",
    .summary =
        "Administers a daemon and its queue. The commands:\n\n"
        "  status           what the daemon is doing\n"
        "  pause            start no new jobs; running jobs continue\n"
        "  drain NODE...    start no new jobs there; running jobs continue\n"
        "  resume           start jobs again\n"
        "  resume NODE...   use these nodes again\n"
        "  unpause          the same as resume without a node\n"
        "  hold JOB...      keep these from starting\n"
        "  release JOB...   let held jobs start\n"
        "  requeue JOB...   end their attempts, and queue them again\n"
        "  resize JOB GPUS  continue the job on so many GPUs; any: as the "
        "policy chooses\n"
        "  update JOB KEY=VALUE... change time_limit, partition, account,\n"
        "                          priority or sweep.max_parallel\n"
        "  top JOB...       move to the front of the queue\n"
        "  priority N JOB... set the priority, -1000..1000\n"
        "  policy show      the settings of scheduling\n"
        "  policy set KEY=VALUE... change settings at once\n"
        "  policy reset [KEY...] return to the values of mgpu.yaml\n"
        "  policy explain [JOB] what the next plan does, and why\n"
        "  policy try KEY=VALUE... simulate the past with these settings\n"
        "  backup DIR       copy the databases into this new directory\n"
        "  fsck             check the databases\n"
        "  reload           read mgpu.yaml again\n"
        "  log              the actions of administrators\n"
        "  who              users with running or pending jobs, and their GPUs",
    .opts = opts,
};

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    char *end = NULL;
    switch (o->id) {
    case OPT_REASON:
        a->reason = value;
        break;
    case OPT_WAIT:
        a->waits = true;
        break;
    case OPT_TIMEOUT:
        return options_duration(o->name, value, &a->timeout_s, err);
    case OPT_FOR:
        return options_duration(o->name, value, &a->for_s, err);
    case OPT_SINCE:
        return options_duration(o->name, value, &a->since_s, err);
    case OPT_LAST:
        a->last = strtol(value, &end, 10);
        if (*end || a->last < 1 || a->last > 10000)
            return error_set(err, ERR_USAGE, "--last '%s': expected 1..10000",
                             value);
        break;
    case OPT_NODES:
        a->nodes = strtol(value, &end, 10);
        if (*end || a->nodes < 1 || a->nodes > 1024)
            return error_set(err, ERR_USAGE, "--nodes '%s': expected 1..1024",
                             value);
        break;
    default:
        (void)options_common(&a->common, o->id, value);
    }
    return 0;
}

/* ---- the daemon ------------------------------------------------------------
 */

static int status(struct client *c, const struct args *a, struct error *err)
{
    json_t *reply = NULL;
    int rc = client_get(c, &reply, err, "/v1/status");
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0)
        admin_print_status(reply);
    json_decref(reply);
    return rc;
}

static int reload(struct client *c, const struct args *a, struct error *err)
{
    json_t *reply = NULL;
    int rc = client_post(c, "/v1/admin/reload", NULL, NULL, &reply, err);
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0 && !a->common.quiet)
        admin_print_reload(json_object_get(reply, "reload"), true);
    json_decref(reply);
    return rc;
}

static int backup(struct client *c, const struct args *a, const char *dir,
                  struct error *err)
{
    char here[PATH_MAX] = "", path[2 * PATH_MAX], word[32];
    json_t *reply = NULL;
    if (dir[0] != '/' && !getcwd(here, sizeof(here)))
        return error_sys(err, errno, "current directory");
    (void)snprintf(path, sizeof(path), "%s%s%s", here, here[0] ? "/" : "", dir);
    json_t *body = json_pack("{s:s}", "dir", path);
    if (!body)
        return error_set(err, ERR_INVAL, "'%s' is not UTF-8", dir);
    int rc = client_post(c, "/v1/admin/backup", body, NULL, &reply, err);
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0 && !a->common.quiet)
        printf("backed up in %s\n",
               render_time(field_real(reply, "took_s"), word, sizeof(word)));
    json_decref(body);
    json_decref(reply);
    return rc;
}

static int fsck(struct client *c, const struct args *a, int *ret_exit,
                struct error *err)
{
    json_t *reply = NULL, *finding;
    char safe[1600];
    size_t i;
    int rc = client_post(c, "/v1/admin/fsck", NULL, NULL, &reply, err);
    bool is_sound = rc == 0 && field_int(reply, "n", -1) == 0;
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0)
        json_array_foreach(json_object_get(reply, "findings"), i, finding)
        {
            printf("%s\n", render_escape(json_string_value(finding), safe,
                                         sizeof(safe)));
        }
    if (is_sound && !a->common.json && !a->common.quiet)
        printf("sound\n");
    if (rc == 0 && !is_sound)
        *ret_exit = error_exit_status(ERR_IO);
    json_decref(reply);
    return rc;
}

/* Without the runs: no pause ends them, and they have no GPUs. */
static int count_running(struct client *c, int64_t *ret, struct error *err)
{
    json_t *reply = NULL;
    if (client_get(c, &reply, err, "/v1/jobs?limit=1") < 0)
        return -1;
    *ret = field_int(reply, "running", 0) - field_int(reply, "runs", 0);
    json_decref(reply);
    return 0;
}

/* The pause stays in force, whatever happens while waiting. */
static int wait_idle(struct client *c, const struct args *a, struct error *err)
{
    const struct timespec pause = {.tv_nsec = 250000000};
    const struct clock *clk = &clock_real;
    double deadline =
        a->timeout_s > 0 ? clk->now_s(clk) + a->timeout_s : (double)INFINITY;
    int64_t n = 0;
    if (count_running(c, &n, err) < 0)
        return -1;
    while (n > 0) {
        if (clk->now_s(clk) >= deadline)
            return error_set(err, ERR_TIMEOUT,
                             "%" PRId64 " job%s; the pause stays in force", n,
                             n == 1 ? " still runs" : "s still run");
        (void)nanosleep(&pause, NULL);
        if (count_running(c, &n, err) < 0)
            return -1;
    }
    if (!a->common.json && !a->common.quiet)
        printf("no job runs any more\n");
    return 0;
}

static int set_paused(struct client *c, const struct args *a, bool on,
                      struct error *err)
{
    json_t *reply = NULL;
    json_t *body =
        a->reason ? json_pack("{s:s}", "why", a->reason) : json_object();
    if (!body)
        return error_set(err, ERR_INVAL, "--reason is not UTF-8");
    int rc = client_post(c, on ? "/v1/admin/pause" : "/v1/admin/resume", body,
                         NULL, &reply, err);
    if (rc == 0 && !a->common.json && !a->common.quiet)
        printf("%s\n", on ? "paused: nothing new is started" : "resumed");
    if (rc == 0 && a->waits)
        rc = wait_idle(c, a, err);
    /* JSON comes at the end, because the document holds both results. */
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    json_decref(body);
    json_decref(reply);
    return rc;
}

static int show_log(struct client *c, const struct args *a, struct error *err)
{
    json_t *reply = NULL, *action;
    size_t i;
    int rc = client_get(c, &reply, err, "/v1/admin/log?last=%" PRId64,
                        a->last > 0 ? a->last : 10000);
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0)
        json_array_foreach(json_object_get(reply, "actions"), i, action)
        {
            admin_print_action(action);
        }
    json_decref(reply);
    return rc;
}

/* ---- jobs ------------------------------------------------------------------
 */

struct job_verb {
    const char *name, *path;
    json_t *body; /* owned; NULL: none */
};

/* For a whole sweep: the number of its jobs in each state after the request. */
static void print_sweep(const char *word, json_t *states)
{
    const char *state, *sep = ": ";
    json_t *n;
    printf("sweep %s", word);
    json_object_foreach(states, state, n)
    {
        printf("%s%lld %s", sep, (long long)json_integer_value(n), state);
        sep = ", ";
    }
    printf("\n");
}

static void tell(const struct args *a, const char *word, const json_t *reply,
                 const struct error *why, json_t *report)
{
    char safe[600];
    const json_t *job = json_object_get(reply, "job");
    const json_t *sweep = json_object_get(reply, "sweep");
    json_int_t id = field_int(job, "id", strtoll(word, NULL, 10));
    if (a->common.json)
        (void)json_array_append_new(
            report, why ? json_pack("{s:I, s:s, s:s}", "id", id, "code",
                                    error_word(why->code), "message", why->msg)
                        : json_pack("{s:I, s:s, s:I}", "id", id, "state",
                                    field_str(job, "state"), "priority",
                                    (json_int_t)field_int(job, "priority", 0)));
    else if (why)
        (void)fprintf(stderr, "%s: %s\n", tool.name,
                      render_escape(why->msg, safe, sizeof(safe)));
    else if (!a->common.quiet && json_is_object(sweep) && !strchr(word, '_'))
        print_sweep(word, json_object_get(sweep, "states"));
    else if (!a->common.quiet)
        printf("job %s: %s, priority %" PRId64 "%s%s\n", word,
               field_str(job, "state"), field_int(job, "priority", 0),
               *field_str(job, "reason") ? ", " : "",
               render_escape(field_str(job, "reason"), safe, sizeof(safe)));
}

/* Tries all jobs; the exit status is the worst one. */
static int each_job(struct client *c, const struct args *a,
                    const struct job_verb *v, char **words, int n,
                    int *ret_exit, struct error *err)
{
    json_t *report = json_array();
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        struct error why = ERROR_INIT;
        json_t *reply = NULL;
        char path[80];
        if ((rc = options_job_word(words[i], err)) < 0)
            break;
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/%s", words[i], v->path);
        bool is_bad = client_post(c, path, v->body, NULL, &reply, &why) < 0;
        if (is_bad && why.code == ERR_UNAVAIL)
            rc = error_set(err, why.code, "%s", why.msg);
        else
            tell(a, words[i], reply, is_bad ? &why : NULL, report);
        json_decref(reply);
        if (is_bad && error_exit_status(why.code) > *ret_exit)
            *ret_exit = error_exit_status(why.code);
    }
    if (rc == 0 && a->common.json) {
        json_t *o =
            json_pack("{s:s, s:O}", "schema", "mgpu.admin/1", "jobs", report);
        rc = client_print(o, err);
        json_decref(o);
    }
    json_decref(report);
    return rc;
}

/* words: from the first job on. */
static int on_jobs(struct client *c, const struct args *a, char **words, int n,
                   int *ret_exit, struct error *err)
{
    static const char *const paths[][2] = {
        {"hold", "hold"},    {"release", "release"},   {"requeue", "requeue"},
        {"top", "priority"}, {"priority", "priority"},
    };
    struct job_verb v = {.name = words[0]};
    int first = 1;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (strcmp(paths[i][0], v.name) == 0)
            v.path = paths[i][1];
    if (!v.path)
        return error_set(err, ERR_USAGE, "no command '%s'; see %s --help",
                         v.name, tool.name);
    if (strcmp(v.name, "top") == 0)
        v.body = json_pack("{s:b}", "top", 1);
    else if (strcmp(v.name, "priority") == 0 && n > 1) {
        if (admin_priority_body(words[1], &v.body, err) < 0)
            return -1;
        first = 2;
    }
    int rc = first >= n
                 ? error_set(err, ERR_USAGE, "%s: which job?", v.name)
                 : each_job(c, a, &v, words + first, n - first, ret_exit, err);
    json_decref(v.body);
    return rc;
}

/* ---- the commands ----------------------------------------------------------
 */

struct call {
    struct client *c;
    const struct args *a;
    char **words; /* from the command on */
    int n;
    int exit_status; /* out */
};

static int on_status(struct call *k, struct error *err)
{
    return status(k->c, k->a, err);
}

static int on_pause(struct call *k, struct error *err)
{
    return set_paused(k->c, k->a, true, err);
}

static int on_nodes(struct call *k, bool drains, struct error *err)
{
    const struct admin_nodes conf = {.why = k->a->reason ? k->a->reason : "",
                                     .drains = drains,
                                     .json = k->a->common.json,
                                     .quiet = k->a->common.quiet};
    return admin_nodes(k->c, &conf, k->words + 1, k->n - 1, &k->exit_status,
                       err);
}

static int on_drain(struct call *k, struct error *err)
{
    return on_nodes(k, true, err);
}

static int on_resume(struct call *k, struct error *err)
{
    return k->n > 1 ? on_nodes(k, false, err)
                    : set_paused(k->c, k->a, false, err);
}

static int on_resize(struct call *k, struct error *err)
{
    const struct admin_resize conf = {k->a->nodes, k->a->common.json,
                                      k->a->common.quiet};
    return admin_resize(k->c, &conf, k->words + 1, err);
}

static int on_update(struct call *k, struct error *err)
{
    return admin_update(k->c, k->a->common.json, k->a->common.quiet,
                        k->words + 1, k->n - 1, err);
}

static int on_backup(struct call *k, struct error *err)
{
    return backup(k->c, k->a, k->words[1], err);
}

static int on_policy(struct call *k, struct error *err)
{
    const struct admin_policy policy = {k->a->for_s, k->a->since_s,
                                        k->a->common.json, k->a->common.quiet};
    return admin_policy(k->c, &policy, k->words + 1, k->n - 1, err);
}

static int on_fsck(struct call *k, struct error *err)
{
    return fsck(k->c, k->a, &k->exit_status, err);
}

static int on_reload(struct call *k, struct error *err)
{
    return reload(k->c, k->a, err);
}

static int on_log(struct call *k, struct error *err)
{
    return show_log(k->c, k->a, err);
}

static int on_who(struct call *k, struct error *err)
{
    return admin_users(k->c, k->a->common.json, err);
}

/* Any command but those for jobs. */
static int on_any(struct call *k, struct error *err)
{
    return on_jobs(k->c, k->a, k->words, k->n, &k->exit_status, err);
}

static const struct command {
    const char *name;
    int least, most;     /* number of words after it */
    const char *lacking; /* error if there are fewer */
    const char *excess;  /* appended to the error if there are more */
    int (*run)(struct call *k, struct error *err);
} commands[] = {
    {"status", 0, 0, NULL, NULL, on_status},
    {"pause", 0, 0, NULL, NULL, on_pause},
    /* `mgpu-admin drain $NODE` with an empty variable must not pause the whole
     * cluster. */
    {"drain", 1, INT_MAX,
     "which node? To start no new jobs on any node use pause; pause --wait "
     "waits until no job runs",
     NULL, on_drain},
    {"resume", 0, INT_MAX, NULL, NULL, on_resume},
    {"unpause", 0, 0, NULL, NULL, on_resume},
    {"resize", 2, 2, "which job, and how many GPUs?",
     "it resizes one job at a time", on_resize},
    {"update", 2, INT_MAX, "which job, and which KEY=VALUE?", NULL, on_update},
    {"policy", 0, INT_MAX, NULL, NULL, on_policy},
    {"backup", 1, 1, "into which directory?", NULL, on_backup},
    {"fsck", 0, 0, NULL,
     "it checks the daemon's own databases; mgpu-ctld --fsck DIR checks those "
     "of a directory",
     on_fsck},
    {"reload", 0, 0, NULL, NULL, on_reload},
    {"log", 0, 0, NULL, NULL, on_log},
    {"who", 0, 0, NULL, NULL, on_who},
};

static const char *const keep_reason[] = {"pause", "drain", "resume", "unpause",
                                          NULL};

static bool is_one_of(const char *name, const char *const *words)
{
    while (*words && strcmp(*words, name) != 0)
        words++;
    return *words != NULL;
}

/* Checked here, because here the option is known by its name. */
static int check_reason(const struct args *a, bool is_of_nodes,
                        struct error *err)
{
    size_t n = a->reason ? strlen(a->reason) : 0;
    size_t most = (is_of_nodes ? WIRE_DRAIN_WHY_CAP : WIRE_PAUSE_WHY_CAP) - 1;
    return n <= most
               ? 0
               : error_set(
                     err, ERR_USAGE, "--reason: has %zu bytes; %s at most %zu",
                     n, is_of_nodes ? "with nodes it may have" : "it may have",
                     most);
}

/* n: number of words, with the command's name. */
static int check_options(const struct args *a, const char *name, int n,
                         struct error *err)
{
    bool is_of_nodes =
        strcmp(name, "drain") == 0 || (strcmp(name, "resume") == 0 && n > 1);
    if ((a->for_s > 0 || a->since_s > 0) && strcmp(name, "policy") != 0)
        return error_set(err, ERR_USAGE, "--for and --since go with policy");
    if (a->waits && strcmp(name, "pause") != 0)
        return error_set(err, ERR_USAGE, "--wait goes with pause alone");
    if (a->timeout_s > 0 && !a->waits)
        return error_set(err, ERR_USAGE, "--timeout goes with pause --wait");
    /* A reason would be lost with any other command: refuse it. */
    if (a->reason && !is_one_of(name, keep_reason))
        return error_set(err, ERR_USAGE,
                         "--reason goes with pause, drain and resume");
    if (a->nodes > 0 && strcmp(name, "resize") != 0)
        return error_set(err, ERR_USAGE, "--nodes goes with resize alone");
    if (a->last > 0 && strcmp(name, "log") != 0)
        return error_set(err, ERR_USAGE, "--last goes with log alone");
    return check_reason(a, is_of_nodes, err);
}

static int run(void *arg, int n, char **words, int *ret_exit, struct error *err)
{
    static const struct command jobs = {.most = INT_MAX, .run = on_any};
    const struct args *a = arg;
    const struct command *cmd = &jobs;
    struct client *c = NULL;
    if (n == 0)
        return error_set(err, ERR_USAGE, "which command? see %s --help",
                         tool.name);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, words[0]) == 0)
            cmd = &commands[i];
    if (n - 1 < cmd->least)
        return error_set(err, ERR_USAGE, "%s: %s", cmd->name, cmd->lacking);
    if (n - 1 > cmd->most)
        return error_set(err, ERR_USAGE, "%s: unexpected '%s'%s%s", cmd->name,
                         words[1 + cmd->most], cmd->excess ? "; " : "",
                         cmd->excess ? cmd->excess : "");
    if (check_options(a, words[0], n, err) < 0 ||
        client_create(a->common.url, 5, &c, err) < 0)
        return -1;
    struct call k = {c, a, words, n, 0};
    int rc = cmd->run(&k, err);
    *ret_exit = k.exit_status;
    client_destroy(c);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.reason = NULL};
    const struct tool_main m = {
        .tool = &tool,
        .on_option = on_option,
        .run = run,
        .arg = &a,
        .json = &a.common.json,
    };
    return tool_run(&m, argc, argv);
}
