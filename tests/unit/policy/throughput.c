/* throughput.c - means, outliers, the curve, and the rate of each size. */
#include <math.h>
#include <string.h>

#include "scheduler/policy/throughput.h"
#include "tests/tap.h"

static bool is_near(double got, double want, double part)
{
    if (fabs(got - want) <= part * fabs(want))
        return true;
    tap_diag("got %.6g, want %.6g", got, want);
    return false;
}

static void test_means(void)
{
    struct throughput m = {.n = 0};

    ok(throughput_largest(&m) == 0, "a class that never ran has no size");
    ok(isnan(throughput_rate(&m, 1, 1).per_s), "and no rate");
    throughput_add(&m, 1, 1, 2.0, 1);
    throughput_add(&m, 1, 1, 4.0, 1);
    ok(is_near(m.rows[0].mean_s, 3, 1e-12), "the mean of two");
    ok(is_near(m.rows[0].var_s2, 1, 1e-12), "and their variance");
    throughput_add(&m, 1, 1, 3.0, 2);
    ok(m.rows[0].n == 4 && is_near(m.rows[0].mean_s, 3, 1e-12) &&
           is_near(m.rows[0].var_s2, 0.5, 1e-12),
       "iterations weigh by their number");
    throughput_add(&m, 1, 1, NAN, 1);
    throughput_add(&m, 1, 1, 0, 1);
    throughput_add(&m, 1, 1, -1, 1);
    throughput_add(&m, 1, 1, INFINITY, 1);
    throughput_add(&m, 0, 1, 1, 1);
    throughput_add(&m, 1, 1, 1, 0);
    ok(m.n == 1 && m.rows[0].n == 4, "what is no time is not noted");
}

static void test_robust(void)
{
    struct throughput m = {.n = 0};

    for (int i = 0; i < 50; i++)
        throughput_add(&m, 1, 2, i % 2 ? 1.0 : 1.02, 1);
    throughput_add(&m, 1, 2, 500, 1);
    ok(is_near(m.rows[0].mean_s, 1.01, 0.005), "one outlier moves nothing");
    for (int i = 0; i < 3000; i++)
        throughput_add(&m, 1, 2, 2.0, 1);
    ok(is_near(m.rows[0].mean_s, 2, 0.01), "a lasting change is followed");
}

static void test_assumed(void)
{
    struct throughput m = {.n = 0};

    throughput_add(&m, 1, 4, 0.5, 10);
    throughput_add(&m, 1, 2, 0.8, 10);
    ok(m.rows[0].per_node == 2 && m.rows[1].per_node == 4, "by size");
    ok(throughput_largest(&m) == 4, "the largest");
    struct throughput_rate r = throughput_rate(&m, 1, 2);
    ok(r.basis == RATE_MEASURED && r.n == 10 && is_near(r.per_s, 1.25, 1e-12),
       "measured");
    r = throughput_rate(&m, 2, 4);
    ok(r.basis == RATE_ASSUMED && is_near(r.per_s, 4, 1e-12),
       "above: scales perfectly from the largest below");
    r = throughput_rate(&m, 1, 3);
    ok(r.basis == RATE_ASSUMED && is_near(r.per_s, 1.875, 1e-12),
       "between: from the one below");
    r = throughput_rate(&m, 1, 1);
    ok(is_near(r.per_s, 0.625, 1e-12), "below all: down from the smallest");
    is_str(throughput_basis_name(r.basis), "assumed", "its name");

    struct throughput weak = {.is_weak = true};
    throughput_add(&weak, 1, 4, 0.5, 10);
    ok(is_near(throughput_rate(&weak, 1, 4).per_s, 8, 1e-12),
       "a batch per GPU: more samples in an iteration");
}

/* T(g) of the curve with known parameters. */
static double truth(int32_t nodes, int32_t per_node)
{
    double g = nodes * per_node, grad = 0.05 + 1.2 / g;
    double sync = g == 1       ? 0
                  : nodes == 1 ? 0.04 + 0.004 * (g - 2)
                               : 0.09 + 0.003 * (g - 2);
    return pow(pow(grad, 1.8) + pow(sync, 1.8), 1 / 1.8);
}

static void test_fit(void)
{
    static const int32_t sizes[][2] = {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 4}};
    struct throughput m = {.n = 0};
    double worst = 0;

    throughput_add(&m, 1, 1, truth(1, 1), 20);
    throughput_add(&m, 1, 2, truth(1, 2), 20);
    ok(!m.is_fitted, "two sizes are no curve");
    for (size_t i = 2; i < 5; i++)
        throughput_add(&m, sizes[i][0], sizes[i][1],
                       truth(sizes[i][0], sizes[i][1]), 20);
    ok(m.is_fitted, "five are");
    for (size_t i = 0; i < 5; i++)
        worst =
            fmax(worst, fabs(throughput_curve_s(&m, sizes[i][0], sizes[i][1]) /
                                 truth(sizes[i][0], sizes[i][1]) -
                             1));
    ok(worst < 0.02, "it goes through them");
    struct throughput_rate r = throughput_rate(&m, 1, 3);
    ok(r.basis == RATE_FITTED && is_near(r.per_s, 1 / truth(1, 3), 0.05),
       "and between them");
    r = throughput_rate(&m, 3, 4);
    ok(is_near(r.per_s, 1 / truth(3, 4), 0.05), "of nodes, too");
    ok(r.hoped_per_s >= r.per_s, "the hope is no less");
    for (int i = 0; i < 400; i++)
        throughput_add(&m, 4, 4, 2 * truth(4, 4), 20);
    ok(is_near(throughput_curve_s(&m, 4, 4), 2 * truth(4, 4), 0.15),
       "a size that is off is fitted again");
}

static void test_rows(void)
{
    struct throughput a = {.n = 0}, b = {.n = 0};
    struct throughput_row bad = {.nodes = 1, .per_node = 1, .n = 1};

    for (int32_t g = 1; g <= THROUGHPUT_SIZES + 5; g++)
        throughput_add(&a, 1, g, 1.0 / g + 0.01, 10);
    ok(a.n == THROUGHPUT_SIZES, "so many sizes are kept");
    bool is_set = true;
    for (int32_t i = a.n; i-- > 0;)
        is_set = throughput_set(&b, &a.rows[i]) && is_set;
    ok(is_set && a.n == b.n && memcmp(a.rows, b.rows, sizeof(a.rows)) == 0,
       "a model is read back from its rows");
    ok(!throughput_set(&b, &bad), "a row without a time is refused");
    bad.mean_s = 1;
    bad.per_node = 4 * THROUGHPUT_SIZES;
    ok(!throughput_set(&b, &bad), "so is one too many");
}

/* What another model knows of the same work: twice as slow on what both have
 * run on, and with a curve. */
static void test_borrow(void)
{
    static struct throughput m, from;

    throughput_add(&m, 1, 1, 2, 50);
    for (int32_t g = 1; g <= 4; g++)
        throughput_add(&from, 1, g, 0.1 + 0.9 / g, 50);
    double curve_s = throughput_curve_s(&from, 1, 8);
    throughput_borrow(&m, &from);
    is_int(m.n, 4, "it borrows the sizes that it lacks");
    ok(fabs(throughput_row(&m, 1, 1)->mean_s - 2) < 1e-9, "  keeps its own");
    ok(fabs(throughput_row(&m, 1, 2)->mean_s - 1.1) < 1e-9,
       "  and takes the others by as much longer");
    ok(m.is_fitted && fabs(throughput_curve_s(&m, 1, 8) / curve_s - 2) < 1e-6,
       "  as it takes the curve");

    struct throughput none = {.n = 0};
    throughput_borrow(&none, &from);
    ok(none.n == 4 && fabs(throughput_row(&none, 1, 2)->mean_s - .55) < 1e-9,
       "a model without sizes takes them as they are");
    struct throughput full = m;
    throughput_borrow(&full, &none);
    ok(memcmp(&full, &m, sizeof(m)) == 0, "and one with all of them nothing");
}

int main(void)
{
    test_means();
    test_robust();
    test_assumed();
    test_fit();
    test_rows();
    test_borrow();
    return tap_done();
}
