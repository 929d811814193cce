/* spec_said.c - what of a specification travels: what its user wrote, so that
 * a daemon of another version is asked for nothing that nobody wants.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/spec/spec_check.h"
#include "jobs/spec/spec_table.h"
#include "tests/tap.h"

static const char file[] =
    "version: 1\nkind: command\nx-note: mine\ncommand: [a, -b]\nworkdir: w\n"
    "checkpoint: {grace: 90s}\nlabels: {a: b}\n"
    "env_passthrough: [SAID_TEST]\nretry: {max: 2}\n";
static const struct spec_set sets[] = {{"resources.gpus", "1..2", NULL},
                                       {"policy.priority", "high", NULL}};
static const struct spec_options here = {.file = "/data/said.yaml",
                                         .home = "/home/a",
                                         .sets = sets,
                                         .n_sets = 2,
                                         .take_env = true,
                                         .wants_text = true};
static const char said[] =
    "{\"version\":\"1\",\"kind\":\"command\",\"command\":[\"a\",\"-b\"],"
    "\"checkpoint\":{\"grace\":\"90s\"},\"labels\":{\"a\":\"b\"},"
    "\"env_passthrough\":[\"SAID_TEST\"],\"retry\":{\"max\":\"2\"},"
    "\"resources\":{\"gpus\":\"1..2\"},\"policy\":{\"priority\":\"high\"},"
    "\"name\":\"said\",\"workdir\":\"/data/w\","
    "\"env\":{\"SAID_TEST\":\"from here\"}}";

static struct spec_report report;
static struct error err;

/* What this test was started with must not change what it sees. */
static void forget_caches(void)
{
    const struct job_spec s = {.kind = SPEC_COMMAND};
    for (int i = 0; i < SPEC_CACHES; i++) {
        const char *name;
        (void)spec_check_cache_dir(&s, i, &name);
        (void)unsetenv(name);
    }
}

static int expand(const char *text, const struct spec_options *opt,
                  struct spec_jobs *ret)
{
    diagnostics_clear(&report);
    return spec_expand(text, strlen(text), opt, ret, &report, &err);
}

static void test_text(void)
{
    struct spec_jobs here_jobs = {.n = 0}, there = {.n = 0};
    struct spec_options silent = here;
    struct buf a = BUF_INIT, b = BUF_INIT;

    is_int(expand(file, &here, &here_jobs), 0, "a job");
    ok(report.n == 1 && strcmp(report.findings[0].code, "W104") == 0,
       "  nothing is odd about it but that its directory is not here");
    is_str(here_jobs.text, said, "  its user's words, and what is known here");
    ok(!here_jobs.is_sweep && here_jobs.n == 1, "  is no sweep");
    is_int(expand(said, NULL, &there), 0, "  they are read without the file");
    ok(!there.text, "  and not written again");
    bool same = spec_dump(&here_jobs.tasks[0].spec, &a, &err) == 0 &&
                spec_dump(&there.tasks[0].spec, &b, &err) == 0 &&
                strcmp(buf_str(&a), buf_str(&b)) == 0;
    ok(same, "  to the same job, with every value");
    spec_jobs_clear(&there);
    is_int(expand(buf_str(&a), NULL, &there), 0,
           "with every value, as older tools send it, it is one, too");
    spec_jobs_clear(&here_jobs);
    spec_jobs_clear(&there);
    silent.wants_text = false;
    is_int(expand(file, &silent, &here_jobs), 0, "who wants no text");
    ok(!here_jobs.text, "  gets none");
    spec_jobs_clear(&here_jobs);
    buf_clear(&a);
    buf_clear(&b);
}

/* How many errors are found by a daemon that does not know that key. */
static size_t errors_without(const struct node *root, size_t row)
{
    static struct schema_key keys[SPEC_KEYS_CAP];
    struct schema_from from[SPEC_KEYS_CAP];
    static const struct schema_base absolute = {.dir = NULL};
    struct job_spec spec = {.version = 0};
    struct schema older = spec_schema;

    memcpy(keys, spec_schema.keys, row * sizeof(*keys));
    memcpy(keys + row, spec_schema.keys + row + 1,
           (spec_schema.n - row - 1) * sizeof(*keys));
    older.keys = keys;
    older.n = spec_schema.n - 1;
    diagnostics_clear(&report);
    int rc = diagnostics_init(&report, &err);
    if (rc == 0)
        rc = schema_defaults(&older, &spec, &err);
    if (rc == 0)
        rc = schema_apply(&older, root, &absolute, &spec, from, &report, &err);
    schema_clear(&older, &spec);
    return rc < 0 ? 1000 : report.n_errors;
}

static bool is_written(const char *path)
{
    static const char *const written[] = {
        "version",
        "kind",
        "command",
        "workdir",
        "checkpoint.grace",
        "labels",
        "env_passthrough",
        "retry.max",
        "resources.gpus",
        "policy.priority",
        "name",
        "env",
    };
    for (size_t i = 0; i < sizeof(written) / sizeof(*written); i++)
        if (strcmp(written[i], path) == 0)
            return true;
    return false;
}

static void test_older_daemon(void)
{
    struct node *root = NULL;
    size_t n_silent = 0, n_written = 0, wrong = 0;

    diagnostics_clear(&report);
    if (diagnostics_init(&report, &err) < 0 ||
        tree_parse(said, strlen(said), &report, &root, &err) < 0)
        tap_diag("%s", err.msg);
    for (size_t i = 0; root && i < spec_schema.n; i++) {
        const char *path = spec_schema.keys[i].path;
        bool written = is_written(path);
        size_t n = errors_without(root, i);
        n_silent += !written;
        n_written += written;
        if ((n > 0) == written)
            continue;
        wrong++;
        tap_diag("without %s: %zu errors", path, n);
    }
    ok(n_silent > 50, "keys that nobody wrote: %zu", n_silent);
    is_int((long)n_written, 12, "and those that somebody did");
    is_int((long)wrong, 0, "a daemon minds the latter alone not to know");
    tree_destroy(root);
}

/* The working directory of the first task of a text, with workdir by --set. */
static void typed_path(const char *text, const char *typed, const char *want)
{
    const struct spec_set set = {"workdir", typed, NULL};
    struct spec_options opt = here;
    struct spec_jobs jobs = {.n = 0};

    opt.sets = &set;
    opt.n_sets = typed ? 1 : 0;
    if (expand(text, &opt, &jobs) == 0)
        is_str(jobs.tasks[0].spec.workdir, want, typed ? typed : text);
    else
        ok(0, "%s", err.msg);
    spec_jobs_clear(&jobs);
}

/* A path of an option is relative to the working directory, one of the file to
 * the file's. */
static void test_typed_paths(void)
{
    static const char one[] =
        "kind: command\nversion: 1\ncommand: [a]\nworkdir: w\n";
    static const char many[] = "kind: command\nversion: 1\ncommand: [a]\n"
                               "sweep: {grid: {env.A: [1, 2]}}\n";
    char *dir = getcwd(NULL, 0), want[4200];

    typed_path(one, NULL, "/data/w");
    (void)snprintf(want, sizeof(want), "%s/a", dir ? dir : "");
    typed_path(one, "./a", want);
    (void)snprintf(want, sizeof(want), "%s/b/c", dir ? dir : "");
    typed_path(many, "b/c", want);
    typed_path(many, "/d", "/d");
    typed_path(many, "~/e", "/home/a/e");
    free(dir);
}

/* Reads the environment of a job of kind command or llm. */
static void check_caches(const char *text, const char *want, const char *name)
{
    struct spec_jobs jobs = {.n = 0};
    char got[400] = "";

    if (expand(text, &here, &jobs) < 0)
        tap_diag("%s", err.msg);
    for (size_t i = 0; jobs.n > 0 && i < jobs.tasks[0].spec.env.n; i++) {
        const struct spec_pair *p = &jobs.tasks[0].spec.env.pairs[i];
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof(got) - len, "%s=%s ", p->key,
                       p->value);
    }
    is_str(got, want, name);
    spec_jobs_clear(&jobs);
}

/* Directories of caches that are ours reach the job. */
static void test_caches(void)
{
#define COMMAND "version: 1\nkind: command\ncommand: [a]\nworkdir: /\n"
#define LLM                                         \
    "version: 1\nkind: llm\nmethod: lora\ntrain:\n" \
    "  checkpointer: {checkpoint_dir: /m}\n"        \
    "  dataset: {path: /d, template: chat}\n"
    char dir[] = "/tmp/mgpu-spec-XXXXXX", none[64], one[100], two[200];

    ok(mkdtemp(dir) != NULL, "a directory");
    (void)snprintf(none, sizeof(none), "%s/none", dir);
    (void)snprintf(one, sizeof(one), "XDG_CACHE_HOME=%s ", dir);
    (void)snprintf(two, sizeof(two), "%sHF_HOME=%s ", one, dir);
    (void)setenv("XDG_CACHE_HOME", dir, 1);
    (void)setenv("HF_HOME", dir, 1);
    check_caches(COMMAND, two, "a program gets both");
    check_caches(LLM, one, "tokenised rows use one");
    check_caches(COMMAND "env: {HF_HOME: /x, XDG_CACHE_HOME: /z}\n",
                 "HF_HOME=/x XDG_CACHE_HOME=/z ",
                 "the specification's comes first");
    check_caches(COMMAND "env: {XDG_CACHE_HOME: /y}\nsecrets: [HF_HOME]\n",
                 "XDG_CACHE_HOME=/y ", "so does a secret");
    (void)setenv("XDG_CACHE_HOME", none, 1);
    (void)setenv("HF_HOME", "/", 1);
    check_caches(LLM, "", "a directory that is not there");
    check_caches(COMMAND, geteuid() == 0 ? "HF_HOME=/ " : "",
                 "one of root, which may be us");
    (void)unsetenv("XDG_CACHE_HOME");
    (void)unsetenv("HF_HOME");
    (void)rmdir(dir);
    diagnostics_clear(&report);
}

int main(void)
{
    forget_caches();
    (void)setenv("SAID_TEST", "from here", 1);
    test_text();
    test_typed_paths();
    test_caches();
    test_older_daemon();
    diagnostics_clear(&report);
    return tap_done();
}
