/* device.c - the host device keeps the contract of kernels/device.h, for
 * every number of threads: all shapes with two, but under a sanitizer; with one
 * at night ($MGPU_TEST_ALL). */
#include "kernels/device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/slow.h"
#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void test_contract(int32_t threads, const char *name, bool small)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    if (!ok(device_host_create(threads, &d, &err) == 0, "%s: %s", name,
            err.msg))
        return;
    contract_device(d, name, small);
    d->ops->destroy(d);
}

static void test_create(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;

    ok(device_host_create(-1, &d, &err) == -1 && err.code == ERR_INVAL && !d,
       "a negative number of threads is refused: %s", err.msg);
    ok(device_host_create(1025, &d, &err) == -1 && err.code == ERR_INVAL && !d,
       "too many threads are refused: %s", err.msg);
    ok(device_host_create(0, &d, &err) == 0 && d && d->threads >= 1,
       "0 threads: as many as there are");
    ok(d->host_memory && strcmp(d->ops->name, "host") == 0,
       "the host device says what it is");
    ok(!d->ops->stream, "the host has no stream");
    d->ops->destroy(d);
    /* The table is the same for all. */
    ok(device_host_create(1, &d, &err) == 0, "a device with one thread");
    void (*destroy)(struct device *) = d->ops->destroy;
    destroy(d);
    destroy(NULL);
    is_str(dtype_name(DT_F64), "fp64", "the name of DT_F64");
    is_str(dtype_name(DT_F32), "fp32", "the name of DT_F32");
    is_int((long long)dtype_bytes(DT_F32), 4, "the size of DT_F32");
    is_int((long long)dtype_acc_bytes(DT_F32), 4, "its accumulator's");
    is_str(dtype_name(DT_F16), "fp16", "the name of DT_F16");
    is_str(dtype_name(DT_BF16), "bf16", "the name of DT_BF16");
    is_int(dtype_named("bf16"), DT_BF16, "bf16 by its name");
    is_int(dtype_named("int8"), DT_N, "a name that is none");
    is_int((long long)dtype_bytes(DT_F16), 2, "the size of DT_F16");
    is_int((long long)dtype_acc_bytes(DT_BF16), 4, "bf16 is summed in fp32");
}

/* What the host counts: one of each, and nothing once nobody wants it. */
static void test_count(void)
{
    struct device *d = NULL;
    struct error err = ERROR_INIT;
    struct device_count n[DEVICE_WORK_N] = {{.calls = 0}};
    float x[4] = {1, 2, 3, 4};
    void *p = NULL;
    ok(device_host_create(1, &d, &err) == 0 &&
           d->ops->alloc(d, sizeof(x), &p, &err) == 0,
       "a device that counts");
    for (int on = 1; on >= 0; on--) {
        d->ops->count(d, on ? n : NULL);
        ok(d->ops->to_device(d, p, x, sizeof(x), &err) == 0 &&
               d->ops->add(d, DT_F32, p, p, 4, &err) == 0 &&
               d->ops->gemm(d, DT_F32, false, false, 2, 2, 2, 1, x, 2, x, 2, 0,
                            p, 2, &err) == 0 &&
               d->ops->copy(d, x, p, 8, &err) == 0 &&
               d->ops->to_host(d, x, p, 4, &err) == 0,
           on ? "works while it is counted" : "and after that");
    }
    for (int i = 0; i < DEVICE_WORK_N; i++)
        ok(n[i].calls == 1 && n[i].total_s >= 0, "work %d counts once", i);
    is_int(n[DEVICE_TO_DEVICE].bytes, 16, "bytes to the device");
    is_int(n[DEVICE_COPY].bytes, 8, "on it");
    is_int(n[DEVICE_TO_HOST].bytes, 4, "and back");
    d->ops->release(d, p);
    d->ops->destroy(d);
}

int main(void)
{
    test_create();
    test_count();
    const bool is_night = getenv("MGPU_TEST_ALL") != NULL;
    test_contract(1, "host/1", !is_night);
    test_contract(2, "host/2", is_slow);
    test_contract(5, "host/5", true);
    /* Where there are two builds, the one for every machine, too. */
    if (HAVE_WIDE) {
        (void)setenv("MGPU_HOST_SIMD", "256", 1);
        test_contract(1, "host/1/256", is_slow);
    }
    return tap_done();
}
