/* plot.c - draw one column of several jobs as a chart, and write picture files;
 * see plot.h.
 */
#include "scheduler/tools/export/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/file_atomic.h"
#include "jobs/text/text.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/views/fetch.h"
#include "scheduler/tools/views/show.h"

static const struct plot_column known[] = {
    {"loss", "Loss", "nats", false, false, -1},
    {"lr", "Learning rate", "", false, true, 0},
    {"t_iter", "Step time", "seconds", false, true, 0},
    {"t_data", "Waiting for data", "seconds", false, true, 0},
    {"t_h2d", "Host to device", "seconds", false, true, 0},
    {"t_forward", "Forward pass", "seconds", false, true, 0},
    {"t_backward", "Backward pass", "seconds", false, true, 0},
    {"t_comm", "Communication", "seconds", false, true, 0},
    {"t_optimizer", "Optimizer", "seconds", false, true, 0},
    {"gpu_mem_bytes", "Device memory", "bytes", false, true, 0},
    {"seconds", "Epoch time", "seconds", true, true, 0},
    {"train_loss", "Training loss", "nats", true, false, -1},
    {"eval_loss", "Test loss", "nats", true, false, -1},
    {"eval_accuracy", "Test accuracy", "accuracy, 0 to 1", true, false, 1},
    {"samples_per_s", "Throughput", "samples/s", true, true, 0},
    {"tokens_per_s", "Throughput", "tokens/s", true, true, 0},
};
enum { VALUE_CAP = 42 }; /* of the values that distinguish a task */
enum { N_KNOWN = sizeof(known) / sizeof(known[0]) };

const struct plot_column *plot_column_at(size_t i)
{
    return i < N_KNOWN ? &known[i] : NULL;
}

const struct plot_column *plot_column_named(const char *name)
{
    size_t i = 0;
    while (i < N_KNOWN && strcmp(known[i].name, name) != 0)
        i++;
    return plot_column_at(i);
}

static const char *unit_of(const struct plot_column *column, const json_t *job)
{
    const bool is_program =
        job && strcmp(field_str(job, "kind"), "command") == 0;
    const bool is_known = column && (column->best == 0 || !is_program);
    return is_known ? column->unit : "";
}

/* A loss, or a metric of a program's own, whose values are all above 0 and more
 * than a hundred times apart: on a linear axis all but the first are one line.
 */
static bool wants_log(const struct plot_column *column,
                      const struct chart_series *series, size_t n)
{
    double lo = INFINITY, hi = 0;
    if (column && column->best >= 0)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < series[i].n; k++) {
            const double y = series[i].y[k];
            if (!isfinite(y))
                continue;
            lo = y < lo ? y : lo;
            hi = y > hi ? y : hi;
        }
    return lo > 0 && hi > 100 * lo;
}

struct chart plot_chart(const struct plot_column *column, const json_t *job,
                        const char *title, const struct chart_series *series,
                        size_t n)
{
    const bool is_epoch = column && column->is_epoch;
    const bool is_log = wants_log(column, series, n);
    const char *unit = unit_of(column, job);
    return (struct chart){.title = title,
                          .x_title = is_epoch ? "epoch" : "iteration",
                          .y_title = !is_log ? unit
                                     : *unit ? "nats, logarithmic"
                                             : "logarithmic",
                          .log_y = is_log,
                          .series = series,
                          .n = n,
                          .from_zero = column && column->from_zero,
                          .categories = is_epoch};
}

/* Adds a word to a list of names, unless it is too long. */
static void add_name(char *list, size_t cap, const char *name)
{
    char q[TEXT_QUOTE_CAP];
    size_t len = strlen(list);
    (void)text_quote(q, sizeof(q), name);
    if (len + strlen(q) + 3 < cap)
        (void)snprintf(list + len, cap - len, "%s%s", len ? ", " : "", q);
}

/* No job has such a column: name those that there are. */
static int no_column(const char *column, const struct metric_set *own,
                     struct error *err)
{
    char names[320] = "", owns[120] = "", q[TEXT_QUOTE_CAP];
    for (size_t i = 0; i < N_KNOWN; i++)
        add_name(names, sizeof(names), known[i].name);
    for (size_t i = 0; i < own->n; i++)
        if (metric_set_is_first(own, &own->curves[i]))
            add_name(owns, sizeof(owns), own->curves[i].name);
    return error_set(err, ERR_USAGE, "no column '%s'; there are %s%s%s",
                     text_quote(q, sizeof(q), column), names,
                     *owns ? ", and of the job's own " : "", owns);
}

int plot_file_error(struct error *err, int why, const char *what,
                    const char *path)
{
    return error_set(err, ERR_IO, "%s '%s': %s", what, path, strerror(why));
}

int plot_write(const char *path, const struct buf *text, struct error *err)
{
    if (strcmp(path, "-") == 0)
        return fwrite(text->data, 1, text->len, stdout) == text->len
                   ? 0
                   : error_set(err, ERR_IO, "write to standard output: %s",
                               strerror(errno));
    if (file_atomic_put(NULL, path, buf_str(text), text->len,
                        FILE_PUBLIC | FILE_CACHED, err) == 0)
        return 0;
    if (err)
        err->code = ERR_IO; /* as plot_file_error(): one exit status */
    return -1;
}

/* "3_1 lr=0.1 precision=fp16": all tasks of a sweep have the same name. */
int plot_name(const char *word, const json_t *job, char *out, size_t cap,
              struct error *err)
{
    json_t *vary = json_object_get(job, "vary"), *value;
    const char *key;
    struct buf line = BUF_INIT;
    bool is_task = json_object_size(vary) > 0;
    int rc = buf_addf(&line, err, "%s%s%s", word, is_task ? "" : " ",
                      is_task ? "" : field_str(job, "name"));
    json_object_foreach(vary, key, value)
    {
        const char *dot = strrchr(key, '.');
        char *text = json_is_string(value)
                         ? NULL
                         : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT |
                                                 JSON_REAL_PRECISION(6));
        char q[VALUE_CAP];
        (void)text_quote(q, sizeof(q), text ? text : json_string_value(value));
        if (rc == 0)
            rc = buf_addf(&line, err, " %s=%s", dot ? dot + 1 : key, q);
        free(text);
    }
    if (rc == 0)
        (void)text_quote(out, cap, buf_str(&line));
    buf_clear(&line);
    return rc;
}

/* The curve of a metric that the job named itself; without one it has no
 * points. `own` collects the names of all jobs. */
static int own_curve(struct client *c, const char *word, const char *name,
                     struct metric_set *own, struct curve *ret,
                     struct error *err)
{
    struct metric_set set = {.n = 0};
    int rc = metric_set_read(c, word, &set, err);
    for (size_t i = 0; rc == 0 && i < set.n; i++)
        rc = metric_set_add(own, set.curves[i].name, set.curves[i].rank, 1, 1,
                            err);
    const struct metric_curve *found = metric_set_find(&set, name);
    if (rc == 0 && found)
        rc = curve_of_metric(found, ret, err);
    metric_set_clear(&set);
    return rc;
}

/* Lines of a chart, and where they come from. */
struct lines {
    struct curve curves[CHART_SERIES_MAX];
    size_t n;
    struct metric_set own; /* the names of all jobs */
    json_t *program;       /* a job that trains no model of ours; NULL: none */
};

static int read_curve(struct client *c, const char *word, const char *column,
                      const json_t *job, struct lines *to, struct error *err)
{
    json_t *rows = NULL;
    const struct plot_column *known_as = plot_column_named(column);
    bool is_epoch = known_as && known_as->is_epoch;
    struct curve *ret = &to->curves[to->n];
    int rc = !known_as ? own_curve(c, word, column, &to->own, ret, err)
                       : client_get(c, &rows, err, "/v1/jobs/%s/%s", word,
                                    is_epoch ? "epochs" : "iterations?rank=0");
    if (rc == 0 && known_as)
        rc = curve_of(rows, is_epoch ? "epoch" : "iteration", column,
                      is_epoch ? -1 : 0, ret, err);
    if (rc == 0)
        rc = plot_name(word, job, ret->name, sizeof(ret->name), err);
    to->n += rc == 0;
    if (!to->program && strcmp(field_str(job, "kind"), "command") == 0)
        to->program = json_deep_copy(job);
    json_decref(rows);
    return rc;
}

static int has_room(const struct lines *to, struct error *err)
{
    if (to->n < CHART_SERIES_MAX)
        return 0;
    return error_set(err, ERR_USAGE,
                     "at most %d jobs in a chart; name some of them, as 12_3",
                     (int)CHART_SERIES_MAX);
}

/* The tasks of a sweep that have values; one that has not begun has none. */
static int read_tasks(struct client *c, const json_t *tasks, const char *column,
                      struct lines *to, struct error *err)
{
    size_t i;
    json_t *job;
    json_array_foreach(json_object_get(tasks, "jobs"), i, job)
    {
        if (field_int(job, "attempt", 0) < 1)
            continue;
        if (has_room(to, err) < 0 || read_curve(c, field_str(job, "display_id"),
                                                column, job, to, err) < 0)
            return -1;
        struct curve *last = &to->curves[to->n - 1];
        if (curve_points(last) == 0) {
            curve_clear(last);
            to->n--;
        }
    }
    return 0;
}

static int read_word(struct client *c, const char *word, const char *column,
                     struct lines *to, struct error *err)
{
    json_t *reply = NULL, *tasks = NULL;
    int rc = client_get(c, &reply, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = fetch_tasks(c, word, reply, false, &tasks, err);
    if (rc == 0 && tasks)
        rc = read_tasks(c, tasks, column, to, err);
    else if (rc == 0 && (rc = has_room(to, err)) == 0)
        rc =
            read_curve(c, word, column, json_object_get(reply, "job"), to, err);
    json_decref(reply);
    json_decref(tasks);
    return rc;
}

static int draw(const char *column, const struct lines *lines, const char *path,
                struct error *err)
{
    const struct curve *curves = lines->curves;
    const size_t n = lines->n;
    struct chart_series series[CHART_SERIES_MAX];
    struct buf out = BUF_INIT;
    char title[192];
    const struct plot_column *known_as = plot_column_named(column);
    size_t points = 0;
    for (size_t i = 0; i < n; i++) {
        series[i] = curve_series(&curves[i]);
        points += curve_points(&curves[i]);
    }
    if (points == 0)
        return error_set(err, ERR_NOTFOUND,
                         "nothing to draw: no such rows were recorded, or "
                         "store.metrics_retention has removed them");
    (void)snprintf(title, sizeof(title), "%.*s%s%s", METRIC_NAME_CAP,
                   known_as ? known_as->title : column, n == 1 ? ", job " : "",
                   n == 1 ? curves[0].name : "");
    const struct chart chart =
        plot_chart(known_as, lines->program, title, series, n);
    int rc = chart_svg(&chart, true, &out, err);
    if (rc == 0)
        rc = plot_write(path, &out, err);
    buf_clear(&out);
    return rc;
}

int plot_jobs(struct client *c, char *const *words, size_t n,
              const char *column, const char *path, struct error *err)
{
    struct lines lines = {.n = 0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = read_word(c, words[i], column, &lines, err);
    if (rc == 0 && !plot_column_named(column) &&
        !metric_set_find(&lines.own, column))
        rc = no_column(column, &lines.own, err);
    if (rc == 0)
        rc = draw(column, &lines, path, err);
    for (size_t i = 0; i < CHART_SERIES_MAX; i++)
        curve_clear(&lines.curves[i]);
    metric_set_clear(&lines.own);
    json_decref(lines.program);
    return rc;
}
