/* device.c - what every device shares: dtypes and the shape of a GEMM. */
#include "kernels/device.h"

#include "kernels/exec_device.h"

static const struct {
    const char *name;
    size_t bytes, acc_bytes;
} dtypes[DT_N] = {
    [DT_F64] = {"fp64", 8, 8},
    [DT_F32] = {"fp32", 4, 4},
};

size_t dtype_bytes(enum dtype dt)
{
    return dtypes[dt].bytes;
}

size_t dtype_acc_bytes(enum dtype dt)
{
    return dtypes[dt].acc_bytes;
}

const char *dtype_name(enum dtype dt)
{
    return dtypes[dt].name;
}
