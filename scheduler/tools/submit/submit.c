/* submit.c - mgpu-submit(1): check a job specification and submit it.
 *
 * The tool finds every error in the specification itself, before it asks the
 * daemon. The request carries a random idempotency key, so it can be repeated
 * if the reply is lost: one key, at most one job.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/rng.h"
#include "jobs/schema/interpolate.h"
#include "jobs/spec/spec.h"
#include "jobs/spec/spec_editor.h"
#include "jobs/spec/spec_look.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/submit/explain.h"
#include "scheduler/tools/submit/one_line.h"
#include "scheduler/tools/submit/resume_job.h"
#include "scheduler/tools/submit/submit_args.h"
#include "scheduler/tools/submit/templates.h"
#include "scheduler/tools/views/fetch.h"
#include "scheduler/tools/views/show.h"
#include "scheduler/tools/views/wait.h"

enum { SPEC_MAX_BYTES = 1 << 20 };

static int read_stdin(struct buf *text, struct error *err)
{
    char part[65536];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, part, sizeof(part));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_sys(err, errno, "read standard input");
        if (n == 0)
            return 0;
        if (text->len + (size_t)n > SPEC_MAX_BYTES)
            return error_set(err, ERR_INVAL,
                             "standard input is longer than 1 MiB");
        if (buf_add(text, part, (size_t)n, err) < 0)
            return -1;
    }
}

static int read_file(const char *file, struct buf *text, struct error *err)
{
    if (strcmp(file, "-") == 0)
        return read_stdin(text, err);
    int rc = buf_read_operand(text, file, SPEC_MAX_BYTES, err);
    if (rc < 0 && err && err->code == ERR_LIMIT)
        return error_set(err, ERR_INVAL, "'%s' is longer than 1 MiB (E002)",
                         file);
    return rc;
}

static int read_spec(const struct submit_args *a, struct buf *text,
                     struct error *err)
{
    return a->command ? one_line_spec(a->command, text, err)
                      : read_file(a->file, text, err);
}

/* The tasks of a sweep; n 0: not a sweep. */
struct tasks {
    size_t n;
    int32_t first, last; /* display numbers */
};

static bool is_refused(const struct submit_args *a, const struct spec_report *r)
{
    return r->n_errors > 0 || (a->werror && r->n_warnings > 0);
}

/* Printed below the findings: what made warnings fatal, and where to read
 * more. */
static void print_advice(const struct submit_args *a,
                         const struct spec_report *r)
{
    if (r->n_errors == 0)
        (void)fputs("--werror: nothing was submitted.\n", stderr);
    /* Explain the first error; --werror fails without one, and explains the
     * first warning. */
    size_t i = 0;
    while (i + 1 < r->n && r->n_errors > 0 && !r->findings[i].is_error)
        i++;
    if (!a->common.quiet)
        (void)fprintf(stderr, "%s --explain %s says more.\n", submit_tool.name,
                      r->findings[i].code);
}

/* Prints findings to stderr as text; with --json to stdout as the only
 * document, unless the submit follows. */
static int print_findings(const struct submit_args *a, const char *file,
                          const struct spec_report *r, const struct buf *text,
                          struct error *err)
{
    struct buf out = BUF_INIT;
    int rc = 0;
    if (a->common.json && (is_refused(a, r) || a->validate)) {
        rc = buf_addstr(&out,
                        "{\"schema\":\"mgpu.findings/1\",\"findings\":", err);
        if (rc == 0)
            rc = diagnostics_json(r, file, &out, err);
        if (rc == 0)
            rc = buf_addstr(&out, "}\n", err);
        if (rc == 0)
            (void)fputs(buf_str(&out), stdout);
    } else if (!a->common.json && r->n &&
               (!a->common.quiet || is_refused(a, r))) {
        rc = diagnostics_print(r, file, text->data ? text->data : "", text->len,
                               &out, err);
        if (rc == 0)
            (void)fputs(buf_str(&out), stderr);
        if (rc == 0 && is_refused(a, r))
            print_advice(a, r);
    }
    buf_clear(&out);
    return rc;
}

/* A random seed that is left open is drawn by the daemon, so that repeated
 * requests with one key are identical. */
static struct spec_options spec_options(const struct submit_args *a)
{
    static char user[FILL_USER_CAP];
    return (struct spec_options){
        .base = a->base,
        .file = a->command && *a->command   ? one_line_program(a->command)
                : strcmp(a->file, "-") == 0 ? "stdin"
                                            : a->file,
        .home = getenv("HOME"),
        .user = interpolate_own_user(user),
        .sets = a->sets,
        .n_sets = a->n_sets,
        .take_env = true,
        .may_repeat = a->key != NULL,
        .now_s = clock_real.wall_s(&clock_real),
        .wants_text = true,
    };
}

/* Parses the template, over which the file is laid. */
static int open_base(struct submit_args *a, const struct buf *text,
                     struct error *err)
{
    struct spec_report report = {.n = 0};
    struct error why = ERROR_INIT;
    int rc = spec_base_create(buf_str(text), text->len, a->template_name,
                              &a->base, &report, err);
    if (rc < 0 &&
        print_findings(a, buf_str(&a->template_path), &report, text, &why) < 0)
        *err = why;
    diagnostics_clear(&report);
    return rc;
}

/* Checks the spec and builds the text to send: what the user wrote, plus what
 * only this machine knows. The daemon fills in the defaults. It may be of
 * another version and know fewer keys, so it should see only keys that were
 * written.
 * own  *ret_text: the caller frees */
static int check(const struct submit_args *a, const struct buf *text,
                 char **ret_text, struct tasks *ret, struct error *err)
{
    struct spec_options so = spec_options(a);
    struct spec_report report = {.n = 0};
    struct spec_jobs jobs = {.n = 0};
    struct resume_job parents = {.url = a->common.url};
    struct spec_look look = {.parent = resume_job_look, .arg = &parents};
    if (!a->validate && (!a->show || a->dry_run))
        so.look = &look;
    int rc = spec_expand(buf_str(text), text->len, &so, &jobs, &report, err);
    resume_job_clear(&parents);
    struct error why = ERROR_INIT;
    if (print_findings(a, a->file, &report, text, &why) < 0 && rc == 0) {
        rc = -1;
        *err = why;
    }
    if (rc == 0 && is_refused(a, &report))
        rc = error_set(err, ERR_INVAL, "warnings");
    if (rc == 0 && jobs.is_sweep)
        *ret = (struct tasks){.n = jobs.n,
                              .first = jobs.tasks[0].number,
                              .last = jobs.tasks[jobs.n - 1].number};
    if (rc == 0) {
        *ret_text = jobs.text;
        jobs.text = NULL;
    }
    spec_jobs_clear(&jobs);
    diagnostics_clear(&report);
    return rc;
}

/* own  *ret: json_decref() */
static int body_of(const struct submit_args *a, const char *text, json_t **ret,
                   struct error *err)
{
    json_error_t why;
    json_t *spec = json_loads(text, 0, &why);
    if (!spec)
        return error_set(err, ERR_INTERNAL, "specification: %s", why.text);
    *ret = json_pack("{s:o, s:b}", "spec", spec, "hold", a->hold);
    return *ret ? 0 : error_set(err, ERR_NOMEM, "request");
}

/* own  *ret: json_decref() */
static int send(struct client *c, struct submit_args *a, const char *text,
                json_t **ret, struct error *err)
{
    char key[RNG_TOKEN_CAP];
    json_t *body = NULL;
    if (a->key)
        (void)snprintf(key, sizeof(key), "%s", a->key);
    else if (rng_token(key, err) < 0)
        return -1;
    int rc = body_of(a, text, &body, err);
    if (rc == 0)
        rc = client_post(c, "/v1/jobs", body, key, ret, err);
    if (rc < 0 && client_in_doubt(c))
        memcpy(a->doubt_key, key, sizeof(key));
    json_decref(body);
    return rc;
}

static void advise(void *arg)
{
    const struct submit_args *a = arg;
    if (*a->doubt_key)
        (void)fprintf(stderr,
                      "%s: the job may have been accepted: to submit it at "
                      "most once, repeat the command with --idempotency-key "
                      "%s\n",
                      submit_tool.name, a->doubt_key);
}

/* Printed like findings without a line: only the daemon knows these
 * warnings. */
static void print_warnings(const struct submit_args *a, const json_t *warnings)
{
    char file[400], code[16], path[200], message[600];
    size_t i;
    json_t *w;

    (void)render_escape(a->file, file, sizeof(file));
    json_array_foreach(warnings, i, w)
    {
        (void)fprintf(
            stderr, "%s: warning[%s]: %s: %s\n", file,
            render_escape(field_str(w, "code"), code, sizeof(code)),
            render_escape(field_str(w, "path"), path, sizeof(path)),
            render_escape(field_str(w, "message"), message, sizeof(message)));
    }
}

static int print_json(uint64_t id, const struct tasks *t, json_t *warnings,
                      struct error *err)
{
    json_t *o = json_pack("{s:s, s:I}", "schema", "mgpu.submitted/1", "id",
                          (json_int_t)id);
    if (t->n > 0)
        (void)json_object_set_new(o, "tasks", json_integer((json_int_t)t->n));
    if (json_array_size(warnings) > 0)
        (void)json_object_set(o, "warnings", warnings);
    int rc = client_print(o, err);
    json_decref(o);
    return rc;
}

static void print_submitted(const struct submit_args *a, uint64_t id,
                            const struct tasks *t)
{
    if (a->parsable)
        printf("%" PRIu64 "\n", id);
    else if (!a->common.quiet && t->n > 0)
        printf("submitted sweep %" PRIu64 ": %zu jobs, %" PRIu64
               "_%d to %" PRIu64 "_%d\n",
               id, t->n, id, t->first, id, t->last);
    else if (!a->common.quiet)
        printf("submitted job %" PRIu64 "\n", id);
}

/* The job was submitted, even if printing its id fails: then standard error has
 * the id, and the status is that of the failure. */
static int tell(const struct submit_args *a, const json_t *reply,
                const struct tasks *t, uint64_t *ret_id, struct error *err)
{
    json_t *warnings = json_object_get(reply, "warnings");
    uint64_t id = (uint64_t)field_int(reply, "id", 0);

    bool is_json = a->common.json && !a->parsable;
    int rc = 0;

    *ret_id = id;
    if (!is_json && !a->common.quiet)
        print_warnings(a, warnings);
    if (is_json)
        rc = print_json(id, t, warnings, err);
    else
        print_submitted(a, id, t);
    if (fflush(stdout) != 0 || ferror(stdout) || rc < 0)
        (void)fprintf(stderr,
                      "%s: %s %" PRIu64 " was submitted, but its number could "
                      "not be written to standard output\n",
                      submit_tool.name, t->n > 0 ? "sweep" : "job", id);
    return rc;
}

/* The ids of a sweep's tasks are consecutive from the id of the sweep. */
static int wait_for(struct client *c, const struct submit_args *a, uint64_t id,
                    size_t n, int *ret_exit, struct error *err)
{
    struct wait_conf wc = {
        .tool = submit_tool.name,
        .states = a->wait_states,
        .timeout_s = a->timeout_s,
        .quiet = a->common.quiet || a->common.json || a->parsable,
        .out = stdout,
    };
    uint64_t *ids = calloc(n, sizeof(*ids));
    if (!ids)
        return error_set(err, ERR_NOMEM, "%zu ids", n);
    for (size_t i = 0; i < n; i++)
        ids[i] = id + i;
    render_style_init(&wc.style, stdout);
    int rc = wait_for_jobs(c, ids, n, &wc, ret_exit, err);
    free(ids);
    return rc;
}

/* Prints the job's output until the job ends; the exit status is that of
 * --wait. */
static int follow(struct client *c, const struct submit_args *a, uint64_t id,
                  int *ret_exit, struct error *err)
{
    const struct clock *clk = &clock_real;
    struct submit_args rest = *a;
    struct fetch f = {.follow = true, .rank = -1, .timeout_s = a->timeout_s};
    char word[24];
    double began_s = clk->now_s(clk);
    f.show.out = stdout;
    render_style_init(&f.show.style, stdout);
    (void)snprintf(word, sizeof(word), "%" PRIu64, id);
    if (fetch_logs(c, &f, word, err) < 0)
        return -1;
    rest.common.quiet = true;
    if (a->timeout_s > 0)
        rest.timeout_s = fmax(a->timeout_s - (clk->now_s(clk) - began_s), 0.01);
    return wait_for(c, &rest, id, 1, ret_exit, err);
}

static int submit(struct submit_args *a, const char *text,
                  const struct tasks *t, int *ret_exit, struct error *err)
{
    struct client *c = NULL;
    json_t *reply = NULL;
    uint64_t id = 0;
    if (client_create(a->common.url, 5, &c, err) < 0)
        return -1;
    int rc = send(c, a, text, &reply, err);
    if (rc == 0)
        rc = tell(a, reply, t, &id, err);
    json_decref(reply);
    if (rc == 0 && a->follow)
        rc = follow(c, a, id, ret_exit, err);
    else if (rc == 0 && a->wait)
        rc = wait_for(c, a, id, t->n > 0 ? t->n : 1, ret_exit, err);
    client_destroy(c);
    return rc;
}

/* Adds the measurements of similar jobs; null: there are none. */
static int add_scaling(struct client *c, json_t *reply, struct error *err)
{
    int64_t id = field_int(reply, "alike", 0);
    json_t *scaling = NULL;
    if (id > 0 &&
        client_get(c, &scaling, err, "/v1/jobs/%" PRId64 "/scaling", id) < 0)
        return -1;
    if (json_array_size(json_object_get(scaling, "rows")) == 0) {
        json_decref(scaling);
        scaling = json_null();
    }
    return json_object_set_new(reply, "scaling", scaling) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "reply");
}

/* Requests a dry run. It has a path of its own, which an older daemon does not
 * know: an option of the submit would be ignored, and the job submitted. */
static int ask(struct client *c, const char *text, const struct submit_args *a,
               json_t **ret, struct error *err)
{
    json_t *body = NULL;
    int rc = body_of(a, text, &body, err);
    if (rc == 0)
        rc = client_post(c, "/v1/dry-run", body, NULL, ret, err);
    json_decref(body);
    if (rc < 0 && err->code == ERR_NOTFOUND)
        return error_set(err, ERR_UNAVAIL,
                         "--dry-run: the daemon is older than %s and knows "
                         "none",
                         submit_tool.name);
    return rc == 0 ? add_scaling(c, *ret, err) : -1;
}

static int dry_run(const struct submit_args *a, const char *text,
                   struct error *err)
{
    struct show_conf s = {.header = true, .out = stdout};
    struct client *c = NULL;
    json_t *reply = NULL;
    if (client_create(a->common.url, 5, &c, err) < 0)
        return -1;
    render_style_init(&s.style, stdout);
    int rc = ask(c, text, a, &reply, err);
    if (rc == 0 && a->common.json)
        rc = client_print(reply, err);
    else if (rc == 0 && !a->common.quiet)
        rc = show_dry_run(&s, reply, a->file, err);
    json_decref(reply);
    client_destroy(c);
    return rc;
}

static int show(const struct submit_args *a, const struct buf *text,
                struct error *err)
{
    struct spec_options so = spec_options(a);
    struct buf out = BUF_INIT;
    int rc = spec_show(buf_str(text), text->len, &so, &out, err);
    if (rc == 0)
        (void)fputs(buf_str(&out), stdout);
    buf_clear(&out);
    return rc;
}

static void print_valid(const struct submit_args *a, size_t n_tasks)
{
    if (n_tasks > 0)
        printf("%s: valid, %zu jobs\n", a->file, n_tasks);
    else
        printf("%s: valid\n", a->file);
}

static int print_schema(struct error *err)
{
    struct buf text = BUF_INIT;
    int rc = spec_json_schema(&text, err);
    if (rc == 0)
        (void)fputs(buf_str(&text), stdout);
    buf_clear(&text);
    return rc;
}

/* --explain=E024 E010 names two. */
static int explain_codes(const struct submit_args *a, int n, char **operands,
                         struct error *err)
{
    const char *words[EXPLAIN_MAX];
    int count = 0;
    if (a->code)
        words[count++] = a->code;
    if (n > EXPLAIN_MAX - 1)
        return error_set(err, ERR_USAGE, "--explain: at most %d codes",
                         EXPLAIN_MAX - 1);
    for (int i = 0; i < n; i++)
        words[count++] = operands[i];
    return explain(words, count, a->common.json, err);
}

static int choose_file(struct submit_args *a, int n, char **operands,
                       struct error *err)
{
    if (a->command && n > 0)
        return error_set(err, ERR_USAGE,
                         "either FILE or a program after --, not both; a "
                         "--template goes with either");
    if (n > 1 || (n == 0 && !a->template_name && !a->command))
        return error_set(err, ERR_USAGE, "%s see %s --help",
                         n == 0 ? "which file?" : "expected one FILE;",
                         submit_tool.name);
    if (a->template_name &&
        templates_find(a->template_name, &a->template_path, err) < 0)
        return -1;
    a->file = n > 0        ? operands[0]
              : a->command ? "command line"
                           : buf_str(&a->template_path);
    return 0;
}

/* Checks which options were combined. */
static int check_args(const struct submit_args *a, struct error *err)
{
    if (a->dry_run &&
        (a->validate || a->wait || a->follow || a->key || a->parsable))
        return error_set(err, ERR_USAGE,
                         "--dry-run submits nothing: leave --validate, --wait, "
                         "--follow, --idempotency-key and --parsable out");
    if (a->show && a->common.json)
        return error_set(err, ERR_USAGE, "--show is YAML; leave --json out");
    if (a->follow && a->common.json)
        return error_set(err, ERR_USAGE, "a log is text; leave --json out");
    if (a->follow && a->wait_states)
        return error_set(err, ERR_USAGE,
                         "--wait=STATE and --follow: a log is followed to the "
                         "job's end");
    if (a->timeout_s > 0 && !a->wait && !a->follow)
        return error_set(err, ERR_USAGE,
                         "--timeout goes with --wait or --follow; the job's "
                         "own limit is --time");
    return 0;
}

static int run(void *arg, int n, char **operands, int *ret_exit,
               struct error *err)
{
    struct submit_args *a = arg;
    if (a->list_templates)
        return templates_print(a->common.json, err);
    if (a->schema && n > 0)
        return error_set(err, ERR_USAGE, "--schema takes no FILE");
    if (a->schema)
        return print_schema(err);
    if (a->explain)
        return explain_codes(a, n, operands, err);
    if (choose_file(a, n, operands, err) < 0)
        return -1;
    if (check_args(a, err) < 0 || submit_args_end(a, environ, err) < 0)
        return -1;
    struct buf text = BUF_INIT, below = BUF_INIT;
    char *said = NULL;
    struct tasks tasks = {.n = 0};
    bool found = false; /* the findings have been printed: print no further
                           error */
    int rc = read_spec(a, &text, err);
    bool has_base = a->template_name && (n > 0 || a->command);
    if (rc == 0 && has_base)
        rc = read_file(buf_str(&a->template_path), &below, err);
    if (rc == 0) {
        rc = has_base ? open_base(a, &below, err) : 0;
        if (rc == 0)
            rc = check(a, &text, &said, &tasks, err);
        found = rc < 0 && err->code == ERR_INVAL;
    }
    if (rc == 0 && a->dry_run)
        rc = dry_run(a, said, err);
    if (rc == 0 && a->show && a->dry_run)
        (void)putchar('\n');
    if (rc == 0 && a->show)
        rc = show(a, &text, err);
    else if (rc == 0 && a->validate && !a->common.json && !a->common.quiet)
        print_valid(a, tasks.n);
    else if (rc == 0 && a->follow && tasks.n > 0)
        rc = error_set(err, ERR_USAGE,
                       "--follow: each of %zu jobs has a log of its own; "
                       "see mgpu-stat --logs",
                       tasks.n);
    else if (rc == 0 && !a->validate && !a->dry_run)
        rc = submit(a, said, &tasks, ret_exit, err);
    buf_clear(&text);
    buf_clear(&below);
    free(said);
    if (found) {
        *ret_exit = error_exit_status(ERR_INVAL);
        return 0;
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct submit_args a = {.timeout_s = 0};
    const struct tool_main m = {
        .tool = &submit_tool,
        .on_option = submit_on_option,
        .run = run,
        .advise = advise,
        .arg = &a,
        .json = &a.common.json,
    };
    argc = one_line_split(argc, argv, &a.command);
    int status = tool_run(&m, argc, argv);
    submit_args_clear(&a);
    return status;
}
