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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/gemm_dnnl.h"
#include "kernels/host_cpu.h"

static const char library[] = "libopenblas.so.0";
static const char core_type[] = "OPENBLAS_CORETYPE";

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

/* Sets ret->note where a core type fails that the processor should have.
 * Returns the one to ask for; NULL: what OpenBLAS chooses is right, or nothing
 * is better. */
static const char *choose(struct blas *ret)
{
    const struct host_cpu cpu = host_cpu();
    const enum blas_level want = host_cpu_level(cpu);
    const char *cores[BLAS_CORES];
    const size_t n = host_cpu_cores(cpu, cores);
    char got[BLAS_CORE_CAP];

    if (n == 0 || (blas_probe(library, NULL, got, NULL) == 0 &&
                   host_cpu_core_level(got) == want))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        struct error why = ERROR_INIT;
        if (blas_probe(library, cores[i], got, &why) < 0)
            (void)snprintf(ret->note, sizeof(ret->note), "%.200s", why.msg);
        else if (host_cpu_core_level(got) == host_cpu_core_level(cores[i]))
            return cores[i];
    }
    return NULL;
}

static void describe(void *lib, bool is_users, struct blas *ret)
{
    const enum blas_level has = host_cpu_level(host_cpu());
    char *(*text)(void);
    struct error err = ERROR_INIT;
    if (find(lib, "openblas_get_config", &text, &err) == 0)
        (void)sscanf(text(), "OpenBLAS %31s", ret->version);
    if (find(lib, "openblas_get_corename", &text, &err) == 0)
        (void)snprintf(ret->core, sizeof(ret->core), "%s", text());
    const enum blas_level is = host_cpu_core_level(ret->core);
    if (is < has && ret->note[0] == '\0')
        (void)snprintf(ret->note, sizeof(ret->note),
                       "%s, and the processor has %s%s",
                       host_cpu_level_name(is), host_cpu_level_name(has),
                       is_users ? ": unset OPENBLAS_CORETYPE" : "");
}

/* OpenBLAS reads its environment while it is opened. */
static void *open_with(const char *core)
{
    if (core != NULL)
        (void)setenv(core_type, core, 1); /* else it is opened without */
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (core != NULL)
        (void)unsetenv(core_type); /* what this process starts chooses again */
    return lib;
}

static int open_library(struct blas *ret, struct error *err)
{
    const char *users = getenv(core_type);
    bool is_users = users != NULL && users[0] != '\0';
    if (check_room(err) < 0)
        return -1;
    void *lib = open_with(is_users ? NULL : choose(ret));
    if (lib == NULL)
        return error_set(err, ERR_UNAVAIL,
                         "OpenBLAS cannot be opened, install "
                         "libopenblas0-openmp: %s",
                         dlerror());
    if (find(lib, "cblas_sgemm", &ret->sgemm, err) < 0 ||
        find(lib, "cblas_dgemm", &ret->dgemm, err) < 0 ||
        find(lib, "openblas_set_num_threads", &ret->set_num_threads, err) < 0)
        return -1; /* it stays: its threads may run */
    describe(lib, is_users, ret);
#if HAVE_DNNL
    gemm_dnnl_open();
#endif
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

void blas_describe(char *buf, size_t cap)
{
    char narrow[128] = "";
#if HAVE_DNNL
    gemm_dnnl_describe(narrow, sizeof(narrow));
#endif
    (void)snprintf(buf, cap, "OpenBLAS %s with core type %s%s%s%s%s",
                   blas.version, blas.core, blas.note[0] ? " (" : "", blas.note,
                   blas.note[0] ? ")" : "", narrow);
}
