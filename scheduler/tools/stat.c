/* stat.c - mgpu-stat(1): what happened, what is happening, why not yet. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/client.h"
#include "scheduler/tools/columns.h"
#include "scheduler/tools/export.h"
#include "scheduler/tools/fetch.h"
#include "scheduler/tools/filter.h"
#include "scheduler/tools/formats.h"
#include "scheduler/tools/options.h"
#include "scheduler/tools/plot.h"
#include "scheduler/tools/report.h"
#include "scheduler/tools/show.h"
#include "scheduler/tools/wait.h"
#include "scheduler/tools/watch.h"

enum {
    OPT_METRICS = 1,
    OPT_EPOCHS,
    OPT_PROFILE,
    OPT_EFF,
    OPT_SCALING,
    OPT_EVENTS,
    OPT_WHY,
    OPT_LOGS,
    OPT_FOLLOW,
    OPT_NO_FOLLOW,
    OPT_RANK,
    OPT_TAIL,
    OPT_NODES,
    OPT_GPUS,
    OPT_STATUS,
    OPT_WAIT,
    OPT_WATCH,
    OPT_PLOT,
    OPT_OF,
    OPT_REPORT,
    OPT_EXPORT,
    OPT_OUTPUT,
    OPT_INTERVAL,
    OPT_TIMEOUT,
    OPT_FORMAT,
    OPT_SORT,
    OPT_COUNT,
    OPT_EXPAND,
    OPT_PAPER, /* --report of a paper's table */
    OPT_CSV,
    OPT_SVG,
    OPT_JSON,
    OPT_NOHEADER,
    OPT_ASCII,
    OPT_COLOR,
    OPT_URL
};

static const struct opt opts[] = {
    {OPT_METRICS, 'm', "metrics", NULL,
     "the job's courses, and its iteration time by phase"},
    {OPT_EPOCHS, 0, "epochs", NULL, "the job's epochs"},
    {OPT_PROFILE, 0, "profile", NULL,
     "what each epoch consisted of: calls, seconds, share, bytes"},
    {OPT_EFF, 0, "eff", NULL,
     "how well it used what it had, and what to change; of jobs that -u or "
     "others choose a row each"},
    {OPT_SCALING, 0, "scaling", NULL,
     "what further GPUs brought to jobs like this one"},
    {OPT_EVENTS, 'e', "events", NULL, "all that happened to the job"},
    {OPT_WHY, 0, "why", NULL,
     "why the job waits, or ended: reasons, nodes, who has the GPUs"},
    {OPT_LOGS, 'l', "logs", NULL, "what the job printed"},
    {OPT_FOLLOW, 'f', "follow", NULL,
     "with --logs: go on until the job ends; with --wait, too, its code"},
    {OPT_NO_FOLLOW, 0, "no-follow", NULL,
     "with --logs: what there is by now, which is the default"},
    {OPT_RANK, 0, "rank", "N|all", "with --logs: only the lines of rank N"},
    {OPT_TAIL, 0, "tail", "N", "with --logs: the last N lines, as --count"},
    {OPT_NODES, 0, "nodes", NULL, "the nodes and their GPUs or slots"},
    {OPT_GPUS, 0, "gpus", NULL,
     "who had which GPU when, --since an hour ago: held, computing, by whom"},
    {OPT_STATUS, 0, "status", NULL, "the daemon: version, files, counts"},
    {OPT_WAIT, 'w', "wait", "[=STATE,...]",
     "wait until the jobs end, exit with the largest of their codes; or until "
     "they are in one of the states"},
    {OPT_PLOT, 0, "plot", "FILE.svg", "the jobs' loss, or --of another column"},
    {OPT_OF, 0, "of", "COLUMN", "what --plot draws, as eval_accuracy"},
    {OPT_REPORT, 0, "report", "FILE|NAME",
     "all about the job as one page of HTML; or our runs beside a paper's: "
     "table2, table3, fig1, fig2, fig3"},
    {OPT_EXPORT, 0, "export", "FORMAT",
     "rows of --metrics, --epochs or --profile: csv, jsonl, tensorboard; "
     "without a job the queue: csv"},
    {OPT_OUTPUT, 0, "output", "PATH",
     "where --export writes; a directory for "
     "tensorboard"},
    {OPT_WATCH, 0, "watch", NULL, "the queue as it changes; the daemon says"},
    {OPT_INTERVAL, 'i', "interval", "SECONDS",
     "--watch, drawn at most so often (1)"},
    {OPT_TIMEOUT, 0, "timeout", "DURATION",
     "give up waiting, or watching, after this long"},
    {FILTER_USER, 'u', "user", "USER", "only jobs of USER ('me', 'all')"},
    {FILTER_STATE, 't', "state", "STATE,...",
     "only jobs in these states ('all': ended ones too)"},
    {FILTER_NAME, 'n', "name", "GLOB", "only jobs with such a name"},
    {FILTER_ACCOUNT, 'A', "account", "ACCOUNT", "only jobs that it is charged"},
    {FILTER_PARTITION, 'q', "partition", "PARTITION", "only jobs for it"},
    {FILTER_LABEL, 0, "label", "KEY[=VALUE]",
     "only jobs with this label, and the next"},
    {FILTER_NODE, 0, "on", "NODE", "only jobs that run, or ran last, on NODE"},
    {FILTER_SINCE, 0, "since", "TIME",
     "also jobs that ended since, or a log's lines since then; 6h, 2d, "
     "2026-11-21, 2026-11-21T10:00:00Z"},
    {OPT_FORMAT, 'o', "format", "COLUMN,...",
     "columns of the queue, or the name of a format; 'help' lists both"},
    {OPT_SORT, 'S', "sort", "COLUMN", "rows by it; -COLUMN: largest first"},
    {OPT_COUNT, 'c', "count", "N", "the newest N jobs, rows or lines of a log"},
    {OPT_CSV, 0, "csv", "FILE", "with --report NAME: its rows to FILE"},
    {OPT_SVG, 0, "svg", "FILE", "with --report NAME: a picture of it to FILE"},
    {OPT_EXPAND, 'x', "expand", NULL,
     "a line for each task of a sweep that waits"},
    {OPT_JSON, 0, "json", NULL, "print JSON, errors included"},
    {OPT_NOHEADER, 'h', "no-header", NULL, "rows only"},
    {OPT_ASCII, 0, "ascii", NULL, "no characters beyond ASCII of our own"},
    {OPT_COLOR, 0, "color", "WHEN", "bold heads: auto, always or never"},
    {OPT_URL, 0, "url", "URL", "the daemon, as unix:PATH or http://HOST:PORT"},
    {0, 0, NULL, NULL, NULL},
};

static const struct tool tool = {
    .name = "mgpu-stat",
    .synopsis = "[options] [JOB...]",
    .summary = "Shows the queue, or jobs in detail.",
    .opts = opts,
};

struct args {
    int view; /* OPT_METRICS .. OPT_WAIT, 0: the queue or the jobs */
    double timeout_s, interval_s;
    uint32_t wait_states;
    bool has_rank, has_tail;
    int colour; /* render_colour() */
    bool waits; /* --wait; with --logs it is no view */
    struct filter filter;
    const char *url;
    const char *file, *of, *output;
    bool exports;
    enum export_format format;
    struct report_conf report;
    struct fetch f; /* how it is shown */
};

/* The daemon pushes four times a second at most. */
static int read_interval(const char *text, double *ret, struct error *err)
{
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s >= 0.25 && s <= 86400))
        return error_set(err, ERR_USAGE,
                         "--interval '%.40s': expected seconds, 0.25..86400",
                         text);
    *ret = s;
    return 0;
}

/* A log may be shown while one waits. */
static int take_view(struct args *a, int view, const char *name,
                     struct error *err)
{
    a->waits |= view == OPT_WAIT;
    if (view == OPT_WAIT && a->view == OPT_LOGS)
        return 0;
    if (view == OPT_LOGS && a->view == OPT_WAIT)
        a->view = OPT_LOGS;
    if (a->view && a->view != view)
        return error_set(err, ERR_USAGE, "--%s and another view", name);
    a->view = view;
    return 0;
}

/* "all", or a number from 0. */
static int read_rank(const char *text, int64_t *ret, struct error *err)
{
    bool is_number = *text && strlen(text) <= 9 &&
                     strspn(text, "0123456789") == strlen(text);
    if (!is_number && strcmp(text, "all") != 0)
        return error_set(err, ERR_USAGE,
                         "--rank '%.40s': expected a number from 0, or all",
                         text);
    *ret = is_number ? strtoll(text, NULL, 10) : -1;
    return 0;
}

static int on_option(void *arg, const struct opt *o, const char *value,
                     struct error *err)
{
    struct args *a = arg;
    if (o->id >= FILTER_USER)
        return filter_option(&a->filter, o->id, value, err);
    switch (o->id) {
    case OPT_WAIT:
        if (wait_states(value, &a->wait_states, err) < 0)
            return -1;
        return take_view(a, OPT_WAIT, o->name, err);
    case OPT_FOLLOW:
    case OPT_NO_FOLLOW:
        a->f.follow = o->id == OPT_FOLLOW;
        break;
    case OPT_RANK:
        a->has_rank = true;
        return read_rank(value, &a->f.rank, err);
    case OPT_TIMEOUT:
        return options_duration(o->name, value, &a->timeout_s, err);
    case OPT_INTERVAL:
        if (a->view && a->view != OPT_WATCH)
            return error_set(err, ERR_USAGE, "--interval and another view");
        a->view = OPT_WATCH;
        return read_interval(value, &a->interval_s, err);
    case OPT_EXPORT:
        a->exports = true;
        return export_format_of(value, &a->format, err);
    case OPT_OUTPUT:
        a->output = value;
        break;
    case OPT_OF:
        a->of = value;
        break;
    case OPT_FORMAT:
        a->f.show.format = value;
        break;
    case OPT_SORT:
        a->f.show.sort = value;
        break;
    case OPT_TAIL:
        a->has_tail = true;
        /* fall through */
    case OPT_COUNT:
        if (options_job_id(value, &a->f.count, NULL) < 0)
            return error_set(err, ERR_USAGE, "--%s '%s' is not a number from 1",
                             o->name, value);
        break;
    case OPT_EXPAND:
        a->f.show.expand = true;
        break;
    case OPT_REPORT: /* a file's name has an ending, or a directory */
        a->file = a->report.name = value;
        return take_view(a, strpbrk(value, "./") ? OPT_REPORT : OPT_PAPER,
                         o->name, err);
    case OPT_CSV:
        a->report.csv = value;
        break;
    case OPT_SVG:
        a->report.svg = value;
        break;
    case OPT_JSON:
        a->f.json = true;
        break;
    case OPT_NOHEADER:
        a->f.show.header = false;
        break;
    case OPT_ASCII:
        a->f.show.style.ascii = true;
        break;
    case OPT_COLOR:
        return render_colour(value, &a->colour, err);
    case OPT_URL:
        a->url = value;
        break;
    default:
        a->file = value; /* of --plot and --report */
        return take_view(a, o->id, o->name, err);
    }
    return 0;
}

/* What the daemon sends at most. */
static const unsigned long long MOST_JOBS = 100000;

/* What a table shows of ten thousand jobs is a third of what there is to be
 * said of them. */
static int ask_fields(const struct args *a, const struct columns *columns,
                      struct buf *io_query, struct error *err)
{
    struct buf fields = BUF_INIT;
    int rc = buf_addstr(&fields, SWEEP_ROWS_READ, err);
    if (rc == 0)
        rc = columns_members(columns, a->f.show.sort, &fields, err);
    if (rc == 0)
        rc = buf_addf(io_query, err, "&fields=%s", buf_str(&fields));
    buf_clear(&fields);
    return rc;
}

/* A document's jobs in the order that its rows would have. */
static int sort_reply(json_t *reply, const char *by, struct error *err)
{
    json_t *sorted = NULL;
    if (columns_sort(json_object_get(reply, "jobs"), by, &sorted, err) < 0)
        return -1;
    return json_object_set_new(reply, "jobs", sorted) < 0
               ? error_set(err, ERR_NOMEM, "jobs")
               : 0;
}

/* csv is where it is exported to; NULL: it is shown. */
static int queue(struct client *c, const struct args *a, FILE *csv,
                 struct error *err)
{
    struct buf query = BUF_INIT;
    json_t *reply = NULL;
    struct columns columns; /* a mistake in them is found before the asking */
    int rc = columns_parse(a->f.show.format, &columns, err);
    if (rc == 0)
        rc = filter_query(&a->filter, &query, err);
    if (rc == 0 && !a->f.json)
        rc = ask_fields(a, &columns, &query, err);
    if (rc == 0)
        rc = client_get(c, &reply, err, "/v1/jobs?limit=%llu%s",
                        a->f.count ? a->f.count : MOST_JOBS, buf_str(&query));
    if (rc == 0 && a->f.json && a->f.show.sort)
        rc = sort_reply(reply, a->f.show.sort, err);
    if (rc == 0)
        rc = a->f.json ? client_print(reply, err)
             : csv     ? export_queue(&a->f.show, reply, csv, err)
                       : show_queue(&a->f.show, reply, err);
    buf_clear(&query);
    json_decref(reply);
    return rc;
}

static int gpus(struct client *c, const struct args *a, struct error *err)
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

static int one(struct client *c, const struct args *a, const char *word,
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

static int wait_all(struct client *c, const struct args *a, char **words,
                    size_t n, int *ret_exit, struct error *err)
{
    const struct wait_conf conf = {
        .tool = tool.name,
        .states = a->wait_states,
        .timeout_s = a->timeout_s,
        .quiet = a->f.json || a->view == OPT_LOGS,
        .out = stdout,
        .style = a->f.show.style,
    };
    return fetch_wait(c, &a->f, words, n, &conf, ret_exit, err);
}

static int watch(struct client *c, const struct args *a, struct error *err)
{
    struct watch_conf w = {.show = a->f.show,
                           .every_s = a->interval_s > 0 ? a->interval_s : 1,
                           .timeout_s = a->timeout_s,
                           .json = a->f.json,
                           .filter = a->filter};
    struct columns columns;
    if (columns_parse(a->f.show.format, &columns, err) < 0)
        return -1;
    return watch_queue(c, &w, err);
}

/* The table whose rows the view shows; of the queue when word is NULL. */
static int export(struct client *c, const struct args *a, const char *word,
                  struct error *err)
{
    const char *view = a->view == OPT_EPOCHS    ? "epochs"
                       : a->view == OPT_PROFILE ? "profile"
                                                : "iterations";
    if (a->format == EXPORT_TENSORBOARD)
        return export_tensorboard(c, word, a->output, err);
    FILE *out = a->output ? fopen(a->output, "we") : stdout;
    if (!out)
        return error_sys(err, errno, "create '%s'", a->output);
    int rc = word ? export_rows(c, word, view, a->format, out, err)
                  : queue(c, a, out, err);
    if (a->output && fclose(out) != 0 && rc == 0)
        rc = error_sys(err, errno, "write '%s'", a->output);
    return rc;
}

static int views(const struct args *a, size_t n, char **words, int *ret_exit,
                 struct error *err)
{
    struct client *c = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (a->view != OPT_SCALING)
            rc = options_job_word(words[i], err);
    if (rc == 0)
        rc = client_create(a->url, 5, &c, err);
    if (rc == 0 && a->exports)
        rc = export(c, a, n > 0 ? words[0] : NULL, err);
    else if (rc == 0 && a->view == OPT_NODES)
        rc = fetch_simple(c, &a->f, "/v1/nodes", show_nodes, err);
    else if (rc == 0 && a->view == OPT_GPUS)
        rc = gpus(c, a, err);
    else if (rc == 0 && a->view == OPT_STATUS)
        rc = fetch_simple(c, &a->f, "/v1/status", show_status, err);
    else if (rc == 0 && a->view == OPT_PAPER)
        rc = report_view(c, &a->report, words, n, a->f.show.out, err);
    else if (rc == 0 && a->view == OPT_WATCH)
        rc = watch(c, a, err);
    else if (rc == 0 && a->view == OPT_PLOT)
        rc = plot_jobs(c, words, n, a->of ? a->of : "loss", a->file, err);
    else if (rc == 0 && a->view == OPT_WAIT)
        rc = wait_all(c, a, words, n, ret_exit, err);
    else if (rc == 0 && n == 0 && a->view == OPT_EFF)
        rc = fetch_eff_all(c, &a->f, &a->filter, err);
    else if (rc == 0 && n == 0)
        rc = queue(c, a, NULL, err);
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

static int check_args(const struct args *a, int n, struct error *err)
{
    bool is_cluster = a->view == OPT_NODES || a->view == OPT_GPUS ||
                      a->view == OPT_STATUS || a->view == OPT_WATCH;
    bool needs_job = a->view && a->view != OPT_PAPER && !is_cluster &&
                     !(a->view == OPT_EFF && !filter_is_any(&a->filter));
    if ((a->report.csv || a->report.svg) && a->view != OPT_PAPER)
        return error_set(err, ERR_USAGE,
                         "--csv and --svg go with --report NAME");
    if (needs_job && n == 0)
        return error_set(err, ERR_USAGE, "which job? see %s --help", tool.name);
    if (is_cluster && n > 0)
        return error_set(err, ERR_USAGE, "that view takes no job");
    bool has_rows = !a->view || a->view == OPT_METRICS ||
                    a->view == OPT_EPOCHS || a->view == OPT_PROFILE;
    bool is_queue = n == 0 && !a->view && a->format == EXPORT_CSV;
    if (a->exports && ((n != 1 && !is_queue) || !has_rows || a->f.json))
        return error_set(err, ERR_USAGE,
                         "--export takes one job, and --metrics, --epochs or "
                         "--profile; or no job and csv: the queue");
    if (a->exports && a->format == EXPORT_TENSORBOARD && !a->output)
        return error_set(err, ERR_USAGE,
                         "--export tensorboard needs --output "
                         "DIRECTORY");
    if (a->output && !a->exports)
        return error_set(err, ERR_USAGE, "--output goes with --export");
    if (a->of && a->view != OPT_PLOT)
        return error_set(err, ERR_USAGE, "--of goes with --plot");
    if (a->view == OPT_REPORT && n > 1)
        return error_set(err, ERR_USAGE, "--report shows one job at a time");
    if ((a->f.follow || a->has_rank || a->has_tail) && a->view != OPT_LOGS)
        return error_set(err, ERR_USAGE,
                         "--follow, --rank and --tail go with --logs");
    if (a->f.json && (a->view == OPT_PLOT || a->view == OPT_REPORT))
        return error_set(err, ERR_USAGE,
                         "that view is for people; --metrics "
                         "--json has its figures");
    if (a->view == OPT_LOGS && a->wait_states)
        return error_set(err, ERR_USAGE,
                         "--wait=STATE and --logs: a log is followed to the "
                         "job's end");
    if (a->f.json && a->view == OPT_LOGS)
        return error_set(err, ERR_USAGE, "a log is text; leave --json out");
    if (a->f.json && n > 1 && a->view != OPT_PAPER)
        return error_set(err, ERR_USAGE, "--json shows one job at a time");
    return 0;
}

/* On a terminal what is too long for a line goes on below its own beginning,
 * not at the screen's edge. What goes on while one looks has its own ways. */
static int on_screen(struct args *a, size_t n, char **words, int *ret_exit,
                     struct error *err)
{
    bool is_text = !a->f.json && !a->exports && a->view != OPT_WATCH &&
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

/* -o, else $MGPU_STAT_FORMAT, else what config.yaml says. */
static int choose_format(struct args *a, const struct formats *formats,
                         struct buf *columns, struct error *err)
{
    const char *text = a->f.show.format;
    text = text ? text : getenv("MGPU_STAT_FORMAT");
    text = text ? text : formats->usual;
    if (!text)
        return 0;
    if (formats_expand(formats, text, columns, err) < 0)
        return -1;
    a->f.show.format = buf_str(columns);
    return 0;
}

static int run(void *arg, int n, char **operands, int *ret_exit,
               struct error *err)
{
    struct args *a = arg;
    struct formats formats = {.n = 0};
    struct buf columns = BUF_INIT;
    bool ascii = a->f.show.style.ascii; /* --ascii */
    render_style_init(&a->f.show.style, a->f.show.out);
    a->f.show.style.ascii |= ascii;
    if (a->colour)
        a->f.show.style.colour = a->colour > 0;
    bool is_help = a->f.show.format && strcmp(a->f.show.format, "help") == 0;
    bool is_queue = is_help || a->view == OPT_WATCH || (!a->view && n == 0);
    if (check_args(a, n, err) < 0 ||
        (is_queue && formats_read(&formats, err) < 0))
        return -1;
    if (is_help) {
        columns_help(a->f.show.out);
        formats_help(&formats, a->f.show.out);
        formats_clear(&formats);
        return 0;
    }
    a->f.follow |= a->view == OPT_LOGS && a->waits;
    a->f.timeout_s = a->timeout_s;
    a->f.since = a->filter.since;
    int rc = choose_format(a, &formats, &columns, err);
    formats_clear(&formats);
    a->report.json = a->f.json;
    a->report.header = a->f.show.header;
    a->report.style = a->f.show.style;
    if (rc == 0)
        rc = on_screen(a, (size_t)n, operands, ret_exit, err);
    buf_clear(&columns);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {
        .f = {.rank = -1, .show = {.header = true, .out = stdout}}};
    const struct tool_main m = {
        .tool = &tool,
        .on_option = on_option,
        .run = run,
        .arg = &a,
        .json = &a.f.json,
    };
    return tool_run(&m, argc, argv);
}
