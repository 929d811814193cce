/* device.c - functions shared by all devices: dtypes and their conversion. */
#include "kernels/device.h"

#include <string.h>

#include "kernels/exec/exec_device.h"
#include "kernels/exec/half.h"

static const struct {
    const char *name;
    size_t bytes;
    enum dtype acc;
} dtypes[DT_N] = {
    [DT_F64] = {"fp64", 8, DT_F64},
    [DT_F32] = {"fp32", 4, DT_F32},
    [DT_F16] = {"fp16", 2, DT_F32},
    [DT_BF16] = {"bf16", 2, DT_F32},
};

size_t dtype_bytes(enum dtype dt)
{
    return dtypes[dt].bytes;
}

enum dtype dtype_acc(enum dtype dt)
{
    return dtypes[dt].acc;
}

size_t dtype_acc_bytes(enum dtype dt)
{
    return dtypes[dtypes[dt].acc].bytes;
}

const char *dtype_name(enum dtype dt)
{
    return dtypes[dt].name;
}

enum dtype dtype_named(const char *name)
{
    int dt = 0;

    while (dt < DT_N && strcmp(name, dtypes[dt].name) != 0)
        dt++;
    return (enum dtype)dt;
}

double dtype_get(enum dtype dt, const void *p, int64_t i)
{
    const char *at = (const char *)p + (size_t)i * dtype_bytes(dt);
    double d;
    float f;
    uint16_t h;

    switch (dt) {
    case DT_F64:
        memcpy(&d, at, sizeof(d));
        return d;
    case DT_F32:
        memcpy(&f, at, sizeof(f));
        return (double)f;
    default:
        memcpy(&h, at, sizeof(h));
        return (double)(dt == DT_F16 ? f16_to_float(h) : bf16_to_float(h));
    }
}

void dtype_set(enum dtype dt, void *p, int64_t i, double v)
{
    char *at = (char *)p + (size_t)i * dtype_bytes(dt);
    float f = (float)v;
    uint16_t h;

    switch (dt) {
    case DT_F64:
        memcpy(at, &v, sizeof(v));
        return;
    case DT_F32:
        memcpy(at, &f, sizeof(f));
        return;
    default:
        h = dt == DT_F16 ? f16_of_float(half_odd(v))
                         : bf16_of_float(half_odd(v));
        memcpy(at, &h, sizeof(h));
    }
}
