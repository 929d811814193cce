/* report.c - sort runs into the rows of a report, and compare the rows.
 *
 * A run belongs to the row whose keys match its specification; of several, the
 * newest that completed counts. The seconds are compared with the paper's only
 * if the run has the paper's task, as far as it is known (`like`): a run of one
 * epoch is fast for another reason.
 */
#include "scheduler/tools/export/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/tools/views/show.h"

double report_time(const char *text)
{
    struct tm tm = {0};
    char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    double fraction = 0;
    if (!end)
        return NAN;
    if (*end == '.')
        fraction = strtod(end, &end);
    return strcmp(end, "Z") == 0 ? (double)timegm(&tm) + fraction : (double)NAN;
}

/* ---- keys -----------------------------------------------------------------
 */
static void value_text(const json_t *v, char *out, size_t cap)
{
    if (json_is_string(v))
        (void)snprintf(out, cap, "%s", json_string_value(v));
    else if (json_is_boolean(v))
        (void)snprintf(out, cap, "%s", json_is_true(v) ? "true" : "false");
    else if (json_is_number(v))
        (void)snprintf(out, cap, "%.15g", json_number_value(v));
    else
        (void)snprintf(out, cap, "-");
}

/* For resources.gpus use the number of allocated GPUs, because the spec may
 * have a range. */
static void value_of(const json_t *job, const char *key, char *out, size_t cap)
{
    const json_t *v = json_object_get(job, "spec");
    if (strcmp(key, "resources.gpus") == 0) {
        (void)snprintf(out, cap, "%" PRId64, field_int(job, "gpus", 0));
        return;
    }
    for (const char *p = key; p && v;) {
        char name[64];
        size_t len = strcspn(p, ".");
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
        v = json_object_get(v, name);
        p = p[len] ? p + len + 1 : NULL;
    }
    value_text(v, out, cap);
}

static void clear_row(struct report_row *row)
{
    *row = (struct report_row){.time_s = NAN,
                               .train_s = NAN,
                               .accuracy = NAN,
                               .s_per_it = NAN,
                               .profiled_s = NAN,
                               .s_per_update = NAN,
                               .samples_per_s = NAN,
                               .tokens_per_s = NAN,
                               .memory_bytes = NAN,
                               .h2d_bytes = NAN,
                               .collective_bytes = NAN,
                               .t_data_s = NAN,
                               .t_h2d_s = NAN,
                               .paper_s_per_it = NAN,
                               .paper_s = NAN,
                               .speedup = NAN,
                               .efficiency = NAN,
                               .paper_speedup = NAN,
                               .times_paper = NAN,
                               .paper_efficiency = NAN,
                               .paper_accuracy = NAN,
                               .compared = NAN,
                               .paper_compared = NAN};
    for (size_t i = 0; i < PAPER_METRICS; i++)
        row->seconds[i] = row->metrics[i] = row->paper_metrics[i] = NAN;
}

double report_number(const struct report_row *row, size_t at)
{
    double v;
    memcpy(&v, (const char *)row + at, sizeof(v));
    return v;
}

void report_begin(struct report *r)
{
    const struct paper *p = &r->paper;
    for (size_t i = 0; i < p->n_rows; i++) {
        struct report_row *row = &r->rows[r->n_rows++];
        clear_row(row);
        for (size_t k = 0; k < p->n_keys; k++) {
            (void)snprintf(row->keys[k], REPORT_VALUE_CAP, "%s",
                           p->rows[i].keys[k]);
            if (strcmp(p->keys[k], "resources.gpus") == 0)
                row->gpus = strtoll(row->keys[k], NULL, 10);
        }
        row->paper_s = p->rows[i].time_s;
        row->paper_accuracy = p->rows[i].accuracy / 100;
        row->paper_s_per_it = p->rows[i].s_per_it;
        for (size_t m = 0; m < p->n_metrics; m++)
            row->paper_metrics[m] = p->rows[i].metrics[m];
    }
}

/* The row of a run, created if the paper has none; NULL: no room, or the run
 * lacks a key of a report that is not of a paper. */
static struct report_row *row_of(struct report *r, const json_t *job)
{
    const struct paper *p = &r->paper;
    struct report_row like;
    clear_row(&like);
    for (size_t k = 0; k < p->n_keys; k++) {
        value_of(job, p->keys[k], like.keys[k], REPORT_VALUE_CAP);
        if (strcmp(p->keys[k], "resources.gpus") == 0)
            like.gpus = field_int(job, "gpus", 0);
        if ((p->view & PAPER_PRINTED) || strcmp(like.keys[k], "-") != 0)
            continue;
        if (k + 1 < p->n_keys || !p->is_first)
            return NULL;
        (void)snprintf(like.keys[k], REPORT_VALUE_CAP, "%s",
                       p->values[0].value);
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        bool same = true;
        for (size_t k = 0; k < p->n_keys; k++)
            same = same && strcmp(r->rows[i].keys[k], like.keys[k]) == 0;
        if (same)
            return &r->rows[i];
    }
    if (r->n_rows == REPORT_ROWS)
        return NULL;
    r->rows[r->n_rows] = like;
    return &r->rows[r->n_rows++];
}

static int add_once(struct buf *b, const char *text, const char *sep,
                    struct error *err)
{
    if (strstr(buf_str(b), text))
        return 0;
    return buf_addf(b, err, "%s%s", b->len > 0 ? sep : "", text);
}

static int check_like(struct report *r, struct report_row *row,
                      const json_t *job, struct error *err)
{
    row->is_like = true;
    for (size_t i = 0; i < r->paper.n_like; i++) {
        const char *key = r->paper.like[i].key, *want = r->paper.like[i].value;
        char got[REPORT_VALUE_CAP], text[200];
        value_of(job, key, got, sizeof(got));
        if (strcmp(got, "-") == 0) /* null, or a key that the job has not */
            (void)snprintf(got, sizeof(got), "null");
        if (strcmp(got, want) == 0)
            continue;
        row->is_like = false;
        (void)snprintf(text, sizeof(text), "%s is %s, not %s", key, got, want);
        if (add_once(&r->differs, text, "; ", err) < 0)
            return -1;
    }
    return 0;
}

int report_add_run(struct report *r, const struct report_run *run,
                   struct error *err)
{
    const json_t *job = json_object_get(run->job, "job");
    struct report_row *row;
    if (strcmp(field_str(job, "state"), "COMPLETED") != 0) {
        r->n_open++;
        return 0;
    }
    row = row_of(r, job);
    if (!row || row->is_run)
        return 0;
    row->is_run = true;
    r->n_runs++;
    (void)snprintf(row->display_id, sizeof(row->display_id), "%s",
                   field_str(job, "display_id"));
    (void)snprintf(row->place, sizeof(row->place), "%s",
                   field_str(job, "place"));
    (void)snprintf(row->started, sizeof(row->started), "%s",
                   field_str(job, "started"));
    report_figures(row, &r->paper, run);
    return check_like(r, row, job, err);
}

/* ---- all of them ----------------------------------------------------------
 */
const struct report_row *report_base(const struct report *r,
                                     const struct report_row *row,
                                     const char *key, const char *value)
{
    for (size_t i = 0; i < r->n_rows; i++) {
        bool same = true, has_key = false;
        for (size_t k = 0; k < r->paper.n_keys; k++) {
            bool is_key = strcmp(r->paper.keys[k], key) == 0;
            has_key = has_key || is_key;
            same = same && strcmp(r->rows[i].keys[k],
                                  is_key ? value : row->keys[k]) == 0;
        }
        if (same && has_key)
            return &r->rows[i];
    }
    return NULL;
}

static void compare(struct report *r, struct report_row *row)
{
    const struct paper *p = &r->paper;
    const struct report_row *one = report_base(r, row, "resources.gpus", "1");
    const struct report_row *other =
        p->compare_key ? report_base(r, row, p->compare_key, p->compare_value)
                       : NULL;
    if (one && row->gpus > 0) {
        row->speedup = one->time_s / row->time_s;
        row->paper_speedup = one->paper_s / row->paper_s;
        row->efficiency = row->speedup / (double)row->gpus;
        row->paper_efficiency = row->paper_speedup / (double)row->gpus;
    }
    if (other) {
        row->compared = other->time_s / row->time_s;
        row->paper_compared = other->paper_s / row->paper_s;
    }
    if (row->is_run && row->is_like)
        row->times_paper = row->paper_s / row->time_s;
}

/* "n1:0,1 n2:0" names n1 and n2; the inventory has their GPU types. */
static int add_nodes(struct buf *b, const char *place, const json_t *nodes,
                     struct error *err)
{
    const json_t *list = json_object_get(nodes, "nodes");
    for (const char *p = place; *p; p += strspn(p, " ")) {
        char name[100], text[300];
        const char *type = "";
        int64_t total = 0, from = 0;
        int64_t first = -1; /* of its GPUs: those of one type are consecutive */
        if (p[strcspn(p, ": ")] == ':')
            first = strtoll(p + strcspn(p, ": ") + 1, NULL, 10);
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(p, ": "), p);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *node = json_array_get(list, i);
            if (strcmp(field_str(node, "name"), name) != 0)
                continue;
            if (*type == '\0' || first >= from) {
                type = field_str(node, "gpu_type");
                total = field_int(node, "gpus_total", 0);
            }
            from += field_int(node, "gpus_total", 0);
        }
        bool is_slot = strcmp(type, "slot") == 0;
        if (*type)
            (void)snprintf(text, sizeof(text), "%s (%" PRId64 " %s%s)", name,
                           total, is_slot ? "CPU slot" : type,
                           is_slot && total != 1 ? "s" : "");
        else
            (void)snprintf(text, sizeof(text), "%s", name);
        if (add_once(b, text, ", ", err) < 0)
            return -1;
        p += strcspn(p, " ");
    }
    return 0;
}

/* Compares numbers by value, other values as text. */
static int compare_values(const char *a, const char *b)
{
    char *a_end, *b_end;
    double x = strtod(a, &a_end), y = strtod(b, &b_end);
    if (*a && *b && !*a_end && !*b_end)
        return (x > y) - (x < y);
    return strcmp(a, b);
}

/* Where a value of the last key stands among those that the table lists. */
static int place_of(const struct paper *p, const char *value)
{
    int i = 0;
    while (i < PAPER_VALUES && p->values[i].value &&
           strcmp(p->values[i].value, value) != 0)
        i++;
    return i;
}

static int by_keys(const void *a, const void *b, void *paper)
{
    const struct report_row *x = a, *y = b;
    const struct paper *p = paper;
    int order = 0;
    for (size_t k = 0; order == 0 && k < p->n_keys; k++) {
        if (k + 1 == p->n_keys)
            order = place_of(p, x->keys[k]) - place_of(p, y->keys[k]);
        if (order == 0)
            order = compare_values(x->keys[k], y->keys[k]);
    }
    return order;
}

int report_finish(struct report *r, const json_t *nodes, struct error *err)
{
    /* Jobs come newest first; the rows that they add are sorted at the end. */
    const size_t n = r->paper.n_rows;
    qsort_r(r->rows + n, r->n_rows - n, sizeof(r->rows[0]), by_keys, &r->paper);
    for (size_t i = 0; i < r->n_rows; i++) {
        struct report_row *row = &r->rows[i];
        compare(r, row);
        if (row->is_run && add_nodes(&r->ran_on, row->place, nodes, err) < 0)
            return -1;
    }
    return 0;
}

void report_clear(struct report *r)
{
    paper_clear(&r->paper);
    buf_clear(&r->differs);
    buf_clear(&r->ran_on);
}
