/* report.c - collect the runs of a paper report, and compute its figures.
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

#include "scheduler/tools/export/report_runs.h"
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

/* The row of a run, created if the paper has none; NULL: no room. */
static struct report_row *row_of(struct report *r, const json_t *job)
{
    const struct paper *p = &r->paper;
    struct report_row like;
    clear_row(&like);
    for (size_t k = 0; k < p->n_keys; k++) {
        value_of(job, p->keys[k], like.keys[k], REPORT_VALUE_CAP);
        if (strcmp(p->keys[k], "resources.gpus") == 0)
            like.gpus = field_int(job, "gpus", 0);
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

/* ---- one run --------------------------------------------------------------
 */
static double attempts_s(const json_t *attempts)
{
    double sum = NAN;
    for (size_t i = 0; i < json_array_size(attempts); i++) {
        const json_t *a = json_array_get(attempts, i);
        double s = report_time(field_str(a, "ended")) -
                   report_time(field_str(a, "claimed"));
        if (isfinite(s))
            sum = (isfinite(sum) ? sum : 0) + s;
    }
    return sum;
}

/* An epoch that was repeated counts as it ended. */
static void take_epochs(struct report_row *row, const json_t *job,
                        const json_t *epochs)
{
    char batch[REPORT_VALUE_CAP];
    const json_t *rows = json_object_get(epochs, "rows");
    int c_epoch = cells_column(epochs, "epoch");
    int c_s = cells_column(epochs, "seconds");
    int c_acc = cells_column(epochs, "eval_accuracy");
    int c_rate = cells_column(epochs, "samples_per_s");
    double last = 0;
    value_of(job, "train.batch_size", batch, sizeof(batch));
    const double samples =
        strtod(batch, NULL) * (double)field_int(job, "gpus", 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *e = json_array_get(rows, i);
        double epoch = show_cell(e, c_epoch), s = show_cell(e, c_s);
        bool again = false;
        for (size_t j = i + 1; j < json_array_size(rows); j++)
            again =
                again || show_cell(json_array_get(rows, j), c_epoch) == epoch;
        if (again)
            continue;
        if (isfinite(s))
            row->train_s = (isfinite(row->train_s) ? row->train_s : 0) + s;
        if (epoch >= last) {
            last = epoch;
            row->accuracy = show_cell(e, c_acc);
            row->s_per_it = samples / show_cell(e, c_rate);
        }
    }
}

/* Whether the name begins with one of "a | b". */
static bool is_of(const char *name, const char *prefixes)
{
    for (const char *p = prefixes; *p;) {
        size_t len = strcspn(p, "|"), n = len;
        while (n > 0 && p[n - 1] == ' ' && p[len] == '|')
            n--;
        if (n > 0 && strncmp(name, p, n) == 0)
            return true;
        p += len;
        p += strspn(p, "| ");
    }
    return false;
}

struct profiled {
    double sums[PAPER_METRICS]; /* seconds of all ranks */
    double ranks, part_s;       /* part_s: of all ranks; 0: no profile_first */
};

/* in   attempt  0: all of them */
static struct profiled sums_of(const struct paper *p, const json_t *profile,
                               size_t attempt)
{
    const json_t *rows = json_object_get(profile, "rows");
    int c_name = cells_column(profile, "metric");
    int c_s = cells_column(profile, "total_s");
    int c_rank = cells_column(profile, "rank");
    int c_attempt = cells_column(profile, "attempt");
    struct profiled ret = {.ranks = 0};
    for (size_t i = 0; c_name >= 0 && i < json_array_size(rows); i++) {
        const json_t *one = json_array_get(rows, i);
        const char *name =
            json_string_value(json_array_get(one, (size_t)c_name));
        double s = show_cell(one, c_s), rank = show_cell(one, c_rank);
        if (attempt > 0 && show_cell(one, c_attempt) != (double)attempt)
            continue;
        ret.ranks = rank + 1 > ret.ranks ? rank + 1 : ret.ranks;
        if (name && strcmp(name, "profiled part") == 0)
            ret.part_s += s;
        for (size_t m = 0; name && isfinite(s) && m < p->n_metrics; m++)
            if (is_of(name, p->metrics[m].prefixes))
                ret.sums[m] += s;
    }
    return ret;
}

/* Seconds and shares are of the part of the run that was profiled. With
 * train.profile_first each attempt has such a part: the longest counts. */
static void take_profile(struct report_row *row, const struct paper *p,
                         const json_t *profile, size_t attempts)
{
    const struct profiled all = sums_of(p, profile, 0);
    struct profiled of = {.part_s = 0};
    for (size_t a = 1; all.part_s > 0 && a <= attempts; a++) {
        const struct profiled one = sums_of(p, profile, a);
        of = one.part_s > of.part_s ? one : of;
    }
    of = of.part_s > 0 ? of : all;
    if (of.ranks == 0 || !(row->train_s > 0))
        return;
    row->profiled_s = of.part_s > 0 ? of.part_s / of.ranks : row->train_s;
    for (size_t m = 0; m < p->n_metrics; m++) {
        row->seconds[m] = of.sums[m];
        row->metrics[m] = of.sums[m] / (of.ranks * row->profiled_s);
    }
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

int report_add_run(struct report *r, const json_t *job_reply,
                   const json_t *epochs, const json_t *profile,
                   struct error *err)
{
    const json_t *job = json_object_get(job_reply, "job");
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
    row->time_s = attempts_s(json_object_get(job_reply, "attempts"));
    take_epochs(row, job, epochs);
    if (profile)
        take_profile(row, &r->paper, profile,
                     json_array_size(json_object_get(job_reply, "attempts")));
    return check_like(r, row, job, err);
}

/* ---- all of them ----------------------------------------------------------
 */
/* The row with this value of `key` and the same other keys; NULL: there is
 * none, or no such key. */
static const struct report_row *base_of(const struct report *r,
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
    const struct report_row *one = base_of(r, row, "resources.gpus", "1");
    const struct report_row *other =
        p->compare_key ? base_of(r, row, p->compare_key, p->compare_value)
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

static int by_keys(const void *a, const void *b)
{
    const struct report_row *x = a, *y = b;
    int order = 0;
    for (size_t k = 0; order == 0 && k < PAPER_KEYS; k++)
        order = compare_values(x->keys[k], y->keys[k]);
    return order;
}

int report_finish(struct report *r, const json_t *nodes, struct error *err)
{
    /* Jobs come newest first; the rows that they add are sorted at the end. */
    const size_t n = r->paper.n_rows;
    qsort(r->rows + n, r->n_rows - n, sizeof(r->rows[0]), by_keys);
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

/* ---- from the daemon ------------------------------------------------------
 */
static int take_job(struct client *c, const char *display_id, const json_t *job,
                    void *arg, struct error *err)
{
    struct report *r = arg;
    json_t *epochs = NULL, *profile = NULL;
    int rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", display_id);
    if (rc == 0 && r->paper.n_metrics > 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", display_id);
    if (rc == 0)
        rc = report_add_run(r, job, epochs, profile, err);
    json_decref(epochs);
    json_decref(profile);
    return rc;
}

int report_collect(struct client *c, const char *name, char **words, size_t n,
                   struct report *ret, struct error *err)
{
    json_t *nodes = NULL;
    *ret = (struct report){.n_rows = 0};
    if (paper_load(name, &ret->paper, err) < 0)
        return -1;
    report_begin(ret);
    int rc = client_get(c, &nodes, err, "/v1/nodes");
    if (rc == 0)
        rc = runs_each(c, ret->paper.job, words, n, take_job, ret,
                       &ret->n_denied, err);
    if (rc == 0)
        rc = report_finish(ret, nodes, err);
    json_decref(nodes);
    if (rc < 0)
        report_clear(ret);
    return rc;
}
