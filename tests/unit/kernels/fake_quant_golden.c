/* fake_quant_golden.c - what four and eight bits leave of weights and
 * activations, against torchao: every byte.
 *
 * tests/golden/qat.py says what was computed; the tensors are drawn here as it
 * draws them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/golden/device_hash.h"
#include "tests/golden/golden.h"

/* Rows, columns, the columns of a group. */
static const int32_t shapes[][3] = {{64, 256, 256}, {48, 512, 256},
                                    {40, 96, 32},   {33, 40, 8},
                                    {7, 172, 172},  {16, 1024, 128}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]), MEMORY = 1 << 20 };

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

static void draw(uint32_t number, int64_t n, int32_t cols, enum dtype dt,
                 void *out)
{
    struct rng rng;
    rng_seed(&rng, number);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += rng_uniform(&rng);
        const double v = rint((sum - 2) * 32768) / 32768;
        const int64_t r = i / cols % 7;
        dtype_set(dt, out, i,
                  r == 1   ? fabs(v)
                  : r == 2 ? -fabs(v)
                  : r == 3 ? 0
                  : r == 4 ? v / (1 << 24)
                  : r == 5 ? v * 512
                           : v / 8);
    }
}

static void test(struct device *d, const struct golden *g, int which,
                 enum dtype dt)
{
    struct error err = ERROR_INIT;
    const int32_t *s = shapes[which];
    const int64_t n = (int64_t)s[0] * s[1];
    const size_t bytes = (size_t)n * dtype_bytes(dt);
    double v[2];
    char line[80];
    void *mem = NULL, *host = malloc(bytes);
    must(d->ops->alloc(d, MEMORY, &mem, &err), &err);
    char *x = mem, *y = x + bytes;
    draw((uint32_t)which, n, s[1], dt, host);
    must(d->ops->to_device(d, x, host, bytes, &err), &err);
    must(d->ops->llm.round_int4(d, dt, y, x, n, s[2], &err), &err);
    device_hash(d, y, bytes, v);
    (void)snprintf(line, sizeof(line), "int4 %dx%d/%d %s", s[0], s[1], s[2],
                   dtype_name(dt));
    golden_is(g, line, v, 2, 0);
    must(d->ops->llm.round_int8(d, dt, y, x, s[0], s[1], &err), &err);
    device_hash(d, y, bytes, v);
    (void)snprintf(line, sizeof(line), "int8 %dx%d %s", s[0], s[1],
                   dtype_name(dt));
    golden_is(g, line, v, 2, 0);
    d->ops->release(d, mem);
    free(host);
}

int main(void)
{
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct golden g;
    size_t n;
    must(device_host_create(1, &d, &err), &err);
    golden_open(&g, "tests/golden/qat.txt");
    for (int i = 0; i < SHAPES; i++) {
        test(d, &g, i, DT_F32);
        test(d, &g, i, DT_F16);
        test(d, &g, i, DT_BF16);
    }
    double *bent = golden_get(&g, "straight", &n);
    ok(n == 1 && bent[0] == 0, "torchao's gradients are straight through");
    free(bent);
    golden_close(&g);
    d->ops->destroy(d);
    return tap_done();
}
