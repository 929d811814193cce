/* run_replicates.c - see run_replicates.h.
 *
 * The replicates are independent and alike, so the mean of a figure has the
 * interval of Student: mean +- t s / sqrt(n), with n - 1 degrees of freedom.
 * All runs of a replicate have the same arrivals, so the interval of the last
 * run relative to the first is that of n ratios, and narrower than the two
 * intervals suggest. */
#include "scheduler/sim/output/run_replicates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double CONFIDENCE = 0.95;
enum { LABEL_WIDTH = 26, WIDTH = 20 };

int run_replicates_create(size_t n, size_t n_runs, struct run_replicates *ret,
                          struct error *err)
{
    *ret = (struct run_replicates){
        .n = n,
        .n_runs = n_runs,
        .values = calloc(n * n_runs * RUN_FIGURES_MAX + 1, sizeof(double))};
    return ret->values ? 0
                       : error_set(err, ERR_NOMEM, "%zu replicates of %zu runs",
                                   n, n_runs);
}

void run_replicates_clear(struct run_replicates *r)
{
    free(r->values);
    *r = (struct run_replicates){.n = 0};
}

static double *values_of(const struct run_replicates *r, size_t run, size_t f)
{
    return r->values + (run * RUN_FIGURES_MAX + f) * r->n;
}

void run_replicates_add(struct run_replicates *r, size_t k, size_t run,
                        const struct run_figures *f)
{
    double v[RUN_FIGURES_MAX];
    size_t n = run_table_values(f, v);

    for (size_t i = 0; i < n; i++)
        values_of(r, run, i)[k] = v[i];
}

/* ---- intervals -------------------------------------------------------------
 */
/* The probability of a value within -t and t. */
static double within(double t, size_t freedom)
{
    double theta = atan(t / sqrt((double)freedom));
    double s = sin(theta), c = cos(theta), sum = 0;
    bool is_odd = freedom % 2 == 1;
    double term = is_odd ? c : 1;

    for (size_t k = is_odd ? 3 : 2; k <= freedom; k += 2) {
        sum += term;
        term *= c * c * (double)(k - 1) / (double)k;
    }
    return is_odd ? M_2_PI * (theta + s * sum) : s * sum;
}

/* What a Student variable exceeds in absolute value with probability 0.05.
 * src  Abramowitz, Stegun, Handbook of Mathematical Functions, 26.7.3-26.7.4 */
static double student_t(size_t freedom)
{
    double lo = 0, hi = 16; /* more than 12.706 for one degree */

    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        if (within(mid, freedom) < CONFIDENCE)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* The mean of the replicates, and half the width of its interval of 95 %; NAN:
 * a replicate has no value. */
struct interval {
    double mean, half;
};

static struct interval interval(const double *v, size_t n)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - mean) * (v[i] - mean);
    double error = sqrt(squares / (double)(n - 1) / (double)n);
    return (struct interval){mean, student_t(n - 1) * error};
}

/* Of figure f in a run. */
static struct interval interval_of(const struct run_replicates *r, size_t run,
                                   size_t f)
{
    return interval(values_of(r, run, f), r->n);
}

/* Of the last run relative to the first, minus 1, as each replicate has it. */
static struct interval interval_of_ratio(const struct run_replicates *r,
                                         size_t f)
{
    const double *a = values_of(r, 0, f), *b = values_of(r, r->n_runs - 1, f);
    double *v = calloc(r->n, sizeof(*v));
    struct interval i = {NAN, NAN};

    if (!v)
        return i;
    for (size_t k = 0; k < r->n; k++)
        v[k] = a[k] > 0 ? b[k] / a[k] - 1 : (double)NAN;
    i = interval(v, r->n);
    free(v);
    return i;
}

/* ---- output ----------------------------------------------------------------
 */
/* A figure without a value in any run is left out. */
static bool has_value(const struct run_replicates *r, size_t f)
{
    bool any = false;

    for (size_t i = 0; i < r->n_runs; i++)
        any = any || isfinite(interval_of(r, i, f).mean);
    return any;
}

void run_replicates_each(const struct run_replicates *r,
                         const struct sim_named *runs,
                         void (*each)(void *arg, const struct run_cell *c),
                         void *arg)
{
    struct run_cell c = {.last = r->n_runs + (r->n_runs > 1), .text = ""};
    const char *label;
    char text[RUN_INTERVAL_CAP];

    each(arg, &c);
    for (size_t i = 0; i < r->n_runs; i++) {
        c = (struct run_cell){0, i + 1, c.last, false, runs[i].label};
        each(arg, &c);
    }
    if (r->n_runs > 1) {
        c = (struct run_cell){0, c.last, c.last, false, "last/first"};
        each(arg, &c);
    }
    size_t row = 1;
    for (size_t f = 0; (label = run_table_label(f)); f++) {
        if (!run_table_key(f) || !has_value(r, f))
            continue;
        c = (struct run_cell){row, 0, c.last, false, label};
        each(arg, &c);
        for (size_t i = 0; i < r->n_runs; i++) {
            struct interval v = interval_of(r, i, f);
            c = (struct run_cell){row, i + 1, c.last, false,
                                  run_table_interval(text, f, v.mean, v.half)};
            each(arg, &c);
        }
        if (r->n_runs > 1) {
            struct interval v = interval_of_ratio(r, f);
            text[0] = '\0';
            if (isfinite(v.mean))
                (void)snprintf(text, sizeof(text), "%+.1f ±%.1f %%",
                               100 * v.mean, 100 * v.half);
            c = (struct run_cell){row, c.last, c.last, false, text};
            each(arg, &c);
        }
        row++;
    }
}

static void print_cell(void *arg, const struct run_cell *c)
{
    int more = strstr(c->text, "±") ? 1 : 0; /* a column has two bytes */

    (void)fprintf(arg, c->column == 0 ? "%-*s" : " %*s",
                  c->column == 0 ? LABEL_WIDTH : WIDTH + more, c->text);
    if (c->column == c->last)
        (void)fprintf(arg, "\n");
}

int run_replicates_table(const struct run_replicates *r,
                         const struct sim_named *runs, FILE *out,
                         struct error *err)
{
    (void)fprintf(out,
                  "\nMeans of %zu replicates with other arrivals, and their "
                  "intervals of 95 %%:\n",
                  r->n);
    run_replicates_each(r, runs, print_cell, out);
    if (r->n_unended > 0)
        (void)fprintf(out, "replicates in which a job did not end: %zu\n",
                      r->n_unended);
    return ferror(out) ? error_set(err, ERR_IO, "standard output") : 0;
}

static json_t *interval_json(struct interval i)
{
    if (!isfinite(i.mean))
        return json_null();
    return json_pack("{s:f,s:f,s:f}", "mean", i.mean, "low", i.mean - i.half,
                     "high", i.mean + i.half);
}

/* run n_runs: the ratios */
static json_t *figures_json(const struct run_replicates *r, size_t run)
{
    json_t *o = json_object();

    for (size_t f = 0; o && run_table_label(f); f++)
        if (run_table_key(f) &&
            json_object_set_new(
                o, run_table_key(f),
                interval_json(run < r->n_runs ? interval_of(r, run, f)
                                              : interval_of_ratio(r, f))) < 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

json_t *run_replicates_json(const struct run_replicates *r)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < r->n_runs; i++)
        if (json_array_append_new(list, figures_json(r, i)) < 0) {
            json_decref(list);
            return NULL;
        }
    json_t *o = json_pack("{s:I,s:f,s:I,s:o}", "n", (json_int_t)r->n,
                          "confidence", CONFIDENCE, "unended",
                          (json_int_t)r->n_unended, "runs", list);
    if (o && r->n_runs > 1 &&
        json_object_set_new(o, "last_by_first", figures_json(r, r->n_runs)) <
            0) {
        json_decref(o);
        return NULL;
    }
    return o;
}
