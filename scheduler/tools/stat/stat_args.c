/* stat_args.c - parse and check the command line of mgpu-stat; see
 * stat_args.h. */
#include "scheduler/tools/stat/stat_args.h"

#include <stdlib.h>
#include <string.h>

static const struct opt opts[] = {
    {OPT_METRICS, 'm', "metrics", NULL,
     "curves of loss, learning rate, step time; time per phase"},
    {OPT_EPOCHS, 0, "epochs", NULL, "the job's epochs"},
    {OPT_PROFILE, 0, "profile", NULL,
     "what each epoch consisted of: calls, seconds, share, bytes"},
    {OPT_EFF, 0, "eff", NULL,
     "how well it used what it had, and what to change; of jobs that -u or "
     "others choose a row each"},
    {OPT_SCALING, 0, "scaling", NULL,
     "speed-up measured with more GPUs on similar jobs"},
    {OPT_EVENTS, 'e', "events", NULL, "all that happened to the job"},
    {OPT_WHY, 0, "why", NULL,
     "why the job is pending, or ended: reasons, nodes, jobs that use the "
     "GPUs"},
    {OPT_LOGS, 'l', "logs", NULL, "output of the job"},
    {OPT_FOLLOW, 'f', "follow", NULL,
     "with --logs: follow until the job ends; with --wait as well, exit with "
     "its code"},
    {OPT_RANK, 0, "rank", "N|all", "with --logs: only the lines of rank N"},
    {OPT_NODES, 0, "nodes", NULL, "the nodes and their GPUs or slots"},
    {OPT_GPUS, 0, "gpus", NULL,
     "allocation history of each GPU, by default of the last hour: share "
     "allocated, share computing, jobs"},
    {OPT_STATUS, 0, "status", NULL, "the daemon: version, files, counts"},
    {OPT_USAGE, 0, "usage", NULL,
     "GPU-hours, jobs, failures and mean wait, by default of the last 30 days"},
    {OPT_BY, 0, "by", "WHAT",
     "with --usage: a row per user (default), account, class or node"},
    {OPT_WAIT, 'w', "wait", "[=STATE,...]",
     "wait until the jobs end, or reach one of the states; exit with the "
     "largest of their codes"},
    {OPT_PLOT, 0, "plot", "FILE.svg",
     "draw a chart of the jobs' loss, or of the column --format"},
    {OPT_REPORT, 0, "report", "FILE|NAME",
     "HTML report of a job or sweep; or own runs compared with a paper's: "
     "table2, table3, table5, fig1 to fig6; or methods, layout"},
    {OPT_EXPORT, 0, "export", "FORMAT",
     "export the rows of --metrics, --epochs or --profile as csv, jsonl or "
     "tensorboard; without a job, the queue as csv; --report NAME as csv or "
     "svg"},
    {OPT_OUTPUT, 0, "output", "PATH",
     "export to this file, in the format of its suffix or of --export; a "
     "directory for tensorboard"},
    {OPT_WATCH, 0, "watch", NULL, "show the queue as it changes"},
    {OPT_TOP, 0, "top", NULL,
     "show the cluster on one screen as it changes: GPUs, jobs, the queue; q "
     "quits"},
    {OPT_INTERVAL, 'i', "interval", "SECONDS",
     "redraw --watch or --top at most this often (1); alone it means --watch, "
     "until Ctrl-C or --timeout"},
    {OPT_TIMEOUT, 0, "timeout", "DURATION",
     "give up waiting or watching after this long"},
    {FILTER_USER, 'u', "user", "USER", "only jobs of USER ('me', 'all')"},
    {FILTER_STATE, 't', "state", "STATE,...",
     "only jobs in these states ('all': ended ones too)"},
    {FILTER_NAME, 'n', "name", "GLOB", "only jobs whose name matches GLOB"},
    {FILTER_ACCOUNT, 'A', "account", "ACCOUNT", "only jobs charged to ACCOUNT"},
    {FILTER_PARTITION, 'q', "partition", "PARTITION", "only jobs in PARTITION"},
    {FILTER_LABEL, 0, "label", "KEY[=VALUE]",
     "only jobs with this label; repeat it to require several"},
    {FILTER_NODE, 0, "on", "NODE", "only jobs that run, or ran last, on NODE"},
    {FILTER_SINCE, 0, "since", "TIME",
     "also jobs that ended since, or a log's lines since then; 6h, 2d, "
     "2026-11-21, 2026-11-21T10:00:00Z"},
    {OPT_FORMAT, 'o', "format", "COLUMN,...",
     "columns of the queue, the column or own metric that --plot draws, or "
     "the name of a format: jsonl, ids and others; 'help' lists them"},
    {OPT_SORT, 'S', "sort", "COLUMN",
     "sort rows by COLUMN; -COLUMN: largest first"},
    {OPT_COUNT, 'c', "count", "N",
     "only the newest N jobs, rows or lines of a log"},
    {OPT_EXPAND, 'x', "expand", NULL, "one row per pending task of a sweep"},
    {OPT_JSON, 0, "json", NULL, "print JSON, errors included"},
    {OPT_NOHEADER, 'h', "no-header", NULL, "print rows without titles"},
    {OPT_COLOR, 0, "color", "WHEN",
     "colour titles and states: auto, always or never"},
    OPTION_ROW_URL,
    {0, 0, NULL, NULL, NULL},
};

const struct tool stat_tool = {
    .name = "mgpu-stat",
    .synopsis = "[options] [JOB...]",
    .summary = "Shows the queue, or jobs in detail.",
    .opts = opts,
};

/* The daemon sends four updates a second at most. */
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

/* --logs may be combined with --wait. */
static int take_view(struct stat_args *a, int view, const char *name,
                     struct error *err)
{
    a->waits |= view == OPT_WAIT;
    if (view == OPT_TOP && a->view == OPT_WATCH) /* for --interval */
        a->view = OPT_TOP;
    if (view == OPT_WAIT && a->view == OPT_LOGS)
        return 0;
    if (view == OPT_LOGS && a->view == OPT_WAIT)
        a->view = OPT_LOGS;
    if (a->view && a->view != view)
        return error_set(err, ERR_USAGE,
                         "--%s cannot be combined with another view", name);
    a->view = view;
    return 0;
}

/* "all", or a number from 0 on. */
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

/* Takes --json (word NULL), or the value of --format: columns, or another form
 * of what is printed. */
static int take_form(struct stat_args *a, const char *word, struct error *err)
{
    bool is_lines = word && strcmp(word, "jsonl") == 0;
    bool is_ids = word && strcmp(word, "ids") == 0;
    if (word && !is_lines && !is_ids) {
        a->f.show.format = word;
        a->has_format = true;
        return 0;
    }
    if ((a->f.json || a->f.ids) &&
        (a->f.lines != is_lines || a->f.ids != is_ids))
        return error_set(err, ERR_USAGE,
                         "use only one of --json, --format jsonl and --format "
                         "ids");
    a->f.json = !is_ids;
    a->f.lines = is_lines;
    a->f.ids = is_ids;
    return 0;
}

static int take_by(struct stat_args *a, const char *word, struct error *err)
{
    static const char *const words[] = {"user", "account", "class", "node"};
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0)
            a->by = words[i];
    if (a->by)
        return 0;
    return error_set(err, ERR_USAGE,
                     "--by '%.40s': expected user, account, class or node",
                     word);
}

int stat_on_option(void *arg, const struct opt *o, const char *value,
                   struct error *err)
{
    struct stat_args *a = arg;
    if (o->id >= FILTER_USER)
        return job_query_option(&a->filter, o->id, value, err);
    switch (o->id) {
    case OPT_OUTPUT:
        a->output = value;
        break;
    case OPT_SORT:
        a->f.show.sort = value;
        break;
    case OPTION_URL:
        a->url = value;
        break;
    case OPT_BY:
        return take_by(a, value, err);
    case OPT_WAIT:
        if (wait_states(value, &a->wait_states, err) < 0)
            return -1;
        return take_view(a, OPT_WAIT, o->name, err);
    case OPT_FOLLOW:
        a->f.follow = true;
        break;
    case OPT_RANK:
        a->has_rank = true;
        return read_rank(value, &a->f.rank, err);
    case OPT_TIMEOUT:
        return options_duration(o->name, value, &a->timeout_s, err);
    case OPT_INTERVAL:
        if (a->view && a->view != OPT_WATCH && a->view != OPT_TOP)
            return error_set(err, ERR_USAGE,
                             "--interval cannot be combined with another view");
        a->view = a->view ? a->view : OPT_WATCH;
        return read_interval(value, &a->interval_s, err);
    case OPT_EXPORT:
        a->exports = true;
        return export_format_of(value, &a->format, err);
    case OPT_COUNT:
        if (options_job_id(value, &a->f.count, NULL) < 0)
            return error_set(err, ERR_USAGE, "--%s '%s' is not a number from 1",
                             o->name, value);
        break;
    case OPT_EXPAND:
        a->f.show.expand = true;
        break;
    case OPT_REPORT: /* the name of a file has an extension or a directory */
        a->file = a->report.name = value;
        return take_view(a, strpbrk(value, "./") ? OPT_REPORT : OPT_PAPER,
                         o->name, err);
    case OPT_JSON:
    case OPT_FORMAT:
        return take_form(a, value, err);
    case OPT_NOHEADER:
        a->f.show.header = false;
        break;
    case OPT_COLOR:
        return render_colour(value, &a->colour, err);
    default:
        a->file = value; /* of --plot and --report */
        return take_view(a, o->id, o->name, err);
    }
    return 0;
}

bool stat_is_rows(const struct stat_args *a, int n)
{
    return !a->view && n > 0 && a->has_format && !a->f.json && !a->exports;
}

/* ---- what a view makes use of -----------------------------------------------
 */

enum { USES_FORMAT = 1, USES_SORT = 2, USES_COUNT = 4, USES_SINCE = 8 };
enum { USES_FILTER = 16, USES_EXPAND = 32, USES_ALL = 63 };

/* Which options a view uses: those that choose, order and limit what it
 * shows. */
static unsigned uses_of(const struct stat_args *a, int n)
{
    switch (a->view) {
    case 0:
        return n == 0               ? USES_ALL
               : stat_is_rows(a, n) ? USES_FORMAT | USES_SORT
                                    : 0;
    case OPT_WATCH:
        return USES_ALL;
    case OPT_TOP:
        return USES_FILTER | USES_SINCE | USES_COUNT;
    case OPT_GPUS:
        return USES_FILTER | USES_SINCE;
    case OPT_USAGE:
        return USES_SINCE;
    case OPT_EFF:
        return n == 0 ? USES_FILTER | USES_SINCE | USES_COUNT : 0;
    case OPT_LOGS:
        return USES_SINCE | USES_COUNT;
    case OPT_METRICS:
        return a->exports ? 0 : USES_COUNT;
    case OPT_PLOT:
        return USES_FORMAT;
    default:
        return 0;
    }
}

static const char *name_of(int view)
{
    const struct opt *o = opts;
    int id = view == OPT_PAPER ? OPT_REPORT : view;
    while (o->id && o->id != id)
        o++;
    return o->name;
}

/* The name of the first filter option that was given, except --since. */
static const char *chooser_of(const struct filter *f)
{
    return f->user        ? "--user"
           : f->states    ? "--state"
           : f->name      ? "--name"
           : f->account   ? "--account"
           : f->partition ? "--partition"
           : f->n_labels  ? "--label"
           : f->node      ? "--on"
                          : NULL;
}

/* An option that the view would ignore is an error. */
static int check_uses(const struct stat_args *a, int n, struct error *err)
{
    struct filter filter = a->filter;
    /* A job that is named is shown in any state. */
    if (!a->view && n > 0)
        filter.states = 0;
    const char *chooser = chooser_of(&filter);
    const struct {
        unsigned use;
        bool is_given;
        const char *name;
    } given[] = {
        {USES_FORMAT, a->f.show.format != NULL, "--format"},
        {USES_SORT, a->f.show.sort != NULL, "--sort"},
        {USES_COUNT, a->f.count > 0, "--count"},
        {USES_SINCE, a->filter.since != NULL, "--since"},
        {USES_EXPAND, a->f.show.expand, "--expand"},
        {USES_FILTER, chooser != NULL, chooser},
    };
    unsigned uses = uses_of(a, n);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (!given[i].is_given || (uses & given[i].use))
            continue;
        return error_set(err, ERR_USAGE, "%s does not go with %s%s",
                         given[i].name, a->view ? "--" : "the number of a job",
                         a->view ? name_of(a->view) : "");
    }
    return 0;
}

static int check_plot(const struct stat_args *a, struct error *err)
{
    size_t len = a->view == OPT_PLOT ? strlen(a->file) : 0;
    if (len == 0 || strcmp(a->file, "-") == 0 ||
        (len > 4 && strcmp(a->file + len - 4, ".svg") == 0))
        return 0;
    return error_set(err, ERR_USAGE,
                     "--plot '%.60s': expected a file named .svg, or '-'; "
                     "--format says what is drawn",
                     a->file);
}

int stat_settle(struct stat_args *a, struct error *err)
{
    const bool is_stdout = a->output && strcmp(a->output, "-") == 0;
    if (a->output && !a->exports) {
        if (export_format_of_file(a->output, &a->format, err) < 0)
            return -1;
        a->exports = true;
    }
    if (is_stdout)
        a->output = NULL;
    return 0;
}

/* Options that exclude each other. */
static int check_rules(const struct stat_args *a, int n, bool is_cluster,
                       struct error *err)
{
    const bool is_paper = a->view == OPT_PAPER;
    const bool is_queue =
        n == 0 && (!a->view || a->view == OPT_USAGE) && a->format == EXPORT_CSV;
    const bool is_rows = n == 1 && a->format != EXPORT_SVG &&
                         (!a->view || a->view == OPT_METRICS ||
                          a->view == OPT_EPOCHS || a->view == OPT_PROFILE);
    const bool has_ids = !a->view || a->view == OPT_NODES ||
                         a->view == OPT_GPUS || a->view == OPT_WATCH;
    const struct {
        bool is_wrong;
        const char *why;
    } rules[] = {
        {is_cluster && n > 0, "that view takes no job"},
        {a->by && a->view != OPT_USAGE, "--by goes with --usage"},
        {a->view == OPT_REPORT && n > 1, "--report shows one job at a time"},
        {(a->f.follow || a->has_rank) && a->view != OPT_LOGS,
         "--follow and --rank go with --logs"},
        {a->f.json && (a->view == OPT_PLOT || a->view == OPT_REPORT),
         "that view has no JSON form; use --metrics --json"},
        {a->view == OPT_LOGS && a->wait_states,
         "--wait=STATE and --logs: a log is followed to the job's end"},
        {a->f.json && a->view == OPT_LOGS, "a log is text; leave --json out"},
        {a->f.json && !a->f.lines && n > 1 && !is_paper,
         "--json shows one job at a time; --format jsonl does more"},
        {a->exports && is_paper && a->format != EXPORT_CSV &&
             a->format != EXPORT_SVG,
         "--report NAME is exported as csv or svg"},
        {a->exports && a->f.json,
         "use only one of --json, --format jsonl and --export"},
        {a->exports && !is_paper && !is_queue && !is_rows,
         "--export takes one job, and --metrics, --epochs or --profile; or no "
         "job and csv: the queue or --usage; or --report NAME and csv or svg"},
        {a->exports && a->format == EXPORT_TENSORBOARD && !a->output,
         "--export tensorboard needs --output DIRECTORY"},
        {a->f.ids && (n > 0 || a->exports || !has_ids),
         "--format ids goes with the queue, --watch, --nodes and --gpus"},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].is_wrong)
            return error_set(err, ERR_USAGE, "%s", rules[i].why);
    return 0;
}

int stat_check(const struct stat_args *a, int n, struct error *err)
{
    bool is_cluster = a->view == OPT_NODES || a->view == OPT_GPUS ||
                      a->view == OPT_STATUS || a->view == OPT_WATCH ||
                      a->view == OPT_TOP || a->view == OPT_USAGE;
    bool is_many =
        a->view == OPT_EFF && (!job_query_is_any(&a->filter) || a->f.count > 0);
    bool needs_job = a->view && a->view != OPT_PAPER && !is_cluster && !is_many;
    if (needs_job && n == 0 && a->file) /* which may be the job's number */
        return error_set(err, ERR_USAGE,
                         "which job? '%.60s' is the file, which comes first",
                         a->file);
    if (needs_job && n == 0 && a->view == OPT_EFF)
        return error_set(err, ERR_USAGE,
                         "which job? name one, or choose several, e.g. with "
                         "--user me or --count 10");
    if (needs_job && n == 0)
        return error_set(err, ERR_USAGE, "which job? see %s --help",
                         stat_tool.name);
    if (check_rules(a, n, is_cluster, err) < 0 || check_plot(a, err) < 0)
        return -1;
    return check_uses(a, n, err);
}
