/* stat.c - mgpu-stat(1): show the queue, job history and why a job is pending.
 *
 * It reads the options (stat_args.c), requests what the view needs
 * (views/fetch.c) and prints it (views/show_*.c).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/common/columns.h"
#include "scheduler/tools/common/job_lines.h"
#include "scheduler/tools/common/job_pages.h"
#include "scheduler/tools/common/queue_json.h"
#include "scheduler/tools/export/plot.h"
#include "scheduler/tools/stat/stat_args.h"
#include "scheduler/tools/views/show.h"
#include "scheduler/tools/views/top.h"
#include "scheduler/tools/views/wait.h"
#include "scheduler/tools/views/watch.h"

/* The maximum that the daemon sends. */
static const unsigned long long MOST_JOBS = 100000;

/* Requests only the members that the columns need: for a table of ten thousand
 * jobs, that is a third of the data. */
static int ask_fields(const struct stat_args *a, const struct columns *columns,
                      struct buf *io_query, struct error *err)
{
    struct buf fields = BUF_INIT;
    int rc = buf_addstr(&fields, "id," SWEEP_ROWS_READ, err);
    if (rc == 0)
        rc = columns_members(columns, a->f.show.sort, &fields, err);
    if (rc == 0)
        rc = buf_addf(io_query, err, "&fields=%s", buf_str(&fields));
    buf_clear(&fields);
    return rc;
}

/* Asks for the newest values of metrics that columns or the order name. */
static int ask_values(const struct stat_args *a, const struct columns *columns,
                      struct buf *io_query, struct error *err)
{
    struct buf names = BUF_INIT;
    int rc = columns_own_names(columns, a->f.show.sort, &names, err);
    if (rc == 0)
        rc = buf_addf(io_query, err, "&values=%s", buf_str(&names));
    buf_clear(&names);
    return rc;
}

/* The values of a list that is not too long for them. */
static int take_values(json_t *reply, struct error *err)
{
    const size_t n = json_array_size(json_object_get(reply, "jobs"));
    if (n > SHOW_VALUES_JOBS)
        return error_set(err, ERR_USAGE,
                         "metric.NAME is for a list of %d jobs at most, and "
                         "these are %zu: filter them, or use -n",
                         (int)SHOW_VALUES_JOBS, n);
    return fetch_take_values(reply, true, err);
}

/* Sorts the jobs of a document as the rows of the table would be. */
static int sort_reply(json_t *reply, const char *by, struct error *err)
{
    json_t *sorted = NULL;
    if (columns_sort(json_object_get(reply, "jobs"), by, &sorted, err) < 0)
        return -1;
    return json_object_set_new(reply, "jobs", sorted) < 0
               ? error_set(err, ERR_NOMEM, "jobs")
               : 0;
}

/* Jobs per page: more than a sweep has tasks, and twice as many as the daemon
 * loads from its archive at a time, so that no load is wasted. 8192 complete
 * jobs are 7 MB, and the rows of a table take the daemon 8 ms. */
enum { PART_JOBS = 8192 };

/* Passes each page on to page(). */
struct seen {
    pages_each_f *page;
    void *arg;
    bool has_some;
};

static int see(void *arg, const char *head, size_t head_len, const char *jobs,
               size_t jobs_len, struct error *err)
{
    struct seen *s = arg;
    s->has_some = s->has_some || *jobs == '{';
    return s->page(s->arg, head, head_len, jobs, jobs_len, err);
}

static int ask_parts(struct client *c, const struct stat_args *a,
                     const char *query, struct seen *s, bool *ret_is_strange,
                     struct error *err)
{
    const struct pages_conf pages = {.client = c,
                                     .query = query,
                                     .most =
                                         a->f.count ? a->f.count : MOST_JOBS,
                                     .part = PART_JOBS,
                                     .page = see,
                                     .arg = s};
    return pages_each(&pages, ret_is_strange, err);
}

/* The usual way: page by page without a JSON tree of all jobs, so that the
 * daemon and this tool work at the same time. */
static int show_rows(struct client *c, const struct stat_args *a,
                     const char *query, struct seen *s, bool *ret_is_shown,
                     struct error *err)
{
    bool is_strange = false;
    struct queue_rows *rows = NULL;
    if (show_queue_begin(&a->f.show, &rows, err) < 0)
        return -1;
    s->page = show_queue_part;
    s->arg = rows;
    int rc = ask_parts(c, a, query, s, &is_strange, err);
    if (rc == 0 && !is_strange)
        *ret_is_shown = show_queue_end(rows);
    show_queue_free(rows);
    return rc;
}

static int show_json(struct client *c, const struct stat_args *a,
                     const char *query, struct seen *s, bool *ret_is_shown,
                     struct error *err)
{
    bool is_strange = false;
    struct queue_json *jobs = NULL;
    if (queue_json_create(&jobs, err) < 0)
        return -1;
    s->page = queue_json_part;
    s->arg = jobs;
    int rc = ask_parts(c, a, query, s, &is_strange, err);
    if (rc == 0 && !is_strange)
        rc = queue_json_print(jobs, a->f.show.out, ret_is_shown, err);
    queue_json_free(jobs);
    return rc;
}

static int show_reply(const struct stat_args *a, json_t *reply, FILE *csv,
                      struct error *err)
{
    if ((a->f.json || a->f.ids) && a->f.show.sort &&
        sort_reply(reply, a->f.show.sort, err) < 0)
        return -1;
    if (a->f.ids) {
        lines_ids(reply, a->f.show.out);
        return 0;
    }
    return a->f.json ? fetch_print(&a->f, reply, err)
           : csv     ? export_queue(&a->f.show, reply, csv, err)
                     : show_queue(&a->f.show, reply, err);
}

/* csv: the file to export to; NULL: print. */
static int queue(struct client *c, const struct stat_args *a, FILE *csv,
                 struct error *err)
{
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    struct columns columns; /* report a mistake in them before the request */
    bool is_shown = false;
    struct seen s = {.has_some = false};
    int rc = columns_parse(a->f.show.format, &columns, err);
    bool has_own = rc == 0 && columns_have_own(&columns, a->f.show.sort);
    bool is_table =
        !a->f.json && !a->f.ids && !csv && !a->f.show.sort && !has_own;
    if (rc == 0)
        rc = filter_query(&a->filter, &query, err);
    if (rc == 0 && !a->f.json)
        rc = ask_fields(a, &columns, &query, err);
    if (rc == 0 && has_own)
        rc = ask_values(a, &columns, &query, err);
    if (rc == 0 && is_table)
        rc = show_rows(c, a, buf_str(&query), &s, &is_shown, err);
    else if (rc == 0 && a->f.json && !a->f.lines && !a->f.ids &&
             !a->f.show.sort)
        rc = show_json(c, a, buf_str(&query), &s, &is_shown, err);
    if (rc == 0 && !is_shown)
        rc = client_get(c, &reply, err, "/v1/jobs?limit=%llu%s",
                        a->f.count ? a->f.count : MOST_JOBS, buf_str(&query));
    if (rc == 0 && !is_shown && has_own)
        rc = take_values(reply, err);
    if (rc == 0 && !is_shown)
        rc = show_reply(a, reply, csv, err);
    s.has_some |= json_array_size(json_object_get(reply, "jobs")) > 0;
    if (rc == 0 && !s.has_some)
        job_query_tell_unknown(&a->filter, stat_tool.name, c);
    buf_clear(&query);
    json_decref(reply);
    return rc;
}

/* A table with one row per named job. */
static int rows_of(struct client *c, const struct stat_args *a,
                   char *const *words, size_t n, struct error *err)
{
    struct columns columns; /* report a mistake in them before the request */
    int rc = columns_parse(a->f.show.format, &columns, err);
    json_t *jobs = json_array(), *sorted = NULL;
    if (rc == 0 && !jobs)
        rc = error_set(err, ERR_NOMEM, "no memory for a list");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        json_t *reply = NULL;
        rc = client_get(c, &reply, err, "/v1/jobs/%s", words[i]);
        if (rc == 0 && json_array_append(jobs, json_object_get(reply, "job")))
            rc = error_set(err, ERR_NOMEM, "no memory for a list");
        json_decref(reply);
    }
    if (rc == 0)
        rc = fetch_own_columns(c, jobs, &columns, a->f.show.sort, err);
    if (rc == 0 && a->f.show.sort)
        rc = columns_sort(jobs, a->f.show.sort, &sorted, err);
    if (rc == 0)
        rc = show_jobs(&a->f.show, sorted ? sorted : jobs, err);
    json_decref(sorted);
    json_decref(jobs);
    return rc;
}

static int gpus(struct client *c, const struct stat_args *a, struct error *err)
{
    struct filter f = a->filter;
    struct buf path = BUF_INIT;
    f.states = f.states ? f.states : FILTER_ALL;
    int rc = buf_addstr(&path, "/v1/gpus?limit=100000", err);
    if (rc == 0)
        rc = filter_query(&f, &path, err);
    if (rc == 0)
        rc = fetch_simple(c, &a->f, buf_str(&path), show_gpus, err);
    buf_clear(&path);
    return rc;
}

/* out NULL: prints it; else as CSV. */
static int usage(struct client *c, const struct stat_args *a, FILE *out,
                 struct error *err)
{
    struct filter f = {.since = a->filter.since, .states = FILTER_ALL};
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    int rc = filter_query(&f, &query, err);
    if (rc == 0)
        rc = client_get(c, &reply, err, "/v1/usage?by=%s%s",
                        a->by ? a->by : "user", buf_str(&query));
    if (rc == 0 && out)
        rc = export_usage(reply, a->f.show.header, out, err);
    else if (rc == 0)
        rc = a->f.json ? fetch_print(&a->f, reply, err)
                       : show_usage(&a->f.show, reply, err);
    json_decref(reply);
    buf_clear(&query);
    return rc;
}

static int one(struct client *c, const struct stat_args *a, const char *word,
               struct error *err)
{
    char path[80];
    switch (a->view) {
    case OPT_METRICS:
        return fetch_metrics(c, &a->f, word, err);
    case OPT_PROFILE:
        return fetch_profile(c, &a->f, word, err);
    case OPT_WHY:
        return fetch_why(c, &a->f, word, err);
    case OPT_LOGS:
        return fetch_logs(c, &a->f, word, err);
    case OPT_REPORT:
        return report_job(c, word, a->file, err);
    case OPT_EFF:
        return fetch_eff(c, &a->f, word, err);
    case OPT_SCALING:
        return fetch_scaling(c, &a->f, word, err);
    case OPT_EPOCHS:
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/epochs", word);
        return fetch_simple(c, &a->f, path, show_epochs, err);
    case OPT_EVENTS:
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/events", word);
        return fetch_simple(c, &a->f, path, show_events, err);
    default:
        return fetch_detail(c, &a->f, word, err);
    }
}

static int wait_all(struct client *c, const struct stat_args *a, char **words,
                    size_t n, int *ret_exit, struct error *err)
{
    const struct wait_conf conf = {
        .tool = stat_tool.name,
        .states = a->wait_states,
        .timeout_s = a->timeout_s,
        .quiet = a->f.json || a->view == OPT_LOGS,
        .out = stdout,
        .style = a->f.show.style,
    };
    return fetch_wait(c, &a->f, words, n, &conf, ret_exit, err);
}

static int top(struct client *c, const struct stat_args *a, struct error *err)
{
    json_t *reply = NULL;
    int rc = top_once(c, &a->filter, &reply, err);
    if (rc == 0)
        rc = fetch_print(&a->f, reply, err);
    json_decref(reply);
    return rc;
}

static int watch(struct client *c, const struct stat_args *a, struct error *err)
{
    struct watch_conf w = {.show = a->f.show,
                           .every_s = a->interval_s > 0 ? a->interval_s : 1,
                           .timeout_s = a->timeout_s,
                           .json = a->f.json,
                           .ids = a->f.ids,
                           .top = a->view == OPT_TOP,
                           .most = a->f.count ? a->f.count : MOST_JOBS,
                           .filter = a->filter};
    struct columns columns;
    if (w.top && w.json)
        return top(c, a, err);
    if (columns_parse(a->f.show.format, &columns, err) < 0)
        return -1;
    if (!w.top && columns_have_own(&columns, a->f.show.sort))
        return error_set(err, ERR_USAGE,
                         "metric.NAME is for tables that are printed once");
    return watch_queue(c, &w, err);
}

/* Exports the table behind a view; word NULL: the queue. */
static int export(struct client *c, const struct stat_args *a, const char *word,
                  struct error *err)
{
    const char *view = a->view == OPT_EPOCHS    ? "epochs"
                       : a->view == OPT_PROFILE ? "profile"
                                                : "iterations";
    if (a->format == EXPORT_TENSORBOARD)
        return export_tensorboard(c, word, a->output, err);
    FILE *out = a->output ? fopen(a->output, "we") : stdout;
    if (!out)
        return plot_file_error(err, errno, "create", a->output);
    int rc = word ? export_rows(c, word, view, a->format, out, err)
             : a->view == OPT_USAGE ? usage(c, a, out, err)
                                    : queue(c, a, out, err);
    if (a->output && fclose(out) != 0 && rc == 0)
        rc = plot_file_error(err, errno, "write", a->output);
    return rc;
}

static int views(const struct stat_args *a, size_t n, char **words,
                 int *ret_exit, struct error *err)
{
    struct client *c = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (a->view != OPT_SCALING)
            rc = options_job_word(words[i], err);
    if (rc == 0)
        rc = client_create(a->url, 5, &c, err);
    if (rc == 0)
        rc = job_query_check_user(&a->filter, c, err);
    if (rc == 0 && a->view == OPT_PAPER)
        rc = report_view(c, &a->report, words, n, a->f.show.out, err);
    else if (rc == 0 && a->exports)
        rc = export(c, a, n > 0 ? words[0] : NULL, err);
    else if (rc == 0 && a->view == OPT_NODES)
        rc = fetch_simple(c, &a->f, "/v1/nodes", show_nodes, err);
    else if (rc == 0 && a->view == OPT_GPUS)
        rc = gpus(c, a, err);
    else if (rc == 0 && a->view == OPT_USAGE)
        rc = usage(c, a, NULL, err);
    else if (rc == 0 && a->view == OPT_STATUS)
        rc = fetch_simple(c, &a->f, "/v1/status", show_status, err);
    else if (rc == 0 && (a->view == OPT_WATCH || a->view == OPT_TOP))
        rc = watch(c, a, err);
    else if (rc == 0 && a->view == OPT_PLOT)
        rc = plot_jobs(c, words, n, a->has_format ? a->f.show.format : "loss",
                       a->file, err);
    else if (rc == 0 && a->view == OPT_WAIT)
        rc = wait_all(c, a, words, n, ret_exit, err);
    else if (rc == 0 && n == 0 && a->view == OPT_EFF)
        rc = fetch_eff_all(c, &a->f, &a->filter, err);
    else if (rc == 0 && n == 0)
        rc = queue(c, a, NULL, err);
    else if (rc == 0 && stat_is_rows(a, (int)n))
        rc = rows_of(c, a, words, n, err);
    else
        for (size_t i = 0; rc == 0 && i < n; i++) {
            if (i && !a->f.json)
                (void)fputc('\n', a->f.show.out);
            rc = one(c, a, words[i], err);
        }
    if (rc == 0 && a->view == OPT_LOGS && a->waits)
        rc = wait_all(c, a, words, n, ret_exit, err);
    client_destroy(c);
    return rc;
}

/* On a terminal, wraps long lines at the indentation of their text, not at the
 * edge of the screen. The live views do their own layout. */
static int on_screen(struct stat_args *a, size_t n, char **words, int *ret_exit,
                     struct error *err)
{
    bool is_text = !a->f.json && !a->f.ids && !a->exports &&
                   a->view != OPT_WATCH && a->view != OPT_TOP &&
                   a->view != OPT_WAIT && a->view != OPT_LOGS;
    int columns = a->f.show.style.columns;
    FILE *out = a->f.show.out;
    char *text = NULL;
    size_t len = 0;
    FILE *mem = columns && is_text ? open_memstream(&text, &len) : NULL;
    if (mem)
        a->f.show.out = mem;
    int rc = views(a, n, words, ret_exit, err);
    if (mem && fclose(mem) == 0)
        render_wrapped(text, columns, out);
    a->f.show.out = out;
    free(text);
    return rc;
}

static int run(void *arg, int n, char **operands, int *ret_exit,
               struct error *err)
{
    struct stat_args *a = arg;
    render_style_init(&a->f.show.style, a->f.show.out);
    if (a->colour)
        a->f.show.style.colour = a->colour > 0;
    bool is_help = a->has_format && a->view != OPT_PLOT &&
                   strcmp(a->f.show.format, "help") == 0;
    if (stat_settle(a, err) < 0 || stat_check(a, n, err) < 0)
        return -1;
    if (is_help) {
        columns_help(a->f.show.out);
        (void)fputs("  jsonl       JSON, one line per job, node, event or row\n"
                    "  ids         only ids, one per line: of jobs, --nodes or "
                    "--gpus\n",
                    a->f.show.out);
        return 0;
    }
    if (a->f.ids)
        a->f.show.format = "id";
    else if (!a->f.show.format)
        a->f.show.format = getenv("MGPU_STAT_FORMAT");
    a->f.follow |= a->view == OPT_LOGS && a->waits;
    a->f.timeout_s = a->timeout_s;
    a->f.since = a->filter.since;
    a->report.json = a->f.json;
    a->report.exports = a->exports;
    a->report.format = a->format;
    a->report.output = a->output;
    a->report.header = a->f.show.header;
    a->report.style = a->f.show.style;
    return on_screen(a, (size_t)n, operands, ret_exit, err);
}

int main(int argc, char **argv)
{
    struct stat_args a = {
        .f = {.rank = -1, .show = {.header = true, .out = stdout}}};
    const struct tool_main m = {
        .tool = &stat_tool,
        .on_option = stat_on_option,
        .run = run,
        .arg = &a,
        .json = &a.f.json,
    };
    return tool_run(&m, argc, argv);
}
