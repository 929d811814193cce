/* report_methods.c - see report_methods.h. */
#include "scheduler/tools/export/report_methods.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/report_runs.h"
#include "scheduler/tools/views/show.h"

enum figure { S_PER_IT, TOKENS, MEMORY, H2D, COLLECTIVES };

static const char job_name[] = "paper-methods";

/* ---- one run ------------------------------------------------------------- */

/* The time of all epochs, an epoch that was repeated as it ended, and the
 * tokens/s of the last. */
static double epochs_s(const json_t *epochs, double *ret_tokens)
{
    const json_t *rows = json_object_get(epochs, "rows");
    const int c_epoch = cells_column(epochs, "epoch");
    const int c_s = cells_column(epochs, "seconds");
    const int c_tokens = cells_column(epochs, "tokens_per_s");
    const size_t n = json_array_size(rows);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(rows, i);
        const json_t *next = json_array_get(rows, i + 1);
        if (next == NULL || show_cell(next, c_epoch) != show_cell(e, c_epoch))
            sum += show_cell(e, c_s);
        *ret_tokens = show_cell(e, c_tokens);
    }
    return n > 0 ? sum : (double)NAN;
}

/* Rows of the profile that a figure is the sum of, or the largest. */
static const struct {
    const char *prefix;
    enum figure figure;
} sources[] = {{"CUDA memcpy Host-to-Device", H2D},
               {"host memcpy Host-to-Device", H2D},
               {"MPI ", COLLECTIVES},
               {"ncclDevKernel_", COLLECTIVES}};

static void take_profile(struct methods_row *row, const json_t *profile,
                         double iterations)
{
    const json_t *rows = json_object_get(profile, "rows");
    const int c_name = cells_column(profile, "metric");
    const int c_bytes = cells_column(profile, "bytes");
    const int c_rank = cells_column(profile, "rank");
    double sums[METHODS_FIGURES] = {0}, ranks = 1, planned = NAN, used = NAN;
    bool has[METHODS_FIGURES] = {false};
    for (size_t i = 0; c_name >= 0 && i < json_array_size(rows); i++) {
        const json_t *one = json_array_get(rows, i);
        const char *name =
            json_string_value(json_array_get(one, (size_t)c_name));
        const double bytes = show_cell(one, c_bytes);
        ranks = fmax(ranks, show_cell(one, c_rank) + 1);
        if (name == NULL || !isfinite(bytes) || bytes < 0)
            continue;
        if (strcmp(name, "memory planned") == 0)
            planned = fmax(planned, bytes);
        if (strcmp(name, "memory of the GPU, in use") == 0)
            used = fmax(used, bytes);
        for (size_t k = 0; k < sizeof(sources) / sizeof(sources[0]); k++)
            if (strncmp(name, sources[k].prefix, strlen(sources[k].prefix)) ==
                0) {
                sums[sources[k].figure] += bytes;
                has[sources[k].figure] = true;
            }
    }
    row->is_planned = !isfinite(used);
    row->v[MEMORY] = isfinite(used) ? used : planned;
    for (int f = H2D; f <= COLLECTIVES; f++)
        if (has[f])
            row->v[f] = sums[f] / ranks / iterations;
}

static struct methods_row *find(struct methods_report *r, const char *method,
                                int64_t gpus)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->rows[i].method, method) == 0 && r->rows[i].gpus == gpus)
            return &r->rows[i];
    return NULL;
}

void methods_add_run(struct methods_report *r, const json_t *reply,
                     const json_t *epochs, const json_t *profile)
{
    const json_t *job = json_object_get(reply, "job");
    const char *method = field_str(json_object_get(job, "spec"), "method");
    const int64_t gpus = field_int(job, "gpus", 0);
    const double iterations = (double)field_int(job, "iteration", 0);
    struct methods_row row = {.gpus = gpus};
    if (strcmp(field_str(job, "state"), "COMPLETED") != 0) {
        r->n_open++;
        return;
    }
    if (*method == '\0' || r->n == METHODS_ROWS || find(r, method, gpus))
        return;
    for (int i = 0; i < METHODS_FIGURES; i++)
        row.v[i] = NAN;
    (void)snprintf(row.method, sizeof(row.method), "%s", method);
    (void)snprintf(row.display_id, sizeof(row.display_id), "%s",
                   field_str(job, "display_id"));
    row.v[S_PER_IT] = epochs_s(epochs, &row.v[TOKENS]) / iterations;
    take_profile(&row, profile, iterations);
    r->rows[r->n++] = row;
}

/* ---- the table ----------------------------------------------------------- */

static int rank_of(const char *method)
{
    static const char *const order[] = {"lora", "qlora", "dpo", "qat"};
    for (int i = 0; i < 4; i++)
        if (strcmp(order[i], method) == 0)
            return i;
    return 4;
}

static int by_gpus(const void *a, const void *b)
{
    const struct methods_row *x = a, *y = b;
    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? -1 : 1;
    const int order = rank_of(x->method) - rank_of(y->method);
    return order != 0 ? order : strcmp(x->method, y->method);
}

static int add_figure(struct render_table *t, const struct methods_row *row,
                      const struct methods_row *lora, enum figure f,
                      struct error *err)
{
    char text[40] = "-", ratio[24] = "-";
    if (f == MEMORY || f == H2D || f == COLLECTIVES)
        (void)render_bytes(row->v[f], text, sizeof(text));
    else if (isfinite(row->v[f]))
        (void)snprintf(text, sizeof(text), f == TOKENS ? "%.0f" : "%.3g",
                       row->v[f]);
    if (lora != NULL && isfinite(row->v[f] / lora->v[f]))
        (void)snprintf(ratio, sizeof(ratio), "%.2f x", row->v[f] / lora->v[f]);
    if (render_table_put(t, text, err) < 0)
        return -1;
    return render_table_put(t, ratio, err);
}

static int print_table(struct methods_report *r, const struct render_style *s,
                       bool header, FILE *out, struct error *err)
{
    static const struct render_column columns[] = {
        {"GPUS", RENDER_RIGHT},
        {"METHOD", RENDER_LEFT},
        {"s/IT", RENDER_RIGHT},
        {"/LORA", RENDER_RIGHT},
        {"TOKENS/S", RENDER_RIGHT},
        {"/LORA", RENDER_RIGHT},
        {"MEMORY", RENDER_RIGHT},
        {"/LORA", RENDER_RIGHT},
        {"H2D/IT", RENDER_RIGHT},
        {"/LORA", RENDER_RIGHT},
        {"COLLECTIVES/IT", RENDER_RIGHT},
        {"/LORA", RENDER_RIGHT},
        {"JOB", RENDER_RIGHT}};
    struct render_table *t = NULL;
    int rc = render_table_create(columns, sizeof(columns) / sizeof(columns[0]),
                                 &t, err);
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        const struct methods_row *row = &r->rows[i];
        const struct methods_row *lora = find(r, "lora", row->gpus);
        rc = render_table_add(t, err, "%" PRId64, row->gpus);
        if (rc == 0)
            rc = render_table_put(t, row->method, err);
        for (int f = 0; rc == 0 && f < METHODS_FIGURES; f++)
            rc = add_figure(t, row, lora, (enum figure)f, err);
        if (rc == 0)
            rc = render_table_put(t, row->display_id, err);
    }
    if (rc == 0)
        render_table_print(t, s, header, out);
    render_table_destroy(t);
    return rc;
}

/* ---- what the paper states ----------------------------------------------- */

/* "LoRA is faster than DPO: holds (0.31 and 0.52 s/it)" */
static void say_less(const struct methods_row *less,
                     const struct methods_row *more, const char *claim,
                     enum figure f, FILE *out)
{
    char a[40], b[40];
    if (less == NULL || more == NULL || !isfinite(less->v[f]) ||
        !isfinite(more->v[f])) {
        (void)fprintf(out, "  %s: not known, a run is missing\n", claim);
        return;
    }
    if (f == MEMORY) {
        (void)render_bytes(less->v[f], a, sizeof(a));
        (void)render_bytes(more->v[f], b, sizeof(b));
    } else {
        (void)snprintf(a, sizeof(a), "%.3g s", less->v[f]);
        (void)snprintf(b, sizeof(b), "%.3g s", more->v[f]);
    }
    (void)fprintf(out, "  %s: %s (%s and %s of %s)\n", claim,
                  less->v[f] < more->v[f] ? "holds" : "does not hold", a, b,
                  more->method);
}

/* The other method that has most. */
static const struct methods_row *most_of(const struct methods_report *r,
                                         int64_t gpus, enum figure f)
{
    const struct methods_row *most = NULL;
    for (size_t i = 0; i < r->n; i++) {
        const struct methods_row *row = &r->rows[i];
        if (row->gpus == gpus && strcmp(row->method, "qat") != 0 &&
            isfinite(row->v[f]) && (most == NULL || row->v[f] > most->v[f]))
            most = row;
    }
    return most;
}

static void say_order(struct methods_report *r, int64_t gpus, FILE *out)
{
    const struct methods_row *lora = find(r, "lora", gpus);
    const struct methods_row *dpo = find(r, "dpo", gpus);
    const struct methods_row *qat = find(r, "qat", gpus);
    (void)fprintf(
        out, "the order that arXiv 2505.22905 states, on %" PRId64 " GPU%s:\n",
        gpus, gpus == 1 ? "" : "s");
    say_less(lora, dpo, "LoRA is faster than DPO", S_PER_IT, out);
    say_less(lora, dpo, "LoRA is smaller than DPO", MEMORY, out);
    say_less(most_of(r, gpus, S_PER_IT), qat, "QAT is the slowest", S_PER_IT,
             out);
    say_less(most_of(r, gpus, MEMORY), qat, "QAT is the largest", MEMORY, out);
}

int methods_show(struct methods_report *r, const struct render_style *s,
                 bool header, FILE *out, struct error *err)
{
    bool is_planned = false;
    qsort(r->rows, r->n, sizeof(r->rows[0]), by_gpus);
    if (print_table(r, s, header, out, err) < 0)
        return -1;
    for (size_t i = 0; i < r->n; i++) {
        is_planned = is_planned || r->rows[i].is_planned;
        if (i + 1 == r->n || r->rows[i + 1].gpus != r->rows[i].gpus)
            say_order(r, r->rows[i].gpus, out);
    }
    if (is_planned)
        (void)fprintf(out, "memory: where no GPU measured it, the bytes that "
                           "the plan takes\n");
    if (r->n > 0)
        (void)fprintf(out, "H2D and COLLECTIVES: bytes of a rank in an "
                           "iteration\n");
    else
        (void)fprintf(out, "missing: no run yet; mgpu-submit "
                           "jobs/paper/methods.yaml\n");
    runs_say_rest(r->n_open, r->n_denied, out);
    return 0;
}

void methods_csv(const struct methods_report *r, FILE *out)
{
    (void)fprintf(out, "report,resources.gpus,method,s_per_it,tokens_per_s,"
                       "memory_bytes,memory_is_planned,h2d_bytes_per_it,"
                       "collective_bytes_per_it,job\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct methods_row *row = &r->rows[i];
        (void)fprintf(out, "methods,%" PRId64 ",%s", row->gpus, row->method);
        for (int f = 0; f < METHODS_FIGURES; f++) {
            if (isfinite(row->v[f]))
                (void)fprintf(out, ",%.9g", row->v[f]);
            else
                (void)fputs(",", out);
            if (f == MEMORY)
                (void)fprintf(out, ",%s", row->is_planned ? "true" : "false");
        }
        (void)fprintf(out, ",%s\n", row->display_id);
    }
}

/* ---- from the daemon ----------------------------------------------------- */

static int take_job(struct client *c, const char *id, const json_t *job,
                    void *arg, struct error *err)
{
    json_t *epochs = NULL, *profile = NULL;
    int rc = client_get(c, &epochs, err, "/v1/jobs/%s/epochs", id);
    if (rc == 0)
        rc = client_get(c, &profile, err, "/v1/jobs/%s/profile", id);
    if (rc == 0)
        methods_add_run(arg, job, epochs, profile);
    json_decref(epochs);
    json_decref(profile);
    return rc;
}

static void write_csv(const void *report, FILE *out)
{
    methods_csv(report, out);
}

int methods_view(struct client *c, const struct report_conf *conf, char **words,
                 size_t n, FILE *out, struct error *err)
{
    if (runs_refuse(conf, err) < 0)
        return -1;
    struct methods_report *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(err, ERR_NOMEM, "report");
    int rc = runs_each(c, job_name, words, n, take_job, r, &r->n_denied, err);
    if (rc == 0 && report_stdouts(conf) == 0)
        rc = methods_show(r, &conf->style, conf->header, out, err);
    if (rc == 0 && conf->csv != NULL)
        rc = runs_write(conf->csv, write_csv, r, err);
    free(r);
    return rc;
}
