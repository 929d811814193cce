/* dtype.h - the types that numbers are stored in, on every device.
 *
 * T is the storage type, A its accumulator type: f64 for f64, f32 for the
 * others. */
#ifndef MGPU_KERNELS_DTYPE_H
#define MGPU_KERNELS_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype { DT_F64, DT_F32, DT_F16, DT_BF16, DT_N };

size_t dtype_bytes(enum dtype dt);        /* of T */
enum dtype dtype_acc(enum dtype dt);      /* A */
size_t dtype_acc_bytes(enum dtype dt);    /* of A */
const char *dtype_name(enum dtype dt);    /* "fp64", "fp32", "fp16", "bf16" */
enum dtype dtype_named(const char *name); /* DT_N: no such type */

/* Reads value i of an array of T in host memory, which need not be aligned.
 * dtype_set() rounds to the nearest, ties to even. */
double dtype_get(enum dtype dt, const void *p, int64_t i);
void dtype_set(enum dtype dt, void *p, int64_t i, double v);

#ifdef __cplusplus
}
#endif
#endif
