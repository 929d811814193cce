/* blas_host.h - OpenBLAS, opened when a device of the host is made. */
#ifndef MGPU_KERNELS_BLAS_HOST_H
#define MGPU_KERNELS_BLAS_HOST_H

#include <cblas.h>

#include "jobs/base/error.h"

struct blas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
    __typeof__(openblas_set_num_threads) *set_num_threads;
};

/* Opens it, the first time, and never closes it; any thread may call.
 * err  ERR_UNAVAIL it is not there, or no such library; ERR_NOMEM the address
 *      space has no room for it (ulimit -v) */
int blas_open(struct error *err) MUST_CHECK;
/* After that. */
const struct blas *blas_opened(void);

#endif
