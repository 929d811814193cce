/* blas_host.h - OpenBLAS, opened when a device of the host is made, with the
 * best code that it has for the processor. */
#ifndef MGPU_KERNELS_BLAS_HOST_H
#define MGPU_KERNELS_BLAS_HOST_H

#include <cblas.h>

#include "jobs/base/error.h"
#include "kernels/blas_probe_host.h"

struct blas {
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
    __typeof__(openblas_set_num_threads) *set_num_threads;
    char version[32];         /* "0.3.21" */
    char core[BLAS_CORE_CAP]; /* the type of its code: "Haswell" */
    char note[256];           /* what a person should know of that, or "" */
};

/* Opens it, the first time, and never closes it. Where OpenBLAS itself takes
 * code for a poorer processor, as an older one does for a processor that it
 * does not know, the core type is chosen from the processor's features, and has
 * proven itself. $OPENBLAS_CORETYPE wins. Threads may call, but the first
 * call changes the environment for a moment, and forks: it comes before threads
 * that read the environment.
 * err  ERR_UNAVAIL it is not there, or no such library; ERR_NOMEM the address
 *      space has no room for it (ulimit -v) */
int blas_open(struct error *err) MUST_CHECK;
/* After that. */
const struct blas *blas_opened(void);
/* "OpenBLAS 0.3.21 with core type Haswell", its note in parentheses, and " and
 * oneDNN 2.6.3 with AVX2" where that is opened, too. */
void blas_describe(char *buf, size_t cap);

#endif
