/* blas_host.c - see blas_host.h.
 *
 * mgpu-worker starts any command. Were OpenBLAS linked, its constructor would
 * run in each of them before main(): it costs time, and where RLIMIT_AS leaves
 * it no room it tries for ever. The name is that of Debian's alternatives,
 * which a program that links it asks for, too. */
#include "kernels/blas_host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static const char library[] = "libopenblas.so.0";

/* The library and those that it links have 45 MiB, and its constructor takes a
 * buffer of 32 MiB, or of 128 MiB for some processors. */
static const size_t room_bytes = (size_t)256 << 20;

static int check_room(struct error *err)
{
    void *p = mmap(NULL, room_bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return error_set(err, ERR_NOMEM,
                         "OpenBLAS needs %zu MiB of address space: raise "
                         "ulimit -v",
                         room_bytes >> 20);
    (void)munmap(p, room_bytes);
    return 0;
}

/* ISO C has no cast from an object to a function pointer. */
static int find(void *lib, const char *name, void *ret, struct error *err)
{
    void *symbol = dlsym(lib, name);
    if (symbol == NULL)
        return error_set(err, ERR_UNAVAIL, "OpenBLAS: %s", dlerror());
    memcpy(ret, &symbol, sizeof(symbol));
    return 0;
}

/* What OpenBLAS reads from its environment it reads while it is opened: whoever
 * has to choose that for it does so here, before dlopen(). */
static int open_library(struct blas *ret, struct error *err)
{
    if (check_room(err) < 0)
        return -1;
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL)
        return error_set(err, ERR_UNAVAIL,
                         "OpenBLAS cannot be opened, install "
                         "libopenblas0-openmp: %s",
                         dlerror());
    if (find(lib, "cblas_sgemm", &ret->sgemm, err) < 0 ||
        find(lib, "cblas_dgemm", &ret->dgemm, err) < 0 ||
        find(lib, "openblas_set_num_threads", &ret->set_num_threads, err) < 0)
        return -1; /* it stays: its threads may run */
    return 0;
}

/* A process has one library. */
static struct blas blas;

int blas_open(struct error *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_open;
    (void)pthread_mutex_lock(&lock);
    int rc = is_open ? 0 : open_library(&blas, err);
    is_open = is_open || rc == 0;
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

const struct blas *blas_opened(void)
{
    return &blas;
}
