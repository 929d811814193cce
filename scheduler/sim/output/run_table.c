/* run_table.c - the figures of one or more policies for a terminal. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/sim/output/run_figures.h"

enum { COLUMN = 13, LABEL = 26 };

enum unit { AS_COUNT, AS_TIME, AS_RATIO, AS_PERCENT, AS_MS, AS_KWH };

struct row {
    const char *label;
    double (*of)(const struct run_figures *f);
    const char *key; /* in JSON, if it is worth comparing; else NULL */
    enum unit unit;
    bool is_of_some; /* left out where no run has a value */
    bool is_timing;  /* of the machine that simulates */
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
GETTER(get_energy, f->energy_kwh)
GETTER(get_restarts, f->restarts_per_job)
GETTER(get_resizes, f->resizes_per_job)
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
    {"jobs", get_jobs, NULL, AS_COUNT, false, false},
    {"completed", get_completed, NULL, AS_COUNT, false, false},
    {"JCT average", get_jct_avg, "jct_avg_s", AS_TIME, false, false},
    {"JCT p50", get_jct_p50, "jct_p50_s", AS_TIME, false, false},
    {"JCT p90", get_jct_p90, "jct_p90_s", AS_TIME, false, false},
    {"JCT p95", get_jct_p95, "jct_p95_s", AS_TIME, false, false},
    {"JCT p99", get_jct_p99, "jct_p99_s", AS_TIME, false, false},
    {"wait average", get_wait_avg, "wait_avg_s", AS_TIME, false, false},
    {"wait p99", get_wait_p99, "wait_p99_s", AS_TIME, false, false},
    {"wait, 1 GPU", get_wait_0, "wait_1_gpu_s", AS_TIME, true, false},
    {"wait, 2-4 GPUs", get_wait_1, "wait_2_4_gpus_s", AS_TIME, true, false},
    {"wait, 5-8 GPUs", get_wait_2, "wait_5_8_gpus_s", AS_TIME, true, false},
    {"wait, 9-32 GPUs", get_wait_3, "wait_9_32_gpus_s", AS_TIME, true, false},
    {"wait, over 32 GPUs", get_wait_4, "wait_over_32_gpus_s", AS_TIME, true,
     false},
    {"slowdown average", get_slow_avg, "slowdown_avg", AS_RATIO, false, false},
    {"slowdown p99", get_slow_p99, "slowdown_p99", AS_RATIO, false, false},
    {"makespan", get_makespan, "makespan_s", AS_TIME, false, false},
    {"GPUs in use", get_used, "utilisation", AS_PERCENT, false, false},
    {"idle while jobs wait", get_idle, "idle_while_queued", AS_PERCENT, false,
     false},
    {"restarting", get_restarting, "restarting", AS_PERCENT, false, false},
    {"GPU hours restarting", get_lost, "gpu_hours_restarting", AS_RATIO, false,
     false},
    {"GPU hours per job", get_gpu_hours, "gpu_hours_per_job", AS_RATIO, false,
     false},
    {"energy of GPUs in use", get_energy, "energy_kwh", AS_KWH, true, false},
    {"restarts per job", get_restarts, "restarts_per_job", AS_RATIO, false,
     false},
    {"resizes per job", get_resizes, "resizes_per_job", AS_RATIO, false, false},
    {"fairness, worst", get_fair_worst, "fairness_worst", AS_RATIO, false,
     false},
    {"fairness, above 1", get_fair_share, "fairness_share_above_1", AS_PERCENT,
     false, false},
    {"fairness, users", get_jain, "fairness_jain", AS_RATIO, false, false},
    {"decision p50", get_ms_p50, NULL, AS_MS, false, true},
    {"decision p99", get_ms_p99, NULL, AS_MS, false, true},
    {"steps per second", get_rate, NULL, AS_COUNT, false, true},
    {"simulated in", get_wall, NULL, AS_TIME, false, true},
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
    else if (unit == AS_KWH)
        (void)snprintf(out, 32, "%.*f kWh", x < 100 ? 2 : 0, x);
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

static const size_t N_ROWS = sizeof(rows) / sizeof(rows[0]);
_Static_assert(sizeof(rows) / sizeof(rows[0]) <= RUN_FIGURES_MAX, "room");

const char *run_table_label(size_t f)
{
    return f < N_ROWS ? rows[f].label : NULL;
}

const char *run_table_key(size_t f)
{
    return rows[f].key;
}

size_t run_table_values(const struct run_figures *f,
                        double ret[RUN_FIGURES_MAX])
{
    for (size_t k = 0; k < N_ROWS; k++)
        ret[k] = rows[k].of(f);
    return N_ROWS;
}

const char *run_table_interval(char out[RUN_INTERVAL_CAP], size_t f,
                               double mean, double half)
{
    enum unit unit = rows[f].unit;
    bool is_time = unit == AS_TIME;
    double scale = unit == AS_PERCENT        ? 0.01
                   : is_time && mean >= 3600 ? 3600
                   : is_time && mean >= 120  ? 60
                                             : 1;
    const char *suffix = unit == AS_PERCENT ? " %"
                         : unit == AS_KWH   ? " kWh"
                         : !is_time         ? ""
                         : scale > 60       ? " h"
                         : scale > 1        ? " min"
                                            : " s";
    int digits = scale > 60 || unit == AS_RATIO ? 2 : 1;

    if (unit == AS_KWH)
        digits = mean < 100 ? 2 : 0;
    if (isfinite(mean))
        (void)snprintf(out, RUN_INTERVAL_CAP, "%.*f ±%.*f%s", digits,
                       mean / scale, digits, half / scale, suffix);
    else
        (void)snprintf(out, RUN_INTERVAL_CAP, "-");
    return out;
}

/* r of `last` relative to `first`. */
static const char *ratio(char out[32], const struct row *r,
                         const struct run_figures *first,
                         const struct run_figures *last)
{
    double a = r->of(first), b = r->of(last);

    out[0] = '\0';
    if (r->key && isfinite(a) && isfinite(b) && a > 0)
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

void run_table_each(const struct run_figures *recorded,
                    const struct sim_named *runs, size_t n,
                    void (*each)(void *arg, const struct run_cell *c),
                    void *arg)
{
    char text[32];
    bool is_past = recorded->jobs > 0;
    const struct run_figures *first = n > 1     ? &runs[0].figures
                                      : is_past ? recorded
                                                : NULL;
    const size_t last = n + (is_past ? 1 : 0) + (first ? 1 : 0);
    struct run_cell c = {.last = last, .text = ""};
#define CELL(value)                   \
    (c.text = (value), each(arg, &c), \
     c.column = c.column < last ? c.column + 1 : 0)

    CELL("");
    if (is_past)
        CELL("recorded");
    for (size_t i = 0; i < n; i++)
        CELL(runs[i].label);
    if (first)
        CELL(n > 1 ? "last/first" : "/recorded");
    for (size_t k = 0; k < N_ROWS; k++) {
        const struct row *r = &rows[k];
        if (r->is_of_some && !has_value(r, recorded, runs, n))
            continue;
        c.row++;
        c.is_timing = r->is_timing;
        CELL(r->label);
        if (is_past)
            CELL(show(text, r->unit, r->of(recorded)));
        for (size_t i = 0; i < n; i++)
            CELL(show(text, r->unit, r->of(&runs[i].figures)));
        if (first)
            CELL(ratio(text, r, first, &runs[n - 1].figures));
    }
#undef CELL
}

static void print_cell(void *arg, const struct run_cell *c)
{
    (void)fprintf(arg, c->column == 0 ? "%-*s" : " %*s",
                  c->column == 0 ? LABEL : COLUMN, c->text);
    if (c->column == c->last)
        (void)fprintf(arg, "\n");
}

int run_table(const struct run_figures *recorded, const struct sim_named *runs,
              size_t n, FILE *out, struct error *err)
{
    run_table_each(recorded, runs, n, print_cell, out);
    return ferror(out) ? error_set(err, ERR_IO, "standard output") : 0;
}
