/* tensor.c - the emulator's tensor cores and copies keep to the PTX ISA.
 *
 * Products are compared with plain loops over the matrices. Fragments are made
 * element by element, from the tables of the PTX ISA, and by ldmatrix, which
 * has to agree with them.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/simt/simt_device.h"
#include "tests/tap.h"

enum { M = 16, N = 8, K = 16, LANES = 64, LINES = 5 };

static void test_products(enum dtype dt, const char *order)
{
    static const char *const hows[] = {"element by element", "by ldmatrix",
                                       "by ldmatrix, transposed"};
    static uint16_t A[2 * M * K], B[2 * K * N];
    static float C[2 * M * N], d[2 * M * N];
    struct rng r;

    rng_seed(&r, 7);
    for (int i = 0; i < 2 * M * K; i++)
        dtype_set(dt, A, i, rng_uniform(&r) - 0.5);
    for (int i = 0; i < 2 * K * N; i++)
        dtype_set(dt, B, i, rng_uniform(&r) - 0.5);
    for (int i = 0; i < 2 * M * N; i++)
        C[i] = (float)(rng_uniform(&r) - 0.5);
    for (int how = 0; how < 3; how++) {
        double worst = 0;
        int rc = simt_try_product(dt == DT_BF16, how, d, A, B, C);
        for (int i = 0; i < 2 * M * N; i++) {
            int w = i / (M * N), m = i / N % M, n = i % N;
            double s = C[i];
            for (int k = 0; k < K; k++)
                s += dtype_get(dt, A, w * M * K + m * K + k) *
                     dtype_get(dt, B, w * K * N + k * N + n);
            worst = fmax(worst, fabs(s - (double)d[i]));
        }
        /* Sums of 16 below 4, rounded to fp32. */
        ok(rc == 0 && worst <= 3e-7, "%s: %s, %s: %.1e", order, dtype_name(dt),
           hows[how], worst);
    }
}

static bool is_sum(const float *out, const float *x)
{
    bool all = true;

    for (int i = 0; i < LANES; i++) {
        float s = 0;
        for (int n = 0; n < LINES; n++)
            for (int k = 0; k < (n + 1 < LINES ? 4 : 2); k++)
                s += x[(n * LANES + LANES - 1 - i) * 4 + k];
        all = all && out[i] == s;
    }
    return all;
}

static void test_copies(bool reverse, const char *order)
{
    _Alignas(16) static float x[LINES * LANES * 4];
    float out[LANES] = {0};

    for (int i = 0; i < LINES * LANES * 4; i++)
        x[i] = (float)i; /* sums are exact */
    ok(simt_try_copies(0, out, x, LINES) == 0 && is_sum(out, x),
       "%s: copies, and zeros behind the half of the last", order);
    /* A copy is as late as it may be, or as early: each finds one. */
    int rc = simt_try_copies(1, out, x, LINES);
    ok(rc == 0 && is_sum(out, x) == reverse,
       "%s: a missing wait shows if copies are late", order);
    rc = simt_try_copies(2, out, x, LINES);
    ok(rc != 0, "%s: a copy of no group is never waited for", order);
    rc = simt_try_copies(3, out, x, LINES);
    ok(rc == 0 && is_sum(out, x) != reverse,
       "%s: a line that is copied over too soon shows if they are early",
       order);
    ok(simt_try_copies(4, out, x, LINES) != 0, "%s: an odd address is a fault",
       order);
}

static void test_misled(const char *order)
{
    static const char *const hows[] = {
        "a lane that misses a product", "one that loads a matrix meanwhile",
        "a row at an odd address", "a copy that is not waited for"};
    float out[LANES] = {0};

    for (int how = 0; how < 4; how++)
        ok(simt_try_misled(how, out) != 0, "%s: %s is a fault", order,
           hows[how]);
}

int main(void)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        const char *order = reverse ? "reversed" : "forward";
        struct device *d = NULL;
        /* The device sets the order in which the lanes run. */
        if (!ok(device_simt_create(LANES, reverse != 0, &d, NULL) == 0,
                "a device"))
            continue;
        test_products(DT_F16, order);
        test_products(DT_BF16, order);
        test_copies(reverse != 0, order);
        test_misled(order);
        d->ops->destroy(d);
    }
    return tap_done();
}
