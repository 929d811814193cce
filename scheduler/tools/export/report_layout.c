/* report_layout.c - see report_layout.h. */
#include "scheduler/tools/export/report_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/report_runs.h"
#include "scheduler/tools/views/show.h"

enum figure { DATA, H2D, IMAGES };

static const char job_name[] = "paper-layout";

/* ---- one run ------------------------------------------------------------- */

static double last_of(const json_t *table, const char *column)
{
    const json_t *rows = json_object_get(table, "rows");
    const size_t n = json_array_size(rows);
    const int at = cells_column(table, column);
    return n > 0 ? show_cell(json_array_get(rows, n - 1), at) : (double)NAN;
}

/* The mean of a column over the rows of one epoch, those of all ranks, in the
 * attempt that ended it. */
static double mean_of(const json_t *table, const char *column, double attempt,
                      double epoch)
{
    const json_t *rows = json_object_get(table, "rows");
    const int c_attempt = cells_column(table, "attempt");
    const int c_epoch = cells_column(table, "epoch");
    const int at = cells_column(table, column);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double v = show_cell(row, at);
        if (show_cell(row, c_epoch) != epoch ||
            show_cell(row, c_attempt) != attempt || !isfinite(v))
            continue;
        sum += v;
        n++;
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

static bool is_alike(const struct layout_row *a, const struct layout_row *b)
{
    return a->gpus == b->gpus && a->image_size == b->image_size &&
           a->batch_size == b->batch_size &&
           strcmp(a->precision, b->precision) == 0 &&
           strcmp(a->data_path, b->data_path) == 0;
}

static const struct layout_row *find(const struct layout_report *r,
                                     const struct layout_row *like,
                                     bool channels_last)
{
    for (size_t i = 0; i < r->n; i++)
        if (is_alike(&r->rows[i], like) &&
            r->rows[i].channels_last == channels_last)
            return &r->rows[i];
    return NULL;
}

void layout_add_run(struct layout_report *r, const json_t *reply,
                    const json_t *epochs, const json_t *iterations)
{
    const json_t *job = json_object_get(reply, "job");
    const json_t *spec = json_object_get(job, "spec");
    const json_t *dataset = json_object_get(spec, "dataset");
    const json_t *train = json_object_get(spec, "train");
    struct layout_row row = {.gpus = field_int(job, "gpus", 0),
                             .image_size = field_int(dataset, "image_size", 0),
                             .batch_size = field_int(train, "batch_size", 0),
                             .channels_last = !json_is_false(
                                 json_object_get(train, "channels_last"))};
    if (strcmp(field_str(job, "state"), "COMPLETED") != 0) {
        r->n_open++;
        return;
    }
    (void)snprintf(row.data_path, sizeof(row.data_path), "%s",
                   field_str(dataset, "data_path"));
    (void)snprintf(row.precision, sizeof(row.precision), "%s",
                   field_str(train, "precision"));
    if (dataset == NULL || r->n == LAYOUT_ROWS ||
        find(r, &row, row.channels_last) != NULL)
        return;
    (void)snprintf(row.display_id, sizeof(row.display_id), "%s",
                   field_str(job, "display_id"));
    const double attempt = last_of(epochs, "attempt");
    const double epoch = last_of(epochs, "epoch");
    row.v[DATA] = mean_of(iterations, "t_data", attempt, epoch);
    row.v[H2D] = mean_of(iterations, "t_h2d", attempt, epoch);
    row.v[IMAGES] = last_of(epochs, "samples_per_s");
    r->rows[r->n++] = row;
}

/* ---- the table ----------------------------------------------------------- */

static int by_case(const void *a, const void *b)
{
    const struct layout_row *x = a, *y = b;
    if (x->image_size != y->image_size)
        return x->image_size < y->image_size ? -1 : 1;
    const int path = strcmp(x->data_path, y->data_path);
    if (path != 0)
        return path;
    const int precision = strcmp(x->precision, y->precision);
    if (precision != 0)
        return precision;
    if (x->batch_size != y->batch_size)
        return x->batch_size < y->batch_size ? -1 : 1;
    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? -1 : 1;
    return y->channels_last - x->channels_last;
}

static const char *layout_of(const struct layout_row *row)
{
    return row->channels_last ? "NHWC" : "NCHW";
}

static int add_figure(struct render_table *t, const struct layout_row *row,
                      const struct layout_row *nhwc, enum figure f,
                      struct error *err)
{
    char text[40] = "-", ratio[24] = "-";
    if (isfinite(row->v[f]) && f == IMAGES)
        (void)snprintf(text, sizeof(text), "%.0f", row->v[f]);
    else if (isfinite(row->v[f]))
        (void)snprintf(text, sizeof(text), "%.3f ms", 1e3 * row->v[f]);
    if (nhwc != NULL && isfinite(row->v[f] / nhwc->v[f]))
        (void)snprintf(ratio, sizeof(ratio), "%.2f x", row->v[f] / nhwc->v[f]);
    if (render_table_put(t, text, err) < 0)
        return -1;
    return render_table_put(t, ratio, err);
}

static int add_row(struct render_table *t, const struct layout_report *r,
                   const struct layout_row *row, struct error *err)
{
    const struct layout_row *nhwc = find(r, row, true);
    int rc = render_table_add(t, err, "%" PRId64, row->image_size);
    if (rc == 0)
        rc = render_table_put(t, row->data_path, err);
    if (rc == 0)
        rc = render_table_put(t, row->precision, err);
    char number[24];
    (void)snprintf(number, sizeof(number), "%" PRId64, row->batch_size);
    if (rc == 0)
        rc = render_table_put(t, number, err);
    (void)snprintf(number, sizeof(number), "%" PRId64, row->gpus);
    if (rc == 0)
        rc = render_table_put(t, number, err);
    if (rc == 0)
        rc = render_table_put(t, layout_of(row), err);
    for (int f = 0; rc == 0 && f < LAYOUT_FIGURES; f++)
        rc = add_figure(t, row, nhwc, (enum figure)f, err);
    return rc < 0 ? rc : render_table_put(t, row->display_id, err);
}

int layout_show(struct layout_report *r, const struct render_style *s,
                bool header, FILE *out, struct error *err)
{
    static const struct render_column columns[] = {
        {"SIZE", RENDER_RIGHT},     {"DATA PATH", RENDER_LEFT},
        {"PRECISION", RENDER_LEFT}, {"BATCH", RENDER_RIGHT},
        {"GPUS", RENDER_RIGHT},     {"LAYOUT", RENDER_LEFT},
        {"DATA/IT", RENDER_RIGHT},  {"/NHWC", RENDER_RIGHT},
        {"H2D/IT", RENDER_RIGHT},   {"/NHWC", RENDER_RIGHT},
        {"IMAGES/S", RENDER_RIGHT}, {"/NHWC", RENDER_RIGHT},
        {"JOB", RENDER_RIGHT}};
    struct render_table *t = NULL;
    qsort(r->rows, r->n, sizeof(r->rows[0]), by_case);
    int rc = render_table_create(columns, sizeof(columns) / sizeof(columns[0]),
                                 &t, err);
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        rc = add_row(t, r, &r->rows[i], err);
    if (rc == 0)
        render_table_print(t, s, header, out);
    render_table_destroy(t);
    if (rc < 0)
        return rc;
    if (r->n > 0)
        (void)fprintf(out, "DATA and H2D: the host's mean time of an iteration "
                           "in the last epoch, t_data and t_h2d\n");
    else
        (void)fprintf(out, "missing: no run yet; mgpu-submit "
                           "jobs/paper/layout.yaml\n");
    runs_say_rest(r->n_open, r->n_denied, out);
    return 0;
}

void layout_csv(const struct layout_report *r, FILE *out)
{
    (void)fprintf(out,
                  "report,dataset.image_size,dataset.data_path,train.precision,"
                  "train.batch_size,resources.gpus,train.channels_last,"
                  "t_data,t_h2d,images_per_s,job\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct layout_row *row = &r->rows[i];
        (void)fprintf(
            out, "layout,%" PRId64 ",%s,%s,%" PRId64 ",%" PRId64 ",%s",
            row->image_size, row->data_path, row->precision, row->batch_size,
            row->gpus, row->channels_last ? "true" : "false");
        for (int f = 0; f < LAYOUT_FIGURES; f++)
            if (isfinite(row->v[f]))
                (void)fprintf(out, ",%.9g", row->v[f]);
            else
                (void)fputs(",", out);
        (void)fprintf(out, ",%s\n", row->display_id);
    }
}

/* ---- from the daemon ----------------------------------------------------- */

/* Of the iterations the last 100,000, as many as the daemon gives. */
static int take_job(struct client *c, const char *id, const json_t *job,
                    void *arg, struct error *err)
{
    json_t *epochs = NULL, *iterations = NULL;
    int rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", id);
    if (rc == 0)
        rc = client_get(c, &iterations, err, "/v1/jobs/%s/iterations?last=1",
                        id);
    if (rc == 0)
        layout_add_run(arg, job, epochs, iterations);
    json_decref(epochs);
    json_decref(iterations);
    return rc;
}

static void write_csv(const void *report, FILE *out)
{
    layout_csv(report, out);
}

int layout_view(struct client *c, const struct report_conf *conf, char **words,
                size_t n, FILE *out, struct error *err)
{
    if (runs_refuse(conf, err) < 0)
        return -1;
    struct layout_report *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(err, ERR_NOMEM, "report");
    int rc = runs_each(c, job_name, words, n, take_job, r, &r->n_denied, err);
    if (rc == 0 && report_stdouts(conf) == 0)
        rc = layout_show(r, &conf->style, conf->header, out, err);
    if (rc == 0 && conf->csv != NULL)
        rc = runs_write(conf->csv, write_csv, r, err);
    free(r);
    return rc;
}
