/* submit_args.c - parse the command line of mgpu-submit; see submit_args.h. */
#include "scheduler/tools/submit/submit_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/dependency.h"
#include "scheduler/tools/views/wait.h"

enum {
    OPT_VALIDATE = 1,
    OPT_SHOW,
    OPT_DRY_RUN,
    OPT_TEMPLATE,
    OPT_TEMPLATES,
    OPT_EXPLAIN,
    OPT_SCHEMA,
    OPT_WERROR,
    OPT_SET,
    OPT_UNSET,
    OPT_GPUS,
    OPT_NODES,
    OPT_LAUNCH,
    OPT_NAME,
    OPT_ACCOUNT,
    OPT_PARTITION,
    OPT_QOS,
    OPT_TIME,
    OPT_PRIORITY,
    OPT_BEGIN,
    OPT_LABEL,
    OPT_ARRAY,
    OPT_HOLD,
    OPT_FORCE_QUEUE,
    OPT_DEPENDENCY,
    OPT_WAIT,
    OPT_FOLLOW,
    OPT_TIMEOUT,
    OPT_KEY,
    OPT_PARSABLE
};

static const struct opt opts[] = {
    {OPT_VALIDATE, 0, "validate", NULL,
     "check the specification, submit nothing"},
    {OPT_SHOW, 0, "show", NULL,
     "print the effective specification and where each value is from"},
    {OPT_DRY_RUN, 0, "dry-run", NULL,
     "ask the daemon whether it fits, when and where it would start"},
    {OPT_TEMPLATE, 0, "template", "NAME",
     "use this template, built-in or your own, instead of FILE or as its base"},
    {OPT_TEMPLATES, 0, "list-templates", NULL, "list the templates and exit"},
    {OPT_EXPLAIN, 0, "explain", "[=CODE]",
     "explain the codes of findings, e.g. --explain E024; alone: list all "
     "codes"},
    {OPT_SCHEMA, 0, "schema", NULL,
     "print the JSON Schema of a specification, for editors, and exit"},
    {OPT_WERROR, 0, "werror", NULL, "treat warnings as errors"},
    {OPT_SET, 's', "set", "KEY=VALUE", "replace or add a value of the file"},
    {OPT_UNSET, 0, "unset", "KEY", "remove a key of the file"},
    {OPT_GPUS, 'G', "gpus", "N|MIN..MAX", "short for --set resources.gpus="},
    {OPT_NODES, 'N', "nodes", "N|MIN..MAX", "short for --set resources.nodes="},
    {OPT_LAUNCH, 0, "launch", "HOW",
     "short for --set launch=: ranks, torch, mpi or node"},
    {OPT_NAME, 0, "name", "NAME", "short for --set name="},
    {OPT_ACCOUNT, 0, "account", "NAME", "short for --set policy.account="},
    {OPT_PARTITION, 0, "partition", "NAME",
     "short for --set resources.partition="},
    {OPT_QOS, 0, "qos", "NAME", "short for --set policy.qos="},
    {OPT_TIME, 0, "time", "DURATION", "short for --set resources.time_limit="},
    {OPT_PRIORITY, 0, "priority", "P", "short for --set policy.priority="},
    {OPT_BEGIN, 'b', "begin", "TIME",
     "short for --set policy.begin=, as in +2h or 2026-12-01T08:00:00Z"},
    {OPT_LABEL, 0, "label", "KEY=VALUE", "short for --set labels.KEY="},
    {OPT_ARRAY, 'a', "array", "SPEC",
     "short for --set sweep.array=: a job for each number, as in 0-15%4"},
    {OPT_HOLD, 0, "hold", NULL, "submit, but do not start before a release"},
    {OPT_FORCE_QUEUE, 0, "force-queue", NULL,
     "keep the job in the queue even if no nodes can ever hold it"},
    {OPT_DEPENDENCY, 'd', "dependency", "KIND:JOB,...",
     "start after these jobs, e.g. afterok:12; replaces the file's"},
    {OPT_WAIT, 'w', "wait", "[=STATE,...]",
     "wait until the job ends, or reaches one of the states; show progress, "
     "exit with its code"},
    {OPT_FOLLOW, 'f', "follow", NULL,
     "print the job's output until it ends, exit with its code"},
    {OPT_TIMEOUT, 0, "timeout", "DURATION", "give up waiting after this long"},
    {OPT_KEY, 0, "idempotency-key", "KEY",
     "submit at most one job under this key"},
    {OPT_PARSABLE, 0, "parsable", NULL, "print the job's id and nothing else"},
    OPTION_ROW_JSON,
    {OPTION_QUIET, 'q', "quiet", NULL, "no progress and no warnings"},
    OPTION_ROW_URL,
    {0, 0, NULL, NULL, NULL},
};

const struct tool submit_tool = {
    .name = "mgpu-submit",
    .synopsis = "[options] FILE|--template NAME [FILE]\n"
                "       mgpu-submit [options] -- PROGRAM [ARGUMENT]...",
    .summary = "Checks a job specification (mgpu-job(5); - is standard input) "
               "and submits it; or runs PROGRAM, in this directory.",
    .opts = opts,
};

/* option: NULL for --set itself. */
static int add_set(struct submit_args *a, const char *option, const char *key,
                   size_t key_len, const char *value, struct error *err)
{
    if (a->n_sets == SUBMIT_SETS_MAX)
        return error_set(err, ERR_USAGE, "more than %d --set and --unset",
                         SUBMIT_SETS_MAX);
    if (key_len >= SUBMIT_KEY_CAP)
        return error_set(err, ERR_USAGE, "a key of %zu characters", key_len);
    char *copy = a->keys[a->n_sets];
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    a->sets[a->n_sets++] =
        (struct spec_set){.key = copy, .value = value, .option = option};
    return 0;
}

static int on_set(struct submit_args *a, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return error_set(err, ERR_USAGE,
                         "--set '%s': write KEY=VALUE, as in train.epochs=3",
                         text);
    return add_set(a, NULL, text, (size_t)(equals - text), equals + 1, err);
}

/* Becomes a --set: a list that replaces the file's. */
static int on_dependency(struct submit_args *a, const char *text,
                         struct error *err)
{
    struct buf *b = &a->depends;
    struct depend found[DEPEND_MAX];
    size_t n = 0;

    for (const char *at = text; *at;) {
        char word[200];
        size_t len = strcspn(at, ",");
        (void)snprintf(word, sizeof(word), "%.*s", (int)len, at);
        if (depend_parse(word, found, &n, err) < 0) {
            err->code = ERR_USAGE;
            return error_wrap(err, "--dependency");
        }
        at += len + (at[len] == ',');
    }
    for (size_t i = 0; i < n; i++) {
        char word[DEPEND_TEXT_CAP];
        if (buf_addf(b, err, "%s'%s'", b->len > 0 ? ", " : "[",
                     depend_show(&found[i], word)) < 0)
            return -1;
    }
    return 0;
}

/* A line break would end the HTTP header of the key, so that another key than
 * the user's would decide whether this is a new job. */
static int on_key(struct submit_args *a, const char *text, struct error *err)
{
    size_t n = 0;
    while (text[n] > ' ' && text[n] <= '~')
        n++;
    if (n < 1 || n > 64 || text[n])
        return error_set(err, ERR_USAGE,
                         "--idempotency-key has 1 to 64 characters, printable "
                         "ASCII without spaces");
    a->key = text;
    return 0;
}

/* --label team=vision: --set labels.team=vision. */
static int on_label(struct submit_args *a, const char *text, struct error *err)
{
    char key[SUBMIT_KEY_CAP];
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return error_set(err, ERR_USAGE,
                         "--label '%s': write KEY=VALUE, as in team=vision",
                         text);
    int n =
        snprintf(key, sizeof(key), "labels.%.*s", (int)(equals - text), text);
    if (n < 0 || (size_t)n >= sizeof(key))
        return error_set(err, ERR_USAGE, "--label: a key of %td characters",
                         equals - text);
    return add_set(a, "--label", key, (size_t)n, equals + 1, err);
}

/* Options that are short for a --set of one key: they apply in the order of the
 * command line, and the last one wins. */
static const struct {
    int id;
    const char *option, *key, *value; /* value NULL: the value of the option */
} shorts[] = {
    {OPT_GPUS, "--gpus", "resources.gpus", NULL},
    {OPT_NODES, "--nodes", "resources.nodes", NULL},
    {OPT_LAUNCH, "--launch", "launch", NULL},
    {OPT_NAME, "--name", "name", NULL},
    {OPT_ACCOUNT, "--account", "policy.account", NULL},
    {OPT_PARTITION, "--partition", "resources.partition", NULL},
    {OPT_QOS, "--qos", "policy.qos", NULL},
    {OPT_TIME, "--time", "resources.time_limit", NULL},
    {OPT_PRIORITY, "--priority", "policy.priority", NULL},
    {OPT_ARRAY, "--array", "sweep.array", NULL},
    {OPT_BEGIN, "--begin", "policy.begin", NULL},
    {OPT_FORCE_QUEUE, "--force-queue", "policy.force_queue", "true"},
};

static int on_short(struct submit_args *a, int id, const char *value,
                    struct error *err)
{
    for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++)
        if (shorts[i].id == id)
            return add_set(a, shorts[i].option, shorts[i].key,
                           strlen(shorts[i].key),
                           shorts[i].value ? shorts[i].value : value, err);
    return error_set(err, ERR_INTERNAL, "option %d", id);
}

int submit_on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct submit_args *a = arg;

    switch (o->id) {
    case OPT_VALIDATE:
        a->validate = true;
        break;
    case OPT_SHOW:
        a->show = true;
        break;
    case OPT_DRY_RUN:
        a->dry_run = true;
        break;
    case OPT_TEMPLATE:
        a->template_name = value;
        break;
    case OPT_TEMPLATES:
        a->list_templates = true;
        break;
    case OPT_EXPLAIN:
        a->explain = true;
        a->code = value;
        break;
    case OPT_SCHEMA:
        a->schema = true;
        break;
    case OPT_WERROR:
        a->werror = true;
        break;
    case OPT_SET:
        return on_set(a, value, err);
    case OPT_UNSET:
        return add_set(a, NULL, value, strlen(value), NULL, err);
    case OPT_HOLD:
        a->hold = true;
        break;
    case OPT_ARRAY:
    case OPT_BEGIN:
    case OPT_GPUS:
    case OPT_NODES:
    case OPT_LAUNCH:
    case OPT_NAME:
    case OPT_ACCOUNT:
    case OPT_PARTITION:
    case OPT_QOS:
    case OPT_TIME:
    case OPT_PRIORITY:
    case OPT_FORCE_QUEUE:
        return on_short(a, o->id, value, err);
    case OPT_LABEL:
        return on_label(a, value, err);
    case OPT_FOLLOW:
        a->follow = true;
        break;
    case OPT_DEPENDENCY:
        return on_dependency(a, value, err);
    case OPT_WAIT:
        a->wait = true;
        return wait_states(value, &a->wait_states, err);
    case OPT_TIMEOUT:
        return options_duration(o->name, value, &a->timeout_s, err);
    case OPT_KEY:
        return on_key(a, value, err);
    case OPT_PARSABLE:
        a->parsable = true;
        break;
    default:
        (void)options_common(&a->common, o->id, value);
    }
    return 0;
}

/* ---- MGPU_SET_* ---------------------------------------------------------- */

static const char set_head[] = "MGPU_SET_";

static bool is_variable(const char *entry)
{
    size_t n = sizeof(set_head) - 1;
    return strncmp(entry, set_head, n) == 0 && entry[n] != '\0' &&
           entry[n] != '=' && strchr(entry, '=');
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The environment has no order: sort by name, so that a map comes before its
 * members. */
static int find_variables(struct submit_args *a, char *const *env,
                          const char *found[SUBMIT_SETS_MAX], size_t *ret_n,
                          struct error *err)
{
    size_t n = 0;
    for (; env && *env; env++) {
        if (!is_variable(*env))
            continue;
        if (n + a->n_sets == SUBMIT_SETS_MAX)
            return error_set(err, ERR_USAGE,
                             "more than %d %s*, --set and --unset",
                             SUBMIT_SETS_MAX, set_head);
        found[n++] = *env;
    }
    if (n > 1)
        qsort(found, n, sizeof(*found), by_name);
    *ret_n = n;
    return 0;
}

/* Puts them before the --set options of the command line. */
static int take_variables(struct submit_args *a, char *const *env,
                          struct error *err)
{
    const char *found[SUBMIT_SETS_MAX];
    size_t n = 0;
    if (find_variables(a, env, found, &n, err) < 0)
        return -1;
    memmove(a->sets + n, a->sets, a->n_sets * sizeof(*a->sets));
    for (size_t i = 0; i < n; i++) {
        const char *equals = strchr(found[i], '=');
        char *name = strndup(found[i], (size_t)(equals - found[i]));
        if (!name)
            return error_set(err, ERR_NOMEM, "%s*", set_head);
        a->variables[a->n_variables++] = name;
        char *key = a->keys[a->n_sets++];
        if (!spec_key_of(name + sizeof(set_head) - 1, key, SUBMIT_KEY_CAP))
            return error_set(err, ERR_USAGE,
                             "%.60s...: a key of %zu characters", name,
                             strlen(name) - sizeof(set_head) + 1);
        a->sets[i] =
            (struct spec_set){.key = key, .value = equals + 1, .option = name};
    }
    return 0;
}

int submit_args_end(struct submit_args *a, char *const *env, struct error *err)
{
    static const char key[] = "depends_on";
    if (a->depends.len > 0 && (buf_addstr(&a->depends, "]", err) < 0 ||
                               add_set(a, "--dependency", key, strlen(key),
                                       buf_str(&a->depends), err) < 0))
        return -1;
    return take_variables(a, env, err);
}

void submit_args_clear(struct submit_args *a)
{
    buf_clear(&a->depends);
    buf_clear(&a->template_path);
    spec_base_destroy(a->base);
    for (size_t i = 0; i < a->n_variables; i++)
        free(a->variables[i]);
    a->n_variables = 0;
}
