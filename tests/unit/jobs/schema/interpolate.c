/* interpolate.c - ${name} in texts: what each becomes, when, and what is
 * refused. */
#include "jobs/schema/interpolate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec.h"
#include "tests/tap.h"

static const struct fill_vars vars = {
    .name = "run",
    .user = "ann",
    .output_dir = "/o/7",
    .job = 12345678901234567890u,
    .task = 3,
    .attempt = 2,
};

static const struct {
    const char *text, *want; /* NULL: refused */
} rows[] = {
    {"", ""},
    {"plain $HOME $$ $1 {name} $ {", "plain $HOME $$ $1 {name} $ {"},
    {"${name}", "run"},
    {"a${name}b${user}c", "arunbannc"},
    {"${job_id}/${task_id}/${attempt}", "12345678901234567890/3/2"},
    {"${output_dir}/x", "/o/7/x"},
    {"$${name}", "${name}"},
    {"$$${name}", "$${name}"},
    {"a$${HOME}/${name}$${", "a${HOME}/run${"},
    {"}${name}}", "}run}"},
    {"${Name}", NULL},
    {"${ name}", NULL},
    {"${name:-x}", NULL},
    {"${}", NULL},
    {"${", NULL},
    {"${name", NULL},
    {"${na${name}me}", NULL},
    {"${name}${x}", NULL},
};

static void test_texts(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = BUF_INIT;
        struct error err = ERROR_INIT;
        char hint[FILL_HINT_CAP] = "";
        int rc = interpolate_text(rows[i].text, FILL_START, &vars, &b, &err);
        int checked = interpolate_check(rows[i].text, FILL_START, hint, NULL);
        is_int(checked, rc, rows[i].text);
        if (rows[i].want)
            is_str(rc == 0 ? buf_str(&b) : err.msg, rows[i].want, rows[i].text);
        else
            ok(rc < 0 && err.code == ERR_INVAL && hint[0], "'%s': %s: %s",
               rows[i].text, err.msg, hint);
        buf_clear(&b);
    }
}

static bool may(const char *text, enum fill_when when)
{
    char hint[FILL_HINT_CAP];
    return interpolate_check(text, when, hint, NULL) == 0;
}

static void test_when(void)
{
    struct buf b = BUF_INIT;
    ok(may("${name}${user}", FILL_SUBMIT), "at the submit: name and user");
    ok(!may("${job_id}", FILL_SUBMIT) && !may("${output_dir}", FILL_SUBMIT) &&
           !may("$${a}", FILL_SUBMIT),
       "and nothing else");
    ok(may("${job_id}${user}", FILL_OUTPUT) &&
           !may("${output_dir}", FILL_OUTPUT),
       "output_dir has all but itself");
    ok(!may("${name}", FILL_NONE) && !may("$${name}", FILL_NONE) &&
           may("$name", FILL_NONE),
       "none: neither a name nor its escape");
    ok(interpolate_text("${name}", FILL_NONE, &vars, &b, NULL) == 0 &&
           strcmp(buf_str(&b), "${name}") == 0,
       "which is as it stands");
    ok(interpolate_is_below_output("${output_dir}") &&
           interpolate_is_below_output("${output_dir}/a") &&
           !interpolate_is_below_output("${output_dir}a") &&
           !interpolate_is_below_output("$${output_dir}/a"),
       "what is below output_dir");
    ok(interpolate_has("a/${attempt}", "attempt") &&
           !interpolate_has(NULL, "attempt") &&
           !interpolate_has("$${attempt}", "attempt") &&
           !interpolate_has("${attempts}", "attempt"),
       "what is named");
    buf_clear(&b);
}

/* B14: nothing here is recursive, and nothing grows without a bound. */
static void test_sizes(void)
{
    static const size_t n = 10000;
    static char text[40000];
    char hint[FILL_HINT_CAP];
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < n; i++)
        memcpy(text + 2 * i, "${", 3);
    ok(interpolate_check(text, FILL_START, hint, &err) < 0,
       "10,000 without an end");
    memcpy(text + 2 * n, "name", 4);
    memset(text + 2 * n + 4, '}', n);
    ok(interpolate_check(text, FILL_START, hint, &err) < 0 &&
           strstr(err.msg, "10000 deep"),
       "10,000 deep: %s", err.msg);
    for (size_t i = 0; i < 65; i++)
        memcpy(text + 13 * i, "${output_dir}", 14);
    ok(interpolate_check(text, FILL_START, hint, &err) < 0 &&
           strstr(err.msg, "may become 66495 bytes"),
       "as long as it may become: %s", err.msg);
    text[13 * (size_t)64] = '\0';
    ok(may(text, FILL_START), "one less is fine");
}

static void test_users(void)
{
    static const char *const good[] = {"ann",      "a.b-c_d", "ann@lab", "1000",
                                       "LAB\\ann", "_apt",    "ann;x"};
    static const char *const bad[] = {"",     "..",   ".a",   "a/b",
                                      "a b",  "a\nb", "$a",   "-a",
                                      "\xc3", "a'b",  "~ann", "a`b`"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ok(interpolate_is_user(good[i]), "user '%s'", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fill_vars v = vars;
        struct buf b = BUF_INIT;
        struct error err = ERROR_INIT;
        v.user = bad[i];
        ok(interpolate_text("/runs/${user}", FILL_START, &v, &b, &err) < 0 &&
               err.code == ERR_INVAL,
           "no user that leaves its directory");
        buf_clear(&b);
    }
}

/* ---- whole specifications ------------------------------------------------ */

static bool parse(const char *text, const char *user, struct job_spec *s,
                  char first[400])
{
    struct spec_options opt = {
        .file = "/data/My run.yaml", .home = "/home/ann", .user = user};
    struct spec_report r = {.n = 0};
    struct error err = ERROR_INIT;
    *s = (struct job_spec){.version = 0};
    int rc = spec_parse(text, strlen(text), &opt, s, &r, &err);
    (void)snprintf(first, 400, "%.200s | %.190s",
                   r.n > 0 ? r.findings[0].message : "",
                   r.n > 0 ? r.findings[0].hint : "");
    diagnostics_clear(&r);
    return rc == 0;
}

/* The reference's own example, and what hangs on it. */
static void test_cv(void)
{
    struct job_spec s;
    char why[400];
    struct error err = ERROR_INIT;
    struct fill_vars v = vars;
    if (!ok(parse("version: 1\nkind: cv\nname: run\n"
                  "dataset: {source: mnist, path: 'sets/${user}'}\n"
                  "labels: {of: '${user}/${name}'}\n"
                  "policy: {account: 'a-${user}'}\n"
                  "notify: {to: '${user}@example.org'}\n"
                  "train:\n  output_dir: ~/runs/${name}/${job_id}\n"
                  "checkpoint: {dir: '${output_dir}/ckpt'}\n",
                  "ann", &s, why),
            "a training: %s", why))
        return;
    is_str(s.train.output_dir, "/home/ann/runs/${name}/${job_id}",
           "what an attempt reads stays as written, but for ~");
    is_str(s.checkpoint.dir, "${output_dir}/ckpt", "  and below output_dir");
    is_str(s.dataset.path, "/data/sets/${user}", "  and beside the file");
    is_str(s.labels.pairs[0].value, "ann/run", "a label is filled at once");
    is_str(s.policy.account, "a-ann", "an account");
    is_str(s.notify.to, "ann@example.org", "an address");
    ok(spec_saves(&s), "the place is the same for each attempt");

    struct buf dump = BUF_INIT;
    struct job_spec again = {.version = 0};
    struct spec_report r = {.n = 0};
    ok(spec_dump(&s, &dump, &err) == 0 &&
           spec_parse(dump.data, dump.len, NULL, &again, &r, &err) == 0,
       "its dump can be read where no file and no user is: %s", err.msg);
    is_str(again.checkpoint.dir, "${output_dir}/ckpt", "as written");
    diagnostics_clear(&r);
    buf_clear(&dump);

    v.job = 7;
    is_int(spec_fill(&again, &v, &err), 0, "an attempt begins");
    is_str(again.train.output_dir, "/home/ann/runs/run/7", "output_dir");
    is_str(again.checkpoint.dir, "/home/ann/runs/run/7/ckpt", "checkpoints");
    is_str(again.dataset.path, "/data/sets/ann", "data");
    spec_clear(&again);
    spec_clear(&s);
}

static void test_command(void)
{
    struct job_spec s;
    char why[400];
    struct error err = ERROR_INIT;
    if (!ok(parse("version: 1\nkind: command\n"
                  "command: [sh, -c, 'echo $HOME $${HOME} $$ ${name}', "
                  "'${output_dir}']\n"
                  "env: {OUT: '${output_dir}/a/${attempt}', B: '$A'}\n"
                  "workdir: '${output_dir}'\n",
                  NULL, &s, why),
            "a command: %s", why))
        return;
    is_str(s.command.items[2], "echo $HOME $${HOME} $$ ${name}", "as written");
    is_int(spec_fill(&s, &vars, &err), 0, "an attempt begins");
    is_str(s.command.items[2], "echo $HOME ${HOME} $$ run",
           "the shell's own are the shell's");
    is_str(s.command.items[3], "/o/7", "output_dir");
    is_str(s.env.pairs[0].value, "/o/7/a/2", "a variable");
    is_str(s.env.pairs[1].value, "$A", "another");
    is_str(s.workdir, "/o/7", "workdir");
    spec_clear(&s);
}

static void test_refused(void)
{
    struct job_spec s;
    char why[400];
    struct error err = ERROR_INIT;
    struct fill_vars v = vars;
    static const char text[] = "version: 1\nkind: command\n"
                               "command: [a, '/x/${user}']\n";
    ok(!parse(text, "../b", &s, why) && strstr(why, "a user of such a name"),
       "where it is known who asks: %s", why);
    ok(!parse("version: 1\nkind: command\ncommand: [a]\n"
              "labels: {a: '${user}'}\n",
              NULL, &s, why) &&
           strstr(why, "not known here"),
       "nobody is not put in: %s", why);
    ok(!parse("version: 1\nkind: command\ncommand: [a]\n"
              "labels: {a: '${name}${name}${name}${name}${name}${name}${name}"
              "${name}${name}${name}${name}${name}'}\n",
              "ann", &s, why) &&
           strstr(why, "63 bytes"),
       "what it becomes is judged: %s", why);
    if (!ok(parse(text, NULL, &s, why), "else when it begins"))
        return;
    v.user = NULL;
    ok(spec_fill(&s, &v, &err) < 0 && err.code == ERR_INVAL &&
           strstr(err.msg, "command"),
       "an attempt without a user's name: %s", err.msg);
    spec_clear(&s);
}

/* Each task of a sweep has its own name, where names are varied. */
static void test_sweep(void)
{
    static const char text[] =
        "version: 1\nkind: command\ncommand: [a, '${name}-${task_id}']\n"
        "labels: {of: '${name}'}\n"
        "sweep:\n  zip:\n    name: [one, two]\n"
        "    workdir: ['${output_dir}', '/w/${job_id}']\n";
    struct spec_options opt = {.file = "/data/a.yaml", .user = "ann"};
    struct spec_report r = {.n = 0};
    struct spec_jobs jobs = {.n = 0};
    struct error err = ERROR_INIT;
    if (!ok(spec_expand(text, strlen(text), &opt, &jobs, &r, &err) == 0 &&
                jobs.n == 2,
            "a sweep: %s", r.n > 0 ? r.findings[0].message : err.msg))
        return;
    is_str(jobs.tasks[0].spec.labels.pairs[0].value, "one", "the first");
    is_str(jobs.tasks[1].spec.labels.pairs[0].value, "two", "the second");
    is_str(jobs.tasks[0].spec.workdir, "${output_dir}", "as written");
    ok(strstr(jobs.text, "\"of\":\"${name}\"") != NULL,
       "what travels is as written, too");
    is_int(spec_fill(&jobs.tasks[1].spec, &vars, &err), 0, "its attempt");
    is_str(jobs.tasks[1].spec.workdir, "/w/12345678901234567890", "workdir");
    diagnostics_clear(&r);
    spec_jobs_clear(&jobs);
}

int main(void)
{
    test_texts();
    test_when();
    test_sizes();
    test_users();
    test_cv();
    test_command();
    test_refused();
    test_sweep();
    return tap_done();
}
