/* run_table.c - the figures of one or more policies for a terminal. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/sim/output/run_figures.h"

enum { COLUMN = 13, LABEL = 26 };

enum unit { AS_COUNT, AS_TIME, AS_RATIO, AS_PERCENT, AS_MS };

struct row {
    const char *label;
    double (*of)(const struct run_figures *f);
    enum unit unit;
    bool has_ratio;  /* worth comparing */
    bool is_of_some; /* left out where no run has a value */
};

#define GETTER(name, expr)                          \
    static double name(const struct run_figures *f) \
    {                                               \
        return (double)(expr);                      \
    }
GETTER(get_jobs, f->jobs)
GETTER(get_completed, f->completed)
GETTER(get_jct_avg, f->jct_s.avg)
GETTER(get_jct_p50, f->jct_s.p50)
GETTER(get_jct_p90, f->jct_s.p90)
GETTER(get_jct_p95, f->jct_s.p95)
GETTER(get_jct_p99, f->jct_s.p99)
GETTER(get_wait_avg, f->wait_s.avg)
GETTER(get_wait_p99, f->wait_s.p99)
GETTER(get_slow_avg, f->slowdown.avg)
GETTER(get_slow_p99, f->slowdown.p99)
GETTER(get_makespan, f->makespan_s)
GETTER(get_used, f->utilisation)
GETTER(get_idle, f->idle_queued_gpu_s / f->total_gpu_s)
GETTER(get_restarting, f->restarting_gpu_s / f->used_gpu_s)
GETTER(get_gpu_hours, f->gpu_hours_per_job)
GETTER(get_restarts, f->restarts_per_job)
GETTER(get_fair_worst, f->worst_fairness)
GETTER(get_fair_share, f->share_above_1)
GETTER(get_jain, f->groups.jain)
GETTER(get_lost, f->restarting_gpu_s / 3600)
GETTER(get_wait_0, f->groups.sizes[0].wait_s)
GETTER(get_wait_1, f->groups.sizes[1].wait_s)
GETTER(get_wait_2, f->groups.sizes[2].wait_s)
GETTER(get_wait_3, f->groups.sizes[3].wait_s)
GETTER(get_wait_4, f->groups.sizes[4].wait_s)
GETTER(get_ms_p50, f->decision_ms.p50)
GETTER(get_ms_p99, f->decision_ms.p99)
GETTER(get_rate, (double)f->steps / f->wall_s)
GETTER(get_wall, f->wall_s)

static const struct row rows[] = {
    {"jobs", get_jobs, AS_COUNT, false, false},
    {"completed", get_completed, AS_COUNT, false, false},
    {"JCT average", get_jct_avg, AS_TIME, true, false},
    {"JCT p50", get_jct_p50, AS_TIME, true, false},
    {"JCT p90", get_jct_p90, AS_TIME, true, false},
    {"JCT p95", get_jct_p95, AS_TIME, true, false},
    {"JCT p99", get_jct_p99, AS_TIME, true, false},
    {"wait average", get_wait_avg, AS_TIME, true, false},
    {"wait p99", get_wait_p99, AS_TIME, true, false},
    {"wait, 1 GPU", get_wait_0, AS_TIME, true, true},
    {"wait, 2-4 GPUs", get_wait_1, AS_TIME, true, true},
    {"wait, 5-8 GPUs", get_wait_2, AS_TIME, true, true},
    {"wait, 9-32 GPUs", get_wait_3, AS_TIME, true, true},
    {"wait, over 32 GPUs", get_wait_4, AS_TIME, true, true},
    {"slowdown average", get_slow_avg, AS_RATIO, true, false},
    {"slowdown p99", get_slow_p99, AS_RATIO, true, false},
    {"makespan", get_makespan, AS_TIME, true, false},
    {"GPUs in use", get_used, AS_PERCENT, true, false},
    {"idle while jobs wait", get_idle, AS_PERCENT, true, false},
    {"restarting", get_restarting, AS_PERCENT, true, false},
    {"GPU hours restarting", get_lost, AS_RATIO, true, false},
    {"GPU hours per job", get_gpu_hours, AS_RATIO, true, false},
    {"restarts per job", get_restarts, AS_RATIO, true, false},
    {"fairness, worst", get_fair_worst, AS_RATIO, true, false},
    {"fairness, above 1", get_fair_share, AS_PERCENT, true, false},
    {"fairness, users", get_jain, AS_RATIO, true, false},
    {"decision p50", get_ms_p50, AS_MS, false, false},
    {"decision p99", get_ms_p99, AS_MS, false, false},
    {"steps per second", get_rate, AS_COUNT, false, false},
    {"simulated in", get_wall, AS_TIME, false, false},
};

static const char *show(char out[32], enum unit unit, double x)
{
    if (!isfinite(x))
        (void)snprintf(out, 32, "-");
    else if (unit == AS_COUNT)
        (void)snprintf(out, 32, "%.0f", x);
    else if (unit == AS_PERCENT)
        (void)snprintf(out, 32, "%.1f %%", 100 * x);
    else if (unit == AS_MS)
        (void)snprintf(out, 32, "%.2f ms", x);
    else if (unit == AS_RATIO)
        (void)snprintf(out, 32, "%.2f", x);
    else if (x >= 3600)
        (void)snprintf(out, 32, "%.2f h", x / 3600);
    else if (x >= 120)
        (void)snprintf(out, 32, "%.1f min", x / 60);
    else
        (void)snprintf(out, 32, "%.1f s", x);
    return out;
}

/* r of `last` relative to `first`. */
static const char *ratio(char out[32], const struct row *r,
                         const struct run_figures *first,
                         const struct run_figures *last)
{
    double a = r->of(first), b = r->of(last);

    out[0] = '\0';
    if (r->has_ratio && isfinite(a) && isfinite(b) && a > 0)
        (void)snprintf(out, 32, "%+.1f %%", 100 * (b / a - 1));
    return out;
}

static bool has_value(const struct row *r, const struct run_figures *recorded,
                      const struct sim_named *runs, size_t n)
{
    bool any = recorded->jobs > 0 && isfinite(r->of(recorded));

    for (size_t i = 0; i < n; i++)
        any = any || isfinite(r->of(&runs[i].figures));
    return any;
}

int run_table(const struct run_figures *recorded, const struct sim_named *runs,
              size_t n, FILE *out, struct error *err)
{
    char text[32];
    bool is_past = recorded->jobs > 0;
    const struct run_figures *first = n > 1     ? &runs[0].figures
                                      : is_past ? recorded
                                                : NULL;

    (void)fprintf(out, "%-*s", LABEL, "");
    if (is_past)
        (void)fprintf(out, " %*s", COLUMN, "recorded");
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, " %*s", COLUMN, runs[i].label);
    if (first)
        (void)fprintf(out, " %*s", COLUMN, n > 1 ? "last/first" : "/recorded");
    (void)fprintf(out, "\n");
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        if (rows[k].is_of_some && !has_value(&rows[k], recorded, runs, n))
            continue;
        (void)fprintf(out, "%-*s", LABEL, rows[k].label);
        if (is_past)
            (void)fprintf(out, " %*s", COLUMN,
                          show(text, rows[k].unit, rows[k].of(recorded)));
        for (size_t i = 0; i < n; i++)
            (void)fprintf(
                out, " %*s", COLUMN,
                show(text, rows[k].unit, rows[k].of(&runs[i].figures)));
        if (first)
            (void)fprintf(out, " %*s", COLUMN,
                          ratio(text, &rows[k], first, &runs[n - 1].figures));
        (void)fprintf(out, "\n");
    }
    return ferror(out) ? error_set(err, ERR_IO, "standard output") : 0;
}
