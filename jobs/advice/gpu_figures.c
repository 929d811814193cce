/* gpu_figures.c - see gpu_figures.h. */
#include "jobs/advice/gpu_figures.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "jobs/wire/cells.h"
#include "jobs/wire/field.h"

enum { WARM_UP = 3 }; /* iterations of an attempt */

/* Less is not noticeable beside what no step reaches. */
static const double idle_least = 0.3;

static const char *name_at(const json_t *row, int column)
{
    const char *s =
        column < 0 ? NULL
                   : json_string_value(json_array_get(row, (size_t)column));
    return s ? s : "";
}

static double memory_of(const json_t *reply)
{
    const json_t *profile = json_object_get(reply, "profile");
    int c_name = cells_column(profile, "metric");
    int c_bytes = cells_column(profile, "bytes");
    double used = NAN, total = NAN;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(profile, "rows"), i, row)
    {
        const char *name = name_at(row, c_name);
        double bytes = show_cell(row, c_bytes);
        if (strcmp(name, "memory of the GPU, in use") == 0)
            used = fmax(used, bytes); /* if one is NAN, the other counts */
        else if (strcmp(name, "memory of the GPU, total") == 0)
            total = fmax(total, bytes);
    }
    return total > 0 ? used / total : NAN;
}

static double busy_of(const json_t *reply)
{
    int64_t attempt = field_int(json_object_get(reply, "job"), "attempt", 0);
    double share = NAN;
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(reply, "events"), i, e)
    {
        const json_t *detail = json_object_get(e, "detail");
        int64_t gpus_ms = field_int(detail, "gpus_ms", 0);
        if (field_int(e, "attempt", 0) == attempt && gpus_ms > 0)
            share =
                (double)field_int(detail, "gpu_busy_ms", 0) / (double)gpus_ms;
    }
    return share;
}

/* ---- the share of the limit -----------------------------------------------
 */

/* The values of a job, read along its iterations: both come attempt by attempt,
 * and in each by iteration. */
struct values {
    const json_t *rows;
    int attempt, iteration, rank, name, value; /* columns */
    size_t at;
};

/* Whether the value at `at` comes before an iteration (< 0), or is of it (0).
 * One without an iteration comes first. */
static int order(const struct values *v, size_t at, double attempt,
                 double iteration)
{
    const json_t *row = json_array_get(v->rows, at);
    const double a = show_cell(row, v->attempt);
    const double i = show_cell(row, v->iteration);
    if (a != attempt)
        return a < attempt ? -1 : 1;
    return isnan(i) || i < iteration ? -1 : i > iteration;
}

/* NAN: none is of this iteration. */
static double sol_at(struct values *v, double attempt, double iteration)
{
    const size_t n = json_array_size(v->rows);
    while (v->at < n && order(v, v->at, attempt, iteration) < 0)
        v->at++;
    for (size_t k = v->at; k < n && order(v, k, attempt, iteration) == 0; k++) {
        const json_t *row = json_array_get(v->rows, k);
        if (show_cell(row, v->rank) == 0 &&
            strcmp(name_at(row, v->name), "sol") == 0)
            return show_cell(row, v->value);
    }
    return NAN;
}

static double limit_of(const json_t *iterations, struct values v)
{
    int c_attempt = cells_column(iterations, "attempt");
    int c_iteration = cells_column(iterations, "iteration");
    int c_rank = cells_column(iterations, "rank");
    int c_t = cells_column(iterations, "t_iter");
    double first = NAN, attempt = NAN, floor_s = 0, took_s = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(iterations, "rows"), i, row)
    {
        const double at = show_cell(row, c_iteration);
        const double of = show_cell(row, c_attempt);
        const double t = show_cell(row, c_t);
        if (of != attempt)
            first = at;
        attempt = of;
        if (show_cell(row, c_rank) != 0 || at < first + (double)WARM_UP)
            continue;
        const double sol = sol_at(&v, of, at);
        if (isfinite(sol) && t > 0) {
            floor_s += sol * t;
            took_s += t;
        }
    }
    return took_s > 0 ? floor_s / took_s : NAN;
}

static struct values values_of(const json_t *reply, const char *member)
{
    const json_t *values = json_object_get(reply, member);
    return (struct values){.rows = json_object_get(values, "rows"),
                           .attempt = cells_column(values, "attempt"),
                           .iteration = cells_column(values, "iteration"),
                           .rank = cells_column(values, "rank"),
                           .name = cells_column(values, "name"),
                           .value = cells_column(values, "value")};
}

static int64_t batch_of(const struct values *v)
{
    for (size_t i = json_array_size(v->rows); i-- > 0;) {
        const json_t *row = json_array_get(v->rows, i);
        const double n = show_cell(row, v->value);
        if (strcmp(name_at(row, v->name), "batch_fits") == 0)
            return n >= 1 && n <= INT32_MAX ? (int64_t)n : 0;
    }
    return 0;
}

struct gpu_figures gpu_figures_of(const json_t *reply, const json_t *iterations)
{
    const json_t *job = json_object_get(reply, "job");
    const struct values v = values_of(reply, "values");
    const struct values first = values_of(reply, "first_values");
    struct gpu_figures ret = {
        .memory = memory_of(reply), .busy = busy_of(reply), .limit = NAN};
    /* A program may call something else so. */
    if (strcmp(field_str(job, "kind"), "command") != 0) {
        ret.limit = limit_of(iterations, v);
        ret.batch_fits = batch_of(&first);
        if (ret.batch_fits == 0)
            ret.batch_fits = batch_of(&v);
    }
    return ret;
}

int gpu_figures_note(FILE *out, const json_t *job, const struct gpu_figures *g,
                     double computing, double other)
{
    const json_t *spec = json_object_get(job, "spec");
    const json_t *train = json_object_get(spec, "train");
    const json_t *packed =
        json_object_get(json_object_get(train, "dataset"), "packed");
    const bool can_pack = strcmp(field_str(job, "kind"), "llm") == 0 &&
                          strcmp(field_str(spec, "method"), "dpo") != 0 &&
                          json_is_false(packed);
    const int64_t batch = field_int(train, "batch_size", 0);
    const double idle = computing - g->limit;
    if (!(idle >= idle_least) || !(idle >= other) || batch < 1 ||
        (g->batch_fits <= batch && !can_pack))
        return 0;
    (void)fprintf(out,
                  "  * Batch %" PRId64 " leaves %.0f %% of the GPU idle while "
                  "it computes:",
                  batch, 100 * idle);
    if (g->batch_fits > batch)
        (void)fprintf(out, "\n    train.batch_size %" PRId64 " fits%s",
                      g->batch_fits, can_pack ? ", or" : "");
    if (can_pack)
        (void)fputs(g->batch_fits > batch
                        ? " pack: train.dataset.packed: true"
                        : "\n    pack: train.dataset.packed: true",
                    out);
    (void)fputs(".\n", out);
    return 1;
}
