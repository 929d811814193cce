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
    size_t n, n_missing; /* n_missing: rows without a value */
    double sum, last;    /* last: of the last row, NAN if it has none */
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
            x.n_missing++;
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
    (void)snprintf(out, cap, isfinite(v) ? "%.4g" : "-", v);
    return out;
}

/* "loss 2.31 ▇▅▃▂▁ 0.05 lowest 0.04" of rank 0, in the order of iterations. A
 * loss that is NaN has no bar, but is mentioned. */
static int course(const struct show_conf *s, const json_t *reply,
                  const char *column, bool is_time, struct error *err)
{
    struct numbers x;
    char bars[4 * BARS + 1], first[32], last[32], low[32];
    if (gather(json_object_get(reply, "rows"), show_column(reply, column),
               show_column(reply, "rank"), 0, &x, err) < 0)
        return -1;
    if (x.n > 0) {
        double lo = x.v[0];
        for (size_t i = 1; i < x.n; i++)
            lo = x.v[i] < lo ? x.v[i] : lo;
        int room = s->style.columns ? s->style.columns - 50 : BARS;
        room = room < 8 ? 8 : room > BARS ? BARS : room;
        render_spark(x.v, x.n, (size_t)room, s->style.ascii, bars,
                     sizeof(bars));
        (void)fprintf(s->out, " %-7s %9s  %s  %-9s lowest %s\n", column,
                      figure(x.v[0], is_time, first, sizeof(first)), bars,
                      figure(x.last, is_time, last, sizeof(last)),
                      figure(lo, is_time, low, sizeof(low)));
    }
    if (x.n_missing > 0 && (x.n > 0 || strcmp(column, "loss") == 0))
        (void)fprintf(s->out,
                      " %-7s %9s  not a number in %zu of %zu iterations\n",
                      x.n > 0 ? "" : column, x.n > 0 ? "" : "-", x.n_missing,
                      x.n + x.n_missing);
    free(x.v);
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
    if (gather(rows, show_column(reply, "t_iter"), -1, -1, &whole, err) < 0)
        return -1;
    double rest = whole.sum;
    int rc = 0;
    for (size_t p = 0; rc == 0 && p < N_PHASES; p++) {
        rc =
            gather(rows, show_column(reply, phases[p].column), -1, -1, &x, err);
        if (rc < 0)
            break;
        rest -= x.sum;
        rc = add_phase(t, phases[p].label, &x, whole.sum, err);
        free(x.v);
    }
    if (rc == 0 && whole.n) {
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
    int most = -1, column = show_column(reply, "rank");
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
    int c_rank = show_column(reply, "rank"), n = ranks_of(reply);
    const char *what = show_has(reply, "tokens") ? "tokens" : "samples";
    double all = 0;
    for (int r = 0; r < n; r++) {
        struct numbers t = {.n = 0}, samples = {.n = 0}, comm = {.n = 0};
        char mean[32];
        if (gather(rows, show_column(reply, "t_iter"), c_rank, r, &t, err) <
                0 ||
            gather(rows, show_column(reply, what), c_rank, r, &samples, err) <
                0 ||
            gather(rows, show_column(reply, "t_comm"), c_rank, r, &comm, err) <
                0) {
            free(t.v);
            free(samples.v);
            free(comm.v);
            return -1;
        }
        if (t.n > 0) {
            (void)fprintf(s->out,
                          " rank %-4d %zu iterations of %s, %.1f %% of it "
                          "waiting for the others",
                          r, t.n,
                          render_time(t.sum / (double)t.n, mean, sizeof(mean)),
                          t.sum > 0 ? 100 * comm.sum / t.sum : 0);
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

static int print_values(const struct show_conf *s, const json_t *values,
                        struct error *err)
{
    static const struct render_column columns[] = {
        {"METRIC", RENDER_LEFT},
        {"RANK", RENDER_RIGHT},
        {"ITERATION", RENDER_RIGHT},
        {"VALUE", RENDER_RIGHT},
    };
    struct render_table *t = NULL;
    int c_name = show_column(values, "name");
    size_t i;
    json_t *row;
    int rc = render_table_create(columns, 4, &t, err);
    json_array_foreach(json_object_get(values, "rows"), i, row)
    {
        const char *name =
            json_string_value(json_array_get(row, (size_t)c_name));
        double it = show_cell(row, show_column(values, "iteration"));
        if (rc == 0 &&
            (render_table_add(t, err, "%s", name ? name : "") < 0 ||
             render_table_add(t, err, "%.0f",
                              show_cell(row, show_column(values, "rank"))) <
                 0 ||
             render_table_add(t, err, it < 0 ? "-" : "%.0f", it) < 0 ||
             render_table_add(t, err, "%.6g",
                              show_cell(row, show_column(values, "value"))) <
                 0))
            rc = -1;
    }
    if (rc == 0) {
        (void)fputc('\n', s->out);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

int show_metrics(const struct show_conf *s, const json_t *iterations,
                 const json_t *values, struct error *err)
{
    static const struct render_column columns[] = {
        {"PHASE", RENDER_LEFT}, {"MEAN", RENDER_RIGHT},  {"P50", RENDER_RIGHT},
        {"P99", RENDER_RIGHT},  {"SHARE", RENDER_RIGHT},
    };
    struct render_table *t = NULL;
    size_t n = json_array_size(json_object_get(iterations, "rows"));
    int rc = 0;

    bool is_removed = show_removed(s->out, iterations);
    if (n == 0 && !is_removed)
        (void)fprintf(s->out, "no iterations recorded yet\n");
    if (n > 0 && (course(s, iterations, "loss", false, err) < 0 ||
                  course(s, iterations, "lr", false, err) < 0 ||
                  course(s, iterations, "t_iter", true, err) < 0 ||
                  render_table_create(columns, 5, &t, err) < 0))
        rc = -1;
    if (rc == 0 && n > 0) {
        (void)fputc('\n', s->out);
        rc = phase_rows(t, iterations, err);
        if (rc == 0) {
            render_table_print(t, &s->style, s->header, s->out);
            (void)fputc('\n', s->out);
            rc = rank_lines(s, iterations, err);
        }
    }
    render_table_destroy(t);
    if (rc == 0 && values &&
        json_array_size(json_object_get(values, "rows")) > 0)
        rc = print_values(s, values, err);
    return rc;
}
