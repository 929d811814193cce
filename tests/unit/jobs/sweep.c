/* sweep.c - the jobs of a text: which, in which order, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"
#include "tests/tap.h"

#define CV "version: 1\nkind: cv\ndataset: {source: synthetic}\n"
#define CMD "version: 1\nkind: command\ncommand: [a]\n"

static const struct spec_options here = {
    .file = "/data/jobs/sweep.yaml", .home = "/home/a", .draw_seed = true};

static struct spec_jobs jobs;
static struct spec_report report;
static struct error err;

static int expand_with(const char *text, const struct spec_options *opt)
{
    spec_jobs_clear(&jobs);
    diagnostics_clear(&report);
    return spec_expand(text, strlen(text), opt, &jobs, &report, &err);
}

static int expand(const char *text)
{
    int rc = expand_with(text, &here);
    for (size_t i = 0; rc < 0 && i < report.n; i++)
        tap_diag("%s", report.findings[i].message);
    return rc;
}

/* "{..} {..}": what the tasks vary. */
static const char *varies(void)
{
    static char text[2000];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < jobs.n && len + 200 < sizeof(text); i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
                                i > 0 ? " " : "", jobs.tasks[i].vary);
    return text;
}

static void test_product(void)
{
    is_int(expand(CV "sweep:\n"
                     "  grid: {train.epochs: [1, 2], train.batch_size: [8, "
                     "16]}\n"),
           0, "a grid");
    ok(jobs.is_sweep && jobs.n == 4, "  is four jobs");
    is_str(varies(),
           "{\"train.epochs\":\"1\",\"train.batch_size\":\"8\"} "
           "{\"train.epochs\":\"1\",\"train.batch_size\":\"16\"} "
           "{\"train.epochs\":\"2\",\"train.batch_size\":\"8\"} "
           "{\"train.epochs\":\"2\",\"train.batch_size\":\"16\"}",
           "  the last key varies fastest");
    is_int(jobs.tasks[2].spec.train.epochs, 2, "  and the jobs have");
    is_int(jobs.tasks[2].spec.train.batch_size, 8, "  these values");
    is_str(jobs.tasks[3].spec.name, "sweep", "  the file's name");
    ok(jobs.max_parallel == 0 && !jobs.stop_on_fail, "  no limit by itself");

    is_int(expand(CV "sweep: {zip: {train.epochs: [1, 2], "
                     "train.precision: [fp64, fp16]}}\n"),
           0, "a zip");
    is_str(varies(),
           "{\"train.epochs\":\"1\",\"train.precision\":\"fp64\"} "
           "{\"train.epochs\":\"2\",\"train.precision\":\"fp16\"}",
           "  takes one of each");
    is_int(jobs.tasks[1].spec.train.precision, PRECISION_FP16, "  both of it");

    is_int(expand(CV "sweep: {max_parallel: 3, stop_on_fail: yes, list: "
                     "[{train.epochs: 3}, {train.epochs: 4, "
                     "resources.gpus: 1..2}]}\n"),
           0, "a list");
    is_str(varies(),
           "{\"train.epochs\":\"3\"} "
           "{\"train.epochs\":\"4\",\"resources.gpus\":\"1..2\"}",
           "  each item is a job");
    is_int(jobs.tasks[1].spec.resources.gpus.max, 2, "  with its own keys");
    ok(jobs.max_parallel == 3 && jobs.stop_on_fail, "the limits are told");

    is_int(expand(CV "sweep:\n"
                     "  list: [{train.seed: 1}, {train.seed: 2}]\n"
                     "  zip: {train.epochs: [5, 6], train.batch_size: [1, 2]}\n"
                     "  grid: {train.precision: [fp32, bf16]}\n"),
           0, "all three");
    is_int((long long)jobs.n, 8, "  are one product");
    is_str(jobs.tasks[3].vary,
           "{\"train.precision\":\"fp32\",\"train.epochs\":\"6\","
           "\"train.batch_size\":\"2\",\"train.seed\":\"2\"}",
           "  of grid, zip and list in this order");
}

static void test_values(void)
{
    is_int(expand(CV "sweep: {grid: {train.epochs: [1, 2, 3]}}\n"), 0,
           "a seed that is not given");
    ok(jobs.tasks[0].spec.train.seed >= 0 &&
           jobs.tasks[0].spec.train.seed == jobs.tasks[2].spec.train.seed,
       "  is drawn once");
    is_int(expand(CV "sweep: {grid: {train.seed: [1, 2]}}\n"), 0, "one varied");
    is_int(jobs.tasks[1].spec.train.seed, 2, "  is as varied");

    is_int(expand("kind: command\n"
                  "sweep: {grid: {env.X: ['a b', c], labels.run: [one], "
                  "command: [[p, q], [r]], resources.gpus: "
                  "[{min: 1, max: 2}]}}\n"),
           0, "lists, maps and parts of maps");
    const struct job_spec *s = &jobs.tasks[2].spec;
    ok(jobs.n == 4 && strcmp(s->env.pairs[0].value, "c") == 0 &&
           strcmp(s->labels.pairs[0].key, "run") == 0 && s->command.n == 2 &&
           s->resources.gpus.max == 2,
       "  arrive where they belong");

    is_int(expand("version: 1\nkind: cv\nsweep: {list: [{dataset.source: "
                  "synthetic}, {dataset.source: mnist, dataset.path: m}]}\n"),
           0, "a key that is needed may be varied");
    is_str(jobs.tasks[1].spec.dataset.path, "/data/jobs/m",
           "  and a path is relative to the file");
    is_int(expand(CV "sweep: {list: [{train.optimizer.name: sgd, "
                     "train.optimizer.nesterov: true}, "
                     "{train.optimizer.name: adamw}]}\n"),
           0, "keys that only some tasks can have");

    is_int(expand(CV "sweep: null\n"), 0, "a sweep that is nothing");
    ok(!jobs.is_sweep && jobs.n == 1 && !jobs.tasks[0].vary, "  is no sweep");
    struct spec_set set[] = {{"sweep.max_parallel", "2", NULL},
                             {"train.batch_size", "4", NULL},
                             {"sweep.grid", "{train.epochs: [7]}", NULL}};
    struct spec_options with = here;
    with.sets = set;
    with.n_sets = 3;
    is_int(expand_with(CV "sweep: {grid: {train.epochs: [1, 2]}}\n", &with), 0,
           "--set");
    ok(jobs.n == 1 && jobs.is_sweep && jobs.max_parallel == 2 &&
           jobs.tasks[0].spec.train.epochs == 7 &&
           jobs.tasks[0].spec.train.batch_size == 4,
       "  changes the sweep and what all have");
    set[0] = (struct spec_set){"sweep", NULL, NULL};
    with.n_sets = 1;
    is_int(expand_with(CV "sweep: {grid: {train.epochs: [1, 2]}}\n", &with), 0,
           "--unset sweep");
    ok(!jobs.is_sweep && jobs.n == 1, "  leaves one job");
}

static void test_secret(void)
{
    is_int(expand("version: 1\nkind: command\ncommand: [a]\n"
                  "sweep: {grid: {env.API_KEY: [hunter1, hunter2]}}\n"),
           -1, "S11: a variable that sounds secret is refused in a sweep");
}

/* What travels to the daemon makes the same jobs there. */
static void test_text(void)
{
    (void)setenv("SWEEP_TEST", "from here", 1);
    struct spec_options take = here;
    take.take_env = true;
    is_int(expand_with(CMD "env: {A: 1}\nenv_passthrough: [SWEEP_TEST]\n"
                           "sweep: {max_parallel: 2, grid: {env.B: [x, y]}}\n",
                       &take),
           0, "a sweep that takes over a variable");
    char *text = strdup(jobs.text);
    char *vary = strdup(varies());
    is_int(expand_with(text, NULL), 0, "its text is read without a file");
    is_str(varies(), vary, "  the same tasks");
    is_int(jobs.max_parallel, 2, "  the same limit");
    is_str(jobs.tasks[0].spec.name, "sweep", "  the file's name");
    bool has = false;
    const struct spec_map *env = &jobs.tasks[1].spec.env;
    for (size_t i = 0; i < env->n; i++)
        has = has || (strcmp(env->pairs[i].key, "SWEEP_TEST") == 0 &&
                      strcmp(env->pairs[i].value, "from here") == 0);
    ok(has && env->n == 3, "  the variable of over there");
    is_str(jobs.tasks[0].spec.workdir, "/data/jobs", "  the file's directory");
    free(vary);
    free(text);
    is_int(expand("version: 1\nkind: cv\ndataset: {source: mnist, path: m}\n"
                  "sweep: {grid: {train.output_dir: [~/x, ./y]}}\n"),
           0, "paths");
    text = strdup(jobs.text);
    is_int(expand_with(text, NULL), 0, "  travel as absolute ones");
    ok(strcmp(jobs.tasks[0].spec.train.output_dir, "/home/a/x") == 0 &&
           strcmp(jobs.tasks[1].spec.train.output_dir, "/data/jobs/y") == 0 &&
           strcmp(jobs.tasks[1].spec.dataset.path, "/data/jobs/m") == 0,
       "  as they were meant");
    free(text);
    is_int(expand_with(CMD "env_passthrough: [SWEEP_TEST]\n"
                           "sweep: {zip: {name: [b, c], workdir: [d, /e]},\n"
                           "  list: [{env.SWEEP_TEST: x}]}\n",
                       &take),
           0, "names, directories and variables of each task");
    text = strdup(jobs.text);
    is_int(expand_with(text, NULL), 0, "  travel");
    ok(strcmp(jobs.tasks[0].spec.name, "b") == 0 &&
           strcmp(jobs.tasks[1].spec.name, "c") == 0 &&
           strcmp(jobs.tasks[0].spec.workdir, "/data/jobs/d") == 0 &&
           strcmp(jobs.tasks[1].spec.workdir, "/e") == 0 &&
           strcmp(jobs.tasks[1].spec.env.pairs[0].value, "x") == 0,
       "  and nothing else is put in their place");
    free(text);
}

/* "E020 4:9 E013 5:2": code and place of each error. */
static const char *errors(void)
{
    static char text[400];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < report.n; i++) {
        const struct spec_finding *f = &report.findings[i];
        if (f->is_error)
            len += (size_t)snprintf(text + len, sizeof(text) - len,
                                    "%s%s %d:%d", len > 0 ? " " : "", f->code,
                                    f->line, f->column);
    }
    return text;
}

static const struct {
    const char *name, *text, *want, *says;
} bad[] = {
    {"no key", CV "sweep: {grid: {train.epoch: [1]}}\n", "E010 4:16",
     "unknown key 'train.epoch'"},
    {"a section", CV "sweep: {grid: {train: [1]}}\n", "E010 4:16", NULL},
    {"a key of torchtune", CV "sweep: {grid: {train.compile: [on]}}\n",
     "E020 4:16", "cannot be varied"},
    {"a key of another version", CV "sweep: {grid: {train.target: [on]}}\n",
     "E018 4:16", NULL},
    {"the sweep itself", CV "sweep: {grid: {sweep.max_parallel: [1]}}\n",
     "E020 4:16", "cannot be varied"},
    {"secrets", CMD "sweep: {grid: {secrets: [[A], [B]]}}\n", "E020 4:16",
     "cannot be varied"},
    {"the kind", CV "sweep: {grid: {kind: [cv]}}\n", "E020 4:16", NULL},
    {"a map as a whole", CMD "sweep: {grid: {env: [{a: b}]}}\n", "E020 4:16",
     NULL},
    {"no list", CV "sweep: {grid: {train.epochs: 1}}\n", "E020 4:30",
     "needs a list of values"},
    {"an empty list", CV "sweep: {grid: {train.epochs: []}}\n", "E020 4:30",
     NULL},
    {"nothing", CV "sweep: {max_parallel: 2}\n", "E020 4:1", "varies nothing"},
    {"unequal lists of a zip",
     CV "sweep: {zip: {train.epochs: [1, 2], train.batch_size: [1]}}\n",
     "E020 4:37", "has 1 values, and the keys before it 2"},
    {"a list of words", CV "sweep: {list: [a]}\n", "E020 4:16", NULL},
    {"an empty item", CV "sweep: {list: [{}]}\n", "E020 4:16", NULL},
    {"a bad value, once for all tasks",
     CV "sweep: {grid: {train.epochs: [1, 0], train.batch_size: [1, 2, 3]}}\n",
     "E013 4:34", "'train.epochs' must be 1..10000, not '0'"},
    {"a bad value outside",
     CV "train: {epochs: 0}\n"
        "sweep: {grid: {train.batch_size: [1, 2, 3]}}\n",
     "E013 4:17", NULL},
    {"a bad value of a list", CV "sweep: {list: [{train.epochs: x}]}\n",
     "E013 4:31", NULL},
    {"a list for a part of a map", CMD "sweep: {grid: {env.X: [[a]]}}\n",
     "E011 4:24", NULL},
    {"twice",
     CV "sweep: {grid: {train.epochs: [1]}, zip: {train.epochs: "
        "[2]}}\n",
     "E020 4:42", "is varied twice"},
    {"twice, in a list",
     CV "sweep: {grid: {train.epochs: [1]}, list: [{train.epochs: 2}]}\n",
     "E020 4:16", NULL},
    {"set as well",
     CV "train: {epochs: 3}\nsweep: {grid: {train.epochs: "
        "[1]}}\n",
     "E020 5:16", "is varied, and set as well"},
    {"set as well as in each item",
     CV "train: {epochs: 3}\nsweep: {list: [{train.epochs: 1}]}\n", "E020 5:17",
     NULL},
    {"two values that do not go together",
     CV "sweep: {grid: {train.precision: [fp16, fp32], train.mixed: [false, "
        "true]}}\n",
     "E017 4:68",
     "(task 3: {\"train.precision\":\"fp32\",\"train.mixed\":\"true\"})"},
    {"one that is missing in a task",
     "version: 1\nkind: cv\nsweep: {list: [{dataset.source: mnist}]}\n",
     "E015 3:17", "'dataset.path' is missing (task 0: "},
    {"a list where a map should be", CV "sweep: {grid: [1]}\n", "E011 4:15",
     NULL},
    {"a word for it all", CV "sweep: yes\n", "E011 4:8", NULL},
    {"too many at a time",
     CV "sweep: {max_parallel: 5000, grid: "
        "{train.epochs: [1]}}\n",
     "E020 4:23", NULL},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int rc = expand_with(bad[i].text, &here);
        ok(rc < 0 && err.code == ERR_INVAL, "refused: %s", bad[i].name);
        is_str(errors(), bad[i].want, "  its place");
        bool says = !bad[i].says;
        for (size_t k = 0; k < report.n && !says; k++)
            says = strstr(report.findings[k].message, bad[i].says) != NULL;
        ok(says, "  its message");
        if (!says && report.n > 0)
            tap_diag("%s", report.findings[0].message);
    }
    is_int(expand_with(CV "train: {epochs: 3}\nsweep: {list: [{train.epochs: "
                          "1}, {train.batch_size: 2}]}\n",
                       &here),
           0, "what only some items vary has a value for the others");
    is_int(jobs.tasks[1].spec.train.epochs, 3, "  this one");
}

static void test_hints(void)
{
    static const struct {
        const char *sweep, *hint;
    } rows[] = {
        {"{grid: {train.epoch: [1]}}", "did you mean 'train.epochs'?"},
        {"{grid: {trian.epochs: [1]}}", "did you mean 'train.epochs'?"},
        {"{grid: {epochs: [1]}}", "did you mean 'train.epochs'?"},
        {"{zip: {batchsize: [1]}}", "did you mean 'train.batch_size'?"},
        {"{grid: {optimizer.lr: [1]}}", "did you mean 'train.optimizer.lr'?"},
        {"{grid: {train.lr: [1]}}", "did you mean 'train.optimizer.lr'?"},
        {"{list: [{seed: 1}]}", "did you mean 'train.seed'?"},
        {"{grid: {train: {epochs: [1]}}}", "did you mean 'train.epochs'?"},
        {"{grid: {label.run: [1]}}", "did you mean 'labels.run'?"},
        {"{grid: {secret: [1]}}", ""}, /* not one that can be varied */
        {"{grid: {of.no.meaning: [1]}}", ""},
        {"{train.epochs: [1]}", "did you mean 'grid: {train.epochs: ...}'?"},
        {"{train: {epochs: [1]}}", "did you mean 'grid: {train.epochs: ...}'?"},
        {"{batchsize: [1]}", "did you mean 'grid: {train.batch_size: ...}'?"},
        {"{gird: {train.epochs: [1]}}", "did you mean 'grid'?"},
        {"{max_paralel: 3}", "did you mean 'max_parallel'?"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200];
        (void)snprintf(text, sizeof(text), CV "sweep: %s\n", rows[i].sweep);
        bool is_bad = expand_with(text, &here) < 0 && report.n_errors == 1 &&
                      strcmp(report.findings[0].code, "E010") == 0;
        ok(is_bad, "E010, once: %s", rows[i].sweep);
        is_str(is_bad ? report.findings[0].hint : NULL, rows[i].hint,
               "  what may be meant");
    }
}

/* "a: [1,1,..]" n times. */
static void add_values(struct buf *b, const char *key, int n)
{
    int rc = buf_addf(b, NULL, "    %s: [1", key);
    for (int i = 1; i < n; i++)
        rc |= buf_addstr(b, ",1", NULL);
    rc |= buf_addstr(b, "]\n", NULL);
    if (rc < 0)
        abort();
}

static void test_bounds(void)
{
    static const struct {
        int a, b;
        bool fits;
    } sizes[] = {{64, 64, true}, {64, 65, false}, {4000, 4000, false}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf b = BUF_INIT;
        if (buf_addstr(&b, CV "sweep:\n  grid:\n", NULL) < 0)
            abort();
        add_values(&b, "train.epochs", sizes[i].a);
        add_values(&b, "train.batch_size", sizes[i].b);
        int rc = expand_with(buf_str(&b), &here);
        ok((rc == 0) == sizes[i].fits, "%d x %d tasks", sizes[i].a, sizes[i].b);
        if (sizes[i].fits)
            is_int((long long)jobs.n, SPEC_TASKS_MAX, "  as many as may be");
        else
            ok(report.n > 0 && strstr(report.findings[0].message, "jobs; at "
                                                                  "most 4096"),
               "  are too many, and none is made");
        buf_clear(&b);
    }
    struct buf grid = BUF_INIT;
    if (buf_addstr(&grid, CMD "sweep:\n  grid:\n", NULL) < 0)
        abort();
    for (int i = 0; i < 40; i++) {
        char key[24];
        (void)snprintf(key, sizeof(key), "env.K%d", i);
        add_values(&grid, key, 1);
    }
    is_int(expand_with(buf_str(&grid), &here), -1, "forty keys");
    ok(report.n_errors > 0 && strcmp(report.findings[0].code, "E020") == 0,
       "  are too many, too");
    buf_clear(&grid);
}

/* {"E020 line:column"} of the only finding. */
static const char *place(void)
{
    static char text[40];
    const struct spec_finding *f = report.findings;
    (void)snprintf(text, sizeof(text), "none");
    if (report.n == 1)
        (void)snprintf(text, sizeof(text), "%s %d:%d", f->code, f->line,
                       f->column);
    return text;
}

/* B15: 10 values of each of nine keys, and of 16. */
static void test_points(void)
{
    static const struct {
        int n_keys;
        const char *says;
    } rows[] = {{9, "makes 1000000000 jobs; at most 4096"},
                {16, "makes 1e+16 jobs; at most 4096"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = BUF_INIT;
        if (buf_addstr(&b, CMD "sweep:\n  grid:\n", NULL) < 0)
            abort();
        for (int k = 0; k < rows[i].n_keys; k++) {
            char key[24];
            (void)snprintf(key, sizeof(key), "env.K%d", k);
            add_values(&b, key, 10);
        }
        is_int(expand_with(buf_str(&b), &here), -1, rows[i].says);
        is_str(place(), "E020 4:1", "  one mistake, of the sweep");
        ok(report.n > 0 && strstr(report.findings[0].message, rows[i].says),
           "  with the count: %s", report.findings[0].message);
        ok(jobs.n == 0 && !jobs.tasks && !jobs.text, "  none is made room for");
        buf_clear(&b);
    }
}

/* 64 jobs named by each task: others, or those of the task before as well. */
static void test_awaited(void)
{
    static const struct {
        int n_tasks, step;
        const char *place;
    } rows[] = {{64, 64, "none"}, {65, 64, "E020 4:1"}, {65, 63, "none"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = BUF_INIT;
        int rc = buf_addstr(&b, CMD "sweep:\n  list:\n", NULL);
        for (int k = 0; rc == 0 && k < rows[i].n_tasks; k++) {
            rc = buf_addstr(&b, "  - {depends_on: [\"afterok", NULL);
            for (int j = 0; rc == 0 && j < 64; j++)
                rc = buf_addf(&b, NULL, ":%d", 1 + k * rows[i].step + j);
            if (rc == 0)
                rc = buf_addstr(&b, "\"]}\n", NULL);
        }
        if (rc < 0)
            abort();
        bool is_fine = strcmp(rows[i].place, "none") == 0;
        is_int(expand_with(buf_str(&b), &here), is_fine ? 0 : -1,
               "each task waits for 64 jobs");
        is_str(place(), rows[i].place, "  between them");
        ok(is_fine || strstr(report.findings[0].message,
                             "wait for 4160 others; at most 4096"),
           "  of which there may be so many");
        buf_clear(&b);
    }
}

/* Short lists, but all tasks of a long text. */
static void test_size(void)
{
    static char text[20000];
    static const int n[] = {1000, 4000};
    memset(text, 'x', sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
        struct buf b = BUF_INIT;
        if (buf_addf(&b, NULL, CMD "env: {LONG: %s}\nsweep:\n  grid:\n", text) <
            0)
            abort();
        add_values(&b, "env.SHORT", n[i]);
        int rc = expand_with(buf_str(&b), &here);
        ok((rc == 0) == (i == 0), "%d jobs of 20 kB", n[i]);
        if (rc != 0)
            ok(report.n == 1 &&
                   strstr(report.findings[0].message,
                          "at most 32 MiB in all") &&
                   jobs.n == 0,
               "  are too much: %s", report.findings[0].message);
        buf_clear(&b);
    }
}

static void test_array(void)
{
    struct spec_set set[] = {{"sweep.array", "1,3,7-9%2", "--array"}};
    struct spec_options with = here;
    is_int(expand(CMD "sweep: {array: 4-8:2%2, stop_on_fail: true}\n"), 0,
           "an array");
    ok(jobs.is_sweep && jobs.n == 3 && jobs.max_parallel == 2 &&
           jobs.stop_on_fail,
       "  is three jobs, two at a time");
    is_str(varies(), "{\"array\":\"4\"} {\"array\":\"6\"} {\"array\":\"8\"}",
           "  with their numbers");
    ok(jobs.tasks[0].number == 4 && jobs.tasks[2].number == 8, "  by number");
    struct buf text = BUF_INIT;
    (void)!buf_addstr(&text, jobs.text, &err);
    is_int(expand(buf_str(&text)), 0, "  also of the text that travels");
    ok(jobs.n == 3 && jobs.tasks[2].number == 8 && jobs.max_parallel == 2,
       "    the same");
    buf_clear(&text);
    with.sets = set;
    with.n_sets = 1;
    is_int(expand_with(CMD "sweep: {stop_on_fail: true}\n", &with), 0,
           "--array");
    ok(jobs.n == 5 && jobs.tasks[4].number == 9 && jobs.stop_on_fail,
       "  of what the file says of sweeps");
    is_int(expand(CMD "sweep: {grid: {env.A: [x, y]}}\n"), 0, "a grid");
    ok(jobs.tasks[0].number == 0 && jobs.tasks[1].number == 1, "  from 0");
}

static void test_array_bad(void)
{
    static const struct {
        const char *text, *option, *want;
    } t[] = {
        {CMD "sweep: {array: 0-15%x}\n", NULL, "E020 4:21"},
        {CMD "sweep: {array: \"1,,3\"}\n", NULL, "E020 4:19"},
        {CMD "sweep: {array: ''}\n", NULL, "E020 4:17"},
        {CMD "sweep: {array: [1, 2]}\n", NULL, "E011 4:16"},
        {CMD, "0-15%x", "E020 0:6"},
        {CMD, "5-1", "E020 0:3"},
        {CMD, "4096", "E020 0:1"},
        {CMD "sweep: {grid: {env.A: [x]}}\n", "0-3", "E020 0:0"},
        {CMD "sweep: {array: 0-3%2, max_parallel: 2}\n", NULL, "E020 4:16"},
    };
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct spec_set set[] = {{"sweep.array", t[i].option, "--array"}};
        struct spec_options with = here;
        with.sets = set;
        with.n_sets = t[i].option != NULL;
        is_int(expand_with(t[i].text, &with), -1,
               t[i].option ? t[i].option : t[i].text);
        is_str(place(), t[i].want, "  its place");
        ok(!t[i].option ||
               (report.n == 1 && report.findings[0].option == set[0].option),
           "  and the option");
    }
}

static void test_show(void)
{
    static const char text[] = CV "train: {batch_size: 4}\nsweep: "
                                  "{max_parallel: 1, grid: {train.epochs: "
                                  "[1, 2]}}\n";
    struct buf out = BUF_INIT;
    is_int(spec_show(text, strlen(text), &here, &out, &err), 0, "--show");
    ok(strstr(buf_str(&out), "# varied, see below") &&
           strstr(buf_str(&out), "batch_size: 4") &&
           strstr(buf_str(&out), "# sweep: 2 jobs, 1 at a time\n"
                                 "# 0: {\"train.epochs\":\"1\"}\n"
                                 "# 1: {\"train.epochs\":\"2\"}\n"),
       "what all have, then the tasks");
    buf_clear(&out);
}

int main(void)
{
    test_product();
    test_values();
    test_secret();
    test_text();
    test_bad();
    test_hints();
    test_bounds();
    test_points();
    test_awaited();
    test_size();
    test_array();
    test_array_bad();
    test_show();
    spec_jobs_clear(&jobs);
    diagnostics_clear(&report);
    return tap_done();
}
