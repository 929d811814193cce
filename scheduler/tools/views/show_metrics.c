/* show_metrics.c - print the curves of a job, and the time per phase of its
 * iterations.
 *
 * The daemon sends rows; every figure is computed here from the measurements of
 * the ranks. The phases of an iteration need not add up to it: the rest is
 * shown as "other".
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

enum { BARS = 48, MAX_RANKS = 1024 };

static const struct {
    const char *column, *label;
} phases[] = {
    {"t_data", "data"},          {"t_h2d", "host to device"},
    {"t_forward", "forward"},    {"t_backward", "backward"},
    {"t_comm", "communication"}, {"t_optimizer", "optimizer"},
};
enum { N_PHASES = sizeof(phases) / sizeof(*phases) };

struct numbers { /* of one column; rank < 0: all ranks */
    double *v;
    size_t n, n_infinite, n_missing; /* n_missing: rows without a value */
    double sum, last; /* last: of the last row, NAN if it has none */
};

static int gather(const json_t *rows, int column, int c_rank, int rank,
                  struct numbers *ret, struct error *err)
{
    size_t cap = json_array_size(rows), i;
    json_t *row;
    struct numbers x = {.v = calloc(cap ? cap : 1, sizeof(double)),
                        .last = NAN};
    if (!x.v)
        return error_set(err, ERR_NOMEM, "%zu values", cap);
    json_array_foreach(rows, i, row)
    {
        double v = show_cell(row, column);
        if (rank >= 0 && show_cell(row, c_rank) != rank)
            continue;
        x.last = v;
        if (isfinite(v)) {
            x.v[x.n++] = v;
            x.sum += v;
        } else {
            x.n_infinite += isinf(v) != 0;
            x.n_missing += isnan(v) != 0;
        }
    }
    *ret = x;
    return 0;
}

/* "4.2", "17.5 ms", or "-". */
static const char *figure(double v, bool is_time, char *out, size_t cap)
{
    if (is_time)
        return render_time(v, out, cap);
    (void)snprintf(out, cap, isnan(v) ? "-" : "%.4g", v);
    return out;
}

/* Values without a bar. */
static void print_lack(const struct show_conf *s, const char *name, int wide,
                       const struct numbers *x)
{
    const size_t lacks[] = {x->n_infinite, x->n_missing};
    static const char *const what[] = {"infinite", "not a number"};
    bool is_named = x->n > 0;
    for (int i = 0; i < 2; i++) {
        if (lacks[i] == 0)
            continue;
        (void)fprintf(s->out, " %-*s %9s  %s in %zu of %zu iterations\n", wide,
                      is_named ? "" : name, is_named ? "" : "-", what[i],
                      lacks[i], x->n + x->n_infinite + x->n_missing);
        is_named = true;
    }
}

/* "loss 2.31 ▇▅▃▂▁ 0.05 lowest 0.04", values in the order of iterations; `wide`
 * is the width of the names. A value that is not finite has no bar, but is
 * mentioned. */
static void print_curve(const struct show_conf *s, const char *name, int wide,
                        const struct numbers *x, bool is_time, bool has_highest)
{
    char bars[4 * BARS + 1], first[32], last[32], low[32], high[32];
    const int of_others = 43 + (has_highest ? 19 : 0);
    if (x->n > 0) {
        double lo = x->v[0], hi = x->v[0];
        for (size_t i = 1; i < x->n; i++) {
            lo = x->v[i] < lo ? x->v[i] : lo;
            hi = x->v[i] > hi ? x->v[i] : hi;
        }
        int room =
            s->style.columns ? s->style.columns - of_others - wide : BARS;
        room = room < 8 ? 8 : room > BARS ? BARS : room;
        render_spark(x->v, x->n, (size_t)room, s->style.ascii, bars,
                     sizeof(bars));
        (void)fprintf(s->out, " %-*s %9s  %s  %-9s lowest %s", wide, name,
                      figure(x->v[0], is_time, first, sizeof(first)), bars,
                      figure(x->last, is_time, last, sizeof(last)),
                      figure(lo, is_time, low, sizeof(low)));
        if (has_highest)
            (void)fprintf(s->out, "  highest %s",
                          figure(hi, is_time, high, sizeof(high)));
        (void)fputc('\n', s->out);
    }
    print_lack(s, name, wide, x);
}

/* A column of rank 0. Only a loss is mentioned without any value: other columns
 * may not be reported at all. */
static int column_curve(const struct show_conf *s, const json_t *reply,
                        const char *column, int wide, bool is_time,
                        struct error *err)
{
    struct numbers x;
    if (gather(json_object_get(reply, "rows"), cells_column(reply, column),
               cells_column(reply, "rank"), 0, &x, err) < 0)
        return -1;
    if (x.n > 0 || (strcmp(column, "loss") == 0))
        print_curve(s, column, wide, &x, is_time, false);
    free(x.v);
    return 0;
}

/* One line per metric that the program named itself, of its lowest rank. */
static int own_curves(const struct show_conf *s, const struct metric_set *own,
                      int wide, struct error *err)
{
    for (size_t i = 0; i < own->n; i++) {
        const struct metric_curve *c = &own->curves[i];
        char name[4 * METRIC_NAME_CAP];
        struct numbers x = {.v = calloc(c->n + 1, sizeof(double)), .last = NAN};
        if (!x.v)
            return error_set(err, ERR_NOMEM, "%zu values", c->n);
        for (size_t k = 0; k < c->n; k++) {
            x.last = c->y[k];
            x.n_infinite += isinf(c->y[k]) != 0;
            x.n_missing += isnan(c->y[k]) != 0;
            if (isfinite(c->y[k]))
                x.v[x.n++] = c->y[k];
        }
        if (metric_set_is_first(own, c))
            print_curve(s, render_escape(c->name, name, sizeof(name)), wide, &x,
                        false, true);
        free(x.v);
    }
    return 0;
}

static int add_phase(struct render_table *t, const char *label,
                     struct numbers *x, double whole, struct error *err)
{
    char mean[32], p50[32], p99[32], share[32] = "-";
    double m = x->n ? x->sum / (double)x->n : NAN;
    if (whole > 0 && x->n)
        (void)snprintf(share, sizeof(share), "%.1f %%", 100 * x->sum / whole);
    if (render_table_add(t, err, "%s", label) < 0 ||
        render_table_add(t, err, "%s", render_time(m, mean, sizeof(mean))) <
            0 ||
        render_table_add(t, err, "%s",
                         render_time(render_quantile(x->v, x->n, 0.5), p50,
                                     sizeof(p50))) < 0 ||
        render_table_add(t, err, "%s",
                         render_time(render_quantile(x->v, x->n, 0.99), p99,
                                     sizeof(p99))) < 0 ||
        render_table_add(t, err, "%s", share) < 0)
        return -1;
    return 0;
}

static int phase_rows(struct render_table *t, const json_t *reply,
                      struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    struct numbers whole, x;
    if (gather(rows, cells_column(reply, "t_iter"), -1, -1, &whole, err) < 0)
        return -1;
    double rest = whole.sum;
    bool is_known = false;
    int rc = 0;
    for (size_t p = 0; rc == 0 && p < N_PHASES; p++) {
        rc = gather(rows, cells_column(reply, phases[p].column), -1, -1, &x,
                    err);
        if (rc < 0)
            break;
        rest -= x.sum;
        is_known = is_known || x.n > 0;
        rc = add_phase(t, phases[p].label, &x, whole.sum, err);
        free(x.v);
    }
    if (rc == 0 && whole.n && is_known) {
        double mean = rest > 0 ? rest / (double)whole.n : 0;
        x = (struct numbers){.v = &mean, .n = 1, .sum = mean};
        rc = add_phase(t, "other", &x, whole.sum / (double)whole.n, err);
    }
    if (rc == 0)
        rc = add_phase(t, "iteration", &whole, whole.sum, err);
    free(whole.v);
    return rc;
}

static int ranks_of(const json_t *reply)
{
    int most = -1, column = cells_column(reply, "rank");
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(reply, "rows"), i, row)
    {
        double r = show_cell(row, column);
        most = r > most && r < (double)MAX_RANKS ? (int)r : most;
    }
    return most + 1;
}

static int rank_lines(const struct show_conf *s, const json_t *reply,
                      struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    int c_rank = cells_column(reply, "rank"), n = ranks_of(reply);
    const char *what = cells_has(reply, "tokens") ? "tokens" : "samples";
    double all = 0;
    for (int r = 0; r < n; r++) {
        struct numbers t = {.n = 0}, samples = {.n = 0}, comm = {.n = 0};
        char mean[32];
        if (gather(rows, cells_column(reply, "t_iter"), c_rank, r, &t, err) <
                0 ||
            gather(rows, cells_column(reply, what), c_rank, r, &samples, err) <
                0 ||
            gather(rows, cells_column(reply, "t_comm"), c_rank, r, &comm, err) <
                0) {
            free(t.v);
            free(samples.v);
            free(comm.v);
            return -1;
        }
        if (t.n > 0) {
            (void)fprintf(s->out, " rank %-4d %zu iterations of %s", r, t.n,
                          render_time(t.sum / (double)t.n, mean, sizeof(mean)));
            if (comm.n && t.sum > 0)
                (void)fprintf(s->out, ", %.1f %% of it waiting for the others",
                              100 * comm.sum / t.sum);
            if (samples.n && t.sum > 0)
                (void)fprintf(s->out, ", %.0f %s/s", samples.sum / t.sum, what);
            (void)fputc('\n', s->out);
            all += t.sum > 0 ? samples.sum / t.sum : 0;
        }
        free(t.v);
        free(samples.v);
        free(comm.v);
    }
    if (n > 1 && all > 0)
        (void)fprintf(s->out, " together  %.0f %s/s\n", all, what);
    return 0;
}

/* The width of the names; a few long ones may stand out. */
static int width_of(const struct metric_set *own)
{
    enum { LEAST = 7, MOST = 24 };
    int wide = LEAST;
    for (size_t i = 0; own && i < own->n; i++) {
        int n = (int)strlen(own->curves[i].name);
        wide = n > wide && n <= MOST ? n : wide;
    }
    return wide;
}

int show_metrics(const struct show_conf *s, const json_t *iterations,
                 const struct metric_set *own, struct error *err)
{
    static const struct render_column columns[] = {
        {"PHASE", RENDER_LEFT}, {"MEAN", RENDER_RIGHT},  {"P50", RENDER_RIGHT},
        {"P99", RENDER_RIGHT},  {"SHARE", RENDER_RIGHT},
    };
    struct render_table *t = NULL;
    size_t n = json_array_size(json_object_get(iterations, "rows"));
    int rc = 0, wide = width_of(own);

    bool is_removed = cells_removed(s->out, iterations);
    if (n == 0 && (!own || own->n == 0) && !is_removed)
        (void)fprintf(s->out, "no iterations recorded yet\n");
    if (n > 0 && (column_curve(s, iterations, "loss", wide, false, err) < 0 ||
                  column_curve(s, iterations, "lr", wide, false, err) < 0 ||
                  column_curve(s, iterations, "t_iter", wide, true, err) < 0))
        rc = -1;
    if (rc == 0 && own)
        rc = own_curves(s, own, wide, err);
    /* A program that reports no times has no phases. */
    if (rc == 0 && cells_has(iterations, "t_iter")) {
        (void)fputc('\n', s->out);
        rc = render_table_create(columns, 5, &t, err);
        if (rc == 0)
            rc = phase_rows(t, iterations, err);
        if (rc == 0) {
            render_table_print(t, &s->style, s->header, s->out);
            (void)fputc('\n', s->out);
            rc = rank_lines(s, iterations, err);
        }
    }
    render_table_destroy(t);
    return rc;
}
