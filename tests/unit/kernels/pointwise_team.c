/* pointwise_team.c - a 1x1 convolution of the host, whose threads share parts
 * of one operation: it counts as one kernel whoever has a part, and where there
 * is one part the others take no memory. */
#include <stdlib.h>

#include "kernels/exec/exec_device.h"
#include "tests/tap.h"

enum { C = 24, MANY = 16384, FEW = 200, ARRAYS = 6, COLUMNS = 8 };

static void must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    tap_diag("%s", err->msg);
    abort();
}

static float *values(int64_t n)
{
    float *ret = malloc((size_t)n * sizeof(*ret));
    if (ret == NULL)
        abort();
    for (int64_t i = 0; i < n; i++)
        ret[i] = (float)(i % 7 + 1) / 8;
    return ret;
}

/* Forward with statistics, a skip and its sum, then backward. */
static void work(struct device *d, int64_t rows)
{
    struct error err = ERROR_INIT;
    float *a[ARRAYS], *c[COLUMNS], *w = values((int64_t)C * C);
    for (int i = 0; i < ARRAYS; i++)
        a[i] = values(rows * C);
    for (int i = 0; i < COLUMNS; i++)
        c[i] = values((int64_t)2 * C);
    const struct norm_stats stats = {c[0], c[1], c[2], c[3], 1e-5, 0.1};
    const struct norm norm = {c[0], c[1], c[4], c[5], 6};
    const struct norm_grad out = {c[6], c[4], c[5]};
    must(d->ops->pw_fwd(d, DT_F32, a[0], &stats, a[1], a[2], &norm, a[3], w,
                        rows, C, C, &err),
         &err);
    must(d->ops->pw_bwd(d, DT_F32, a[4], w, &out, a[5], a[0], &norm, c[7], a[1],
                        a[2], &norm, NULL, w, rows, C, C, &err),
         &err);
    for (int i = 0; i < ARRAYS; i++)
        free(a[i]);
    for (int i = 0; i < COLUMNS; i++)
        free(c[i]);
    free(w);
}

/* Kernels that it counts as, and bytes of scratch. */
static int64_t counted(int32_t threads, int64_t rows, size_t *ret_bytes)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    struct device_count n[DEVICE_WORK_N] = {{.calls = 0}};
    must(device_host_create(threads, &d, &err), &err);
    d->ops->count(d, n);
    work(d, rows);
    d->ops->count(d, NULL);
    *ret_bytes = ((const struct exec_device *)d)->scratch_bytes;
    d->ops->destroy(d);
    return n[DEVICE_KERNEL].calls;
}

int main(void)
{
    size_t one = 0, eight = 0;
    const int64_t calls = counted(1, MANY, &one);
    ok(calls > 0, "a 1x1 convolution counts as %lld kernels", (long long)calls);
    is_int(counted(1, 2 * MANY, &one), calls, "of twice the pixels as many");
    is_int(counted(4, 2 * MANY, &one), calls, "and on four threads");
    is_int(counted(1, FEW, &one), counted(8, FEW, &eight),
           "of few pixels on eight threads as many as on one");
    is_int((int64_t)eight, (int64_t)one, "and with as much scratch");
    return tap_done();
}
