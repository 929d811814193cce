/* report_export.c - write a report as CSV and as JSON. */
#include <math.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/tools/export/report.h"

/* The numbers of a row by name; the metrics follow. */
static const struct number {
    const char *name;
    size_t at;
    enum paper_view in;
    bool is_flag;
} numbers[] = {
#define AT(member) offsetof(struct report_row, member)
    {"time_s", AT(time_s), PAPER_PRINTED, false},
    {"train_s", AT(train_s), PAPER_PRINTED, false},
    {"accuracy", AT(accuracy), PAPER_PRINTED, false},
    {"speedup", AT(speedup), PAPER_PRINTED, false},
    {"efficiency", AT(efficiency), PAPER_PRINTED, false},
    {"paper_time_s", AT(paper_s), PAPER_PRINTED, false},
    {"paper_speedup", AT(paper_speedup), PAPER_PRINTED, false},
    {"paper_efficiency", AT(paper_efficiency), PAPER_PRINTED, false},
    {"times_paper", AT(times_paper), PAPER_PRINTED, false},
    {"paper_accuracy", AT(paper_accuracy), PAPER_PRINTED, false},
    {"compared", AT(compared), PAPER_PRINTED, false},
    {"paper_compared", AT(paper_compared), PAPER_PRINTED, false},
    {"s_per_it", AT(s_per_it), PAPER_PRINTED, false},
    {"paper_s_per_it", AT(paper_s_per_it), PAPER_PRINTED, false},
    {"s_per_it", AT(s_per_update), PAPER_METHODS, false},
    {"tokens_per_s", AT(tokens_per_s), PAPER_METHODS, false},
    {"memory_bytes", AT(memory_bytes), PAPER_METHODS, false},
    {"memory_is_planned", AT(is_planned), PAPER_METHODS, true},
    {"h2d_bytes_per_it", AT(h2d_bytes), PAPER_METHODS, false},
    {"collective_bytes_per_it", AT(collective_bytes), PAPER_METHODS, false},
    {"t_data", AT(t_data_s), PAPER_LAYOUT, false},
    {"t_h2d", AT(t_h2d_s), PAPER_LAYOUT, false},
    {"images_per_s", AT(samples_per_s), PAPER_LAYOUT, false},
};
enum { N_NUMBERS = sizeof(numbers) / sizeof(*numbers) };

/* Quotes commas, quotes and line ends; a cell that a spreadsheet would take for
 * a formula stays as it is. */
static int add_text(struct buf *b, const char *text, struct error *err)
{
    return buf_addstr(b, ",", err) < 0 ? -1 : text_add_csv(b, text, err);
}

static int add_value(struct buf *b, double v, struct error *err)
{
    return isfinite(v) ? buf_addf(b, err, ",%.9g", v) : buf_addstr(b, ",", err);
}

static int add_at(struct buf *b, const struct report_row *row,
                  const struct number *n, struct error *err)
{
    if (!n->is_flag)
        return add_value(b, report_number(row, n->at), err);
    return add_text(b, ((const char *)row)[n->at] ? "true" : "false", err);
}

static int csv_header(const struct report *r, struct buf *b, struct error *err)
{
    int rc = buf_addstr(b, "report", err);
    for (size_t k = 0; rc == 0 && k < r->paper.n_keys; k++)
        rc = buf_addf(b, err, ",%s", r->paper.keys[k]);
    for (size_t i = 0; rc == 0 && i < N_NUMBERS; i++)
        if (numbers[i].in & r->paper.view)
            rc = buf_addf(b, err, ",%s", numbers[i].name);
    if (rc == 0 && r->paper.n_metrics > 0)
        rc = buf_addstr(b, ",profiled_s", err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++)
        rc = buf_addf(b, err, ",%s_s,%s,paper_%s", r->paper.metrics[m].name,
                      r->paper.metrics[m].name, r->paper.metrics[m].name);
    if (rc == 0 && !(r->paper.view & PAPER_PRINTED))
        return buf_addstr(b, ",job\n", err);
    return rc < 0 ? -1
                  : buf_addstr(b, ",like_the_paper,job,place,started\n", err);
}

static int csv_row(const struct report *r, const struct report_row *row,
                   struct buf *b, struct error *err)
{
    int rc = buf_addstr(b, r->paper.name, err);
    for (size_t k = 0; rc == 0 && k < r->paper.n_keys; k++)
        rc = add_text(b, row->keys[k], err);
    for (size_t i = 0; rc == 0 && i < N_NUMBERS; i++)
        if (numbers[i].in & r->paper.view)
            rc = add_at(b, row, &numbers[i], err);
    if (rc == 0 && r->paper.n_metrics > 0)
        rc = add_value(b, row->profiled_s, err);
    for (size_t m = 0; rc == 0 && m < r->paper.n_metrics; m++) {
        rc = add_value(b, row->seconds[m], err);
        if (rc == 0)
            rc = add_value(b, row->metrics[m], err);
        if (rc == 0)
            rc = add_value(b, row->paper_metrics[m], err);
    }
    const bool is_printed = r->paper.view & PAPER_PRINTED;
    if (rc == 0 && is_printed)
        rc = buf_addf(b, err, ",%s",
                      !row->is_run   ? ""
                      : row->is_like ? "true"
                                     : "false");
    if (rc == 0)
        rc = add_text(b, row->display_id, err);
    if (rc == 0 && is_printed)
        rc = add_text(b, row->place, err);
    if (rc == 0 && is_printed)
        rc = add_text(b, row->started, err);
    return rc < 0 ? -1 : buf_addstr(b, "\n", err);
}

int report_csv(const struct report *r, FILE *out, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = csv_header(r, &b, err);
    for (size_t i = 0; rc == 0 && i < r->n_rows; i++)
        rc = csv_row(r, &r->rows[i], &b, err);
    if (rc == 0)
        (void)fwrite(buf_str(&b), 1, b.len, out);
    buf_clear(&b);
    return rc;
}

static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *row_json(const struct report *r, const struct report_row *row)
{
    json_t *keys = json_object(), *o = json_object(), *m = json_object();
    json_t *seconds = json_object();
    for (size_t k = 0; k < r->paper.n_keys; k++)
        (void)json_object_set_new(keys, r->paper.keys[k],
                                  json_string(row->keys[k]));
    (void)json_object_set_new(o, "keys", keys);
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (numbers[i].in & r->paper.view)
            (void)json_object_set_new(o, numbers[i].name,
                                      real(report_number(row, numbers[i].at)));
    for (size_t i = 0; i < r->paper.n_metrics; i++) {
        (void)json_object_set_new(seconds, r->paper.metrics[i].name,
                                  real(row->seconds[i]));
        (void)json_object_set_new(m, r->paper.metrics[i].name,
                                  real(row->metrics[i]));
    }
    (void)json_object_set_new(o, "profiled_s", real(row->profiled_s));
    (void)json_object_set_new(o, "seconds", seconds);
    (void)json_object_set_new(o, "shares", m);
    (void)json_object_set_new(o, "like_the_paper",
                              row->is_run ? json_boolean(row->is_like)
                                          : json_null());
    (void)json_object_set_new(
        o, "job", row->is_run ? json_string(row->display_id) : json_null());
    (void)json_object_set_new(
        o, "place", *row->place ? json_string(row->place) : json_null());
    return o;
}

json_t *report_json(const struct report *r)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < r->n_rows; i++)
        (void)json_array_append_new(rows, row_json(r, &r->rows[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "schema",
                     "mgpu.report/1", "report", r->paper.name, "title",
                     r->paper.title, "source", r->paper.source, "platform",
                     r->paper.platform, "ran_on", buf_str(&r->ran_on),
                     "differs", buf_str(&r->differs), "rows", rows);
}
