/* plot.c - draw one column of several jobs as a chart, and write picture files;
 * see plot.h.
 */
#include "scheduler/tools/export/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/text/text.h"
#include "scheduler/tools/common/render.h"
#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/views/show.h"

static const struct {
    const char *name, *title, *unit;
    bool is_epoch, from_zero;
} known[] = {
    {"loss", "Loss", "nats", false, false},
    {"lr", "Learning rate", "", false, true},
    {"t_iter", "Step time", "seconds", false, true},
    {"t_data", "Waiting for data", "seconds", false, true},
    {"t_h2d", "Host to device", "seconds", false, true},
    {"t_forward", "Forward pass", "seconds", false, true},
    {"t_backward", "Backward pass", "seconds", false, true},
    {"t_comm", "Communication", "seconds", false, true},
    {"t_optimizer", "Optimizer", "seconds", false, true},
    {"gpu_mem_bytes", "Device memory", "bytes", false, true},
    {"seconds", "Epoch time", "seconds", true, true},
    {"train_loss", "Training loss", "nats", true, false},
    {"eval_loss", "Test loss", "nats", true, false},
    {"eval_accuracy", "Test accuracy", "accuracy, 0 to 1", true, false},
    {"samples_per_s", "Throughput", "samples/s", true, true},
    {"tokens_per_s", "Throughput", "tokens/s", true, true},
};
enum { VALUE_CAP = 42 }; /* of the values that distinguish a task */
enum { N_KNOWN = sizeof(known) / sizeof(known[0]) };

static int find(const char *column, size_t *ret, struct error *err)
{
    char names[400] = "";
    for (size_t i = 0; i < N_KNOWN; i++) {
        if (strcmp(known[i].name, column) == 0) {
            *ret = i;
            return 0;
        }
        size_t len = strlen(names);
        (void)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
                       known[i].name);
    }
    char q[TEXT_QUOTE_CAP];
    return error_set(err, ERR_USAGE, "no column '%s'; there are %s",
                     text_quote(q, sizeof(q), column), names);
}

int plot_write(const char *path, const struct buf *text, struct error *err)
{
    char temp[1024];
    if (strcmp(path, "-") == 0)
        return fwrite(text->data, 1, text->len, stdout) == text->len
                   ? 0
                   : error_set(err, ERR_IO, "write to standard output: %s",
                               strerror(errno));
    int n = snprintf(temp, sizeof(temp), "%s.tmp", path);
    if (n < 0 || (size_t)n >= sizeof(temp))
        return error_set(err, ERR_USAGE, "'%.60s...' is too long", path);
    FILE *f = fopen(temp, "we");
    if (!f)
        return error_sys(err, errno, "create '%s'", temp);
    bool is_bad = fwrite(text->data, 1, text->len, f) != text->len;
    is_bad = fclose(f) != 0 || is_bad;
    if (!is_bad && rename(temp, path) == 0)
        return 0;
    int why = errno;
    (void)unlink(temp);
    return error_sys(err, why, "write '%s'", path);
}

/* "3_1 lr=0.1 precision=fp16": all tasks of a sweep have the same name. */
static int name_curve(const char *word, const json_t *job, char *out,
                      size_t cap, struct error *err)
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

static int read_curve(struct client *c, const char *word, size_t which,
                      struct curve *ret, struct error *err)
{
    json_t *rows = NULL, *job = NULL;
    bool is_epoch = known[which].is_epoch;
    int rc = client_get(c, &rows, err, "/v1/jobs/%s/%s", word,
                        is_epoch ? "epochs" : "iterations?rank=0");
    if (rc == 0)
        rc = client_get(c, &job, err, "/v1/jobs/%s", word);
    if (rc == 0)
        rc = curve_of(rows, is_epoch ? "epoch" : "iteration", known[which].name,
                      is_epoch ? -1 : 0, ret, err);
    if (rc == 0)
        rc = name_curve(word, json_object_get(job, "job"), ret->name,
                        sizeof(ret->name), err);
    json_decref(rows);
    json_decref(job);
    return rc;
}

int plot_jobs(struct client *c, char *const *words, size_t n,
              const char *column, const char *path, struct error *err)
{
    struct curve curves[CHART_SERIES_MAX] = {{.n = 0}};
    struct chart_series series[CHART_SERIES_MAX];
    struct buf out = BUF_INIT;
    size_t which = 0, points = 0;
    if (n > CHART_SERIES_MAX)
        return error_set(err, ERR_USAGE, "at most %d jobs in a chart",
                         (int)CHART_SERIES_MAX);
    int rc = find(column, &which, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = read_curve(c, words[i], which, &curves[i], err);
        series[i] = curve_series(&curves[i]);
        points += curves[i].n;
    }
    char title[160];
    (void)snprintf(title, sizeof(title), "%s%s%s", known[which].title,
                   n == 1 ? ", job " : "", n == 1 ? curves[0].name : "");
    struct chart chart = {.title = title,
                          .x_title =
                              known[which].is_epoch ? "epoch" : "iteration",
                          .y_title = known[which].unit,
                          .series = series,
                          .n = n,
                          .from_zero = known[which].from_zero,
                          .categories = known[which].is_epoch};
    if (rc == 0 && points == 0)
        rc = error_set(err, ERR_NOTFOUND,
                       "nothing to draw: no such rows were recorded, or "
                       "store.metrics_retention has removed them");
    if (rc == 0)
        rc = chart_svg(&chart, true, &out, err);
    if (rc == 0)
        rc = plot_write(path, &out, err);
    for (size_t i = 0; i < n && i < CHART_SERIES_MAX; i++)
        curve_clear(&curves[i]);
    buf_clear(&out);
    return rc;
}
