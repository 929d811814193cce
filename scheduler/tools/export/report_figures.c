/* report_figures.c - what one run measured: the figures of a row of a report.
 */
#include <math.h>
#include <string.h>

#include "scheduler/tools/export/report.h"
#include "scheduler/tools/views/show.h"

/* ---- seconds --------------------------------------------------------------
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

/* An epoch that was repeated counts as it ended.
 * ret  the row of the last one; NULL: there is none */
static const json_t *take_epochs(struct report_row *row, const json_t *job,
                                 const json_t *epochs)
{
    const json_t *train =
        json_object_get(json_object_get(job, "spec"), "train");
    const json_t *rows = json_object_get(epochs, "rows"), *last = NULL;
    int c_epoch = cells_column(epochs, "epoch");
    int c_s = cells_column(epochs, "seconds");
    const double samples = (double)field_int(train, "batch_size", 0) *
                           (double)field_int(job, "gpus", 0);
    double last_epoch = 0;
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
        if (epoch >= last_epoch) {
            last_epoch = epoch;
            last = e;
        }
    }
    if (last) {
        row->accuracy = show_cell(last, cells_column(epochs, "eval_accuracy"));
        row->samples_per_s =
            show_cell(last, cells_column(epochs, "samples_per_s"));
        row->tokens_per_s =
            show_cell(last, cells_column(epochs, "tokens_per_s"));
        row->s_per_it = samples / row->samples_per_s;
    }
    row->s_per_update = row->train_s / (double)field_int(job, "iteration", 0);
    return last;
}

/* The mean of a column over the rows of one epoch, those of all ranks, in the
 * attempt that ended it. */
static double mean_of(const json_t *iterations, const char *column,
                      double attempt, double epoch)
{
    const json_t *rows = json_object_get(iterations, "rows");
    const int c_attempt = cells_column(iterations, "attempt");
    const int c_epoch = cells_column(iterations, "epoch");
    const int at = cells_column(iterations, column);
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

/* ---- the profile ----------------------------------------------------------
 */
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

/* The bytes of the fullest rank, and those that a rank moves in an iteration.
 */
static void take_bytes(struct report_row *row, const json_t *profile,
                       double iterations)
{
    static const struct {
        const char *prefixes;
        size_t at;
    } moved[] = {
        {"CUDA memcpy Host-to-Device | host memcpy Host-to-Device",
         offsetof(struct report_row, h2d_bytes)},
        {"ncclDevKernel_ | MPI ",
         offsetof(struct report_row, collective_bytes)},
    };
    const json_t *rows = json_object_get(profile, "rows");
    const int c_name = cells_column(profile, "metric");
    const int c_bytes = cells_column(profile, "bytes");
    const int c_rank = cells_column(profile, "rank");
    double sums[2] = {NAN, NAN}, ranks = 1, planned = NAN, used = NAN;
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
        for (size_t k = 0; k < 2; k++)
            if (is_of(name, moved[k].prefixes))
                sums[k] = (isfinite(sums[k]) ? sums[k] : 0) + bytes;
    }
    row->is_planned = !isfinite(used);
    row->memory_bytes = isfinite(used) ? used : planned;
    row->h2d_bytes = sums[0] / ranks / iterations;
    row->collective_bytes = sums[1] / ranks / iterations;
}

void report_figures(struct report_row *row, const struct paper *p,
                    const struct report_run *run)
{
    const json_t *job = json_object_get(run->job, "job");
    const json_t *attempts = json_object_get(run->job, "attempts");
    row->time_s = attempts_s(attempts);
    const json_t *last = take_epochs(row, job, run->epochs);
    if (run->profile) {
        take_profile(row, p, run->profile, json_array_size(attempts));
        take_bytes(row, run->profile, (double)field_int(job, "iteration", 0));
    }
    if (last && run->iterations) {
        double attempt = show_cell(last, cells_column(run->epochs, "attempt"));
        double epoch = show_cell(last, cells_column(run->epochs, "epoch"));
        row->t_data_s = mean_of(run->iterations, "t_data", attempt, epoch);
        row->t_h2d_s = mean_of(run->iterations, "t_h2d", attempt, epoch);
    }
}
