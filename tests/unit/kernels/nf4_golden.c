/* nf4_golden.c - weights in four bits against torchao: every byte.
 *
 * tests/golden/qlora.py says what was computed; the tensors are drawn here as
 * it draws them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/golden/device_hash.h"
#include "tests/golden/golden.h"

enum { MEMORY = 1 << 20 };

static const int32_t shapes[][2] = {{64, 256},  {128, 128}, {16, 1024},
                                    {192, 256}, {96, 512},  {1024, 48}};

static void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

static void draw(uint32_t number, int64_t n, enum dtype dt, void *out)
{
    struct rng rng;
    rng_seed(&rng, number);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += rng_uniform(&rng);
        const double v = (sum - 2) * (double)(1 + i / NF4_BLOCK % 7) / 64;
        dtype_set(dt, out, i, rint(v * 32768) / 32768);
    }
}

static void test(struct device *d, const struct golden *g, int which,
                 enum dtype dt)
{
    struct error err = ERROR_INIT;
    const int32_t *s = shapes[which];
    const int64_t n = (int64_t)s[0] * s[1], blocks = n / NF4_BLOCK;
    const size_t size = dtype_bytes(dt);
    double v[9];
    char line[80];
    void *mem = NULL, *host = malloc((size_t)n * size);
    must(d->ops->alloc(d, MEMORY, &mem, &err), &err);
    char *w = mem, *codes = w + (size_t)n * size;
    const struct nf4 q = {.n = n,
                          .codes = (uint8_t *)codes,
                          .scalers = (int8_t *)codes + n / 2,
                          .factors = codes + n / 2 + blocks,
                          .mean = codes + n};
    draw((uint32_t)which, n, dt, host);
    must(d->ops->to_device(d, w, host, (size_t)n * size, &err), &err);
    must(d->ops->llm.nf4_quantise(d, dt, &q, w, &err), &err);
    must(d->ops->llm.nf4_expand(d, dt, w, &q, &err), &err);
    device_hash(d, q.codes, (size_t)n / 2, v);
    device_hash(d, q.scalers, (size_t)blocks, v + 2);
    device_hash(d, q.factors, (size_t)(blocks / NF4_GROUP) * size, v + 4);
    device_hash(d, w, (size_t)n * size, v + 6);
    must(d->ops->to_host(d, host, q.mean, size, &err), &err);
    v[8] = dtype_get(dt, host, 0);
    (void)snprintf(line, sizeof(line), "nf4 %dx%d %s", s[0], s[1],
                   dtype_name(dt));
    golden_is(g, line, v, 9, 0);
    d->ops->release(d, mem);
    free(host);
}

int main(void)
{
    struct error err = ERROR_INIT;
    struct device *d = NULL;
    struct golden g;
    must(device_host_create(1, &d, &err), &err);
    golden_open(&g, "tests/golden/qlora.txt");
    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++) {
        test(d, &g, i, DT_F32);
        test(d, &g, i, DT_BF16);
    }
    golden_close(&g);
    d->ops->destroy(d);
    return tap_done();
}
