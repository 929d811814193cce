/* blas_probe_host.h - try a core type of OpenBLAS in a process of its own,
 * where a crash costs nothing. */
#ifndef MGPU_KERNELS_BLAS_PROBE_HOST_H
#define MGPU_KERNELS_BLAS_PROBE_HOST_H

#include "jobs/base/error.h"

enum { BLAS_CORE_CAP = 32 };

/* Opens `library` in a child with $OPENBLAS_CORETYPE as `core`; there it
 * multiplies matrices of fp32 and of fp64, and must have what a plain loop has.
 * core  NULL: the library's own choice, which is believed: nothing is
 *       multiplied
 * ret   what it computes with then
 * err   ERR_EXTERN it crashed, hung, or computed wrong products; ERR_UNAVAIL it
 *       is not there, or no such library; ERR_NOMEM no process */
int blas_probe(const char *library, const char *core, char ret[BLAS_CORE_CAP],
               struct error *err) MUST_CHECK;

#endif
