/* replicates.c - arrivals that are drawn, and intervals over them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/output/run_replicates.h"
#include "scheduler/sim/trace/sim_trace.h"
#include "tests/tap.h"

/* A member of an interval of the JCT in a run; run 2: of the ratio. */
static double number(const struct run_replicates *r, size_t run,
                     const char *what)
{
    json_t *o = run_replicates_json(r);
    const json_t *figures =
        run == 2 ? json_object_get(o, "last_by_first")
                 : json_array_get(json_object_get(o, "runs"), run);
    double v = json_number_value(
        json_object_get(json_object_get(figures, "jct_avg_s"), what));

    json_decref(o);
    return v;
}

static void make(struct run_replicates *r, size_t n, size_t n_runs,
                 const double *jct_s)
{
    struct error err = ERROR_INIT;

    if (run_replicates_create(n, n_runs, r, &err) < 0) {
        (void)printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    for (size_t run = 0; run < n_runs; run++)
        for (size_t k = 0; k < n; k++) {
            struct run_figures one = {.jct_s = {.avg = jct_s[run * n + k]}};
            run_replicates_add(r, k, run, &one);
        }
}

/* Of n values that are 1 and -1 in turn the mean is 0, or 1 / n of an odd n,
 * and their squares are 1.
 * src  of t, two-sided, 95 %: Abramowitz, Stegun, table 26.10 */
static void test_t(void)
{
    static const struct {
        size_t n;
        double t;
    } rows[] = {{2, 12.706}, {3, 4.303},  {4, 3.182},  {5, 2.776}, {6, 2.571},
                {11, 2.228}, {20, 2.093}, {31, 2.042}, {61, 2.0},  {120, 1.98}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run_replicates r;
        double v[120], n = (double)rows[i].n;
        double mean = rows[i].n % 2 == 0 ? 0 : 1 / n;
        for (size_t k = 0; k < rows[i].n; k++)
            v[k] = k % 2 == 0 ? 1 : -1;
        make(&r, rows[i].n, 1, v);
        double t =
            (number(&r, 0, "high") - mean) / sqrt((1 - mean * mean) / (n - 1));
        ok(fabs(t - rows[i].t) < 6e-4, "t of %zu replicates: %.4f", rows[i].n,
           t);
        run_replicates_clear(&r);
    }
}

/* 10, 20, 30 and 15, 20, 45: the ratios are 1.5, 1 and 1.5. */
static void test_intervals(void)
{
    static const double jct_s[] = {10, 20, 30, 15, 20, 45};
    struct run_replicates r;

    make(&r, 3, 2, jct_s);
    ok(fabs(number(&r, 0, "mean") - 20) < 1e-12 &&
           fabs(number(&r, 0, "high") - 20 - 4.302653 * 10 / sqrt(3)) < 1e-5,
       "20 +- t s / sqrt(n): %g", number(&r, 0, "high"));
    ok(fabs(number(&r, 2, "mean") - 1.0 / 3) < 1e-12 &&
           fabs(number(&r, 2, "low") - 1.0 / 3 +
                4.302653 * sqrt(1.0 / 12) / sqrt(3)) < 1e-5,
       "the ratio is that of each replicate: %g", number(&r, 2, "low"));
    run_replicates_clear(&r);
}

enum { N = 2000 };
static struct sim_job jobs[N], drawn[2][N];

static void test_draw(void)
{
    double same = 0, mean = 0;
    size_t i;

    for (i = 0; i < N; i++)
        jobs[i].submit_s = 100 + (double)(i / 2) * 10; /* pairs */
    sim_trace_draw(jobs, N, 7, drawn[0]);
    sim_trace_draw(jobs, N, 7, drawn[1]);
    ok(memcmp(drawn[0], drawn[1], sizeof(drawn[0])) == 0,
       "the same seed gives the same arrivals");
    sim_trace_draw(jobs, N, 8, drawn[1]);
    ok(drawn[0][0].submit_s == 100 &&
           fabs(drawn[0][N - 1].submit_s - jobs[N - 1].submit_s) < 1e-9,
       "the first and the last stay");
    for (i = 1; i < N && drawn[0][i].submit_s >= drawn[0][i - 1].submit_s; i++)
        same += drawn[0][i].submit_s == drawn[1][i].submit_s;
    is_int((long long)i, N, "the order stays");
    is_int((long long)same, 3, "another seed gives others but these two pairs");
    for (i = 0; i + 1 < N && drawn[0][i].submit_s == drawn[0][i + 1].submit_s;
         i += 2)
        ;
    is_int((long long)i, N, "what came at once still does");
    /* An exponential gap is longer than its mean with probability 1/e; of 999
     * that is a binomial with a deviation of 0.0153. */
    for (i = 2; i < N; i += 2)
        mean += drawn[0][i].submit_s - drawn[0][i - 1].submit_s > 10;
    ok(fabs(mean / 999 - exp(-1)) < 5 * 0.0153,
       "gaps are exponential: %g of them above the mean", mean / 999);
    for (i = 0; i < N; i++)
        jobs[i].submit_s = 5;
    sim_trace_draw(jobs, N, 7, drawn[0]);
    ok(drawn[0][N - 1].submit_s == 5, "jobs of one moment stay there");
    sim_trace_draw(jobs, 0, 7, drawn[0]);
}

int main(void)
{
    test_t();
    test_intervals();
    test_draw();
    return tap_done();
}
