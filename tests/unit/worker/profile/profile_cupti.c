/* profile_cupti.c - the source for GPUs, against a CUPTI of the test's, and
 * against the real one where it is installed, which has no GPU to look at. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/fake.h"
#include "tests/tap.h"
#include "worker/profile/profile.h"

#if HAVE_CUPTI
#include "worker/profile/compat_cupti.h"

static struct {
    void (*call)(const char *symbol, uint64_t start, uint64_t end);
    void (*copy)(uint8_t kind, uint64_t bytes, uint64_t start, uint64_t end);
    void (*kernel)(const char *symbol, uint64_t start, uint64_t end);
    int (*watched)(void);
} gpu;

static void open_gpu(const char *path)
{
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ok(lib != NULL, "the fake: %s", lib != NULL ? path : dlerror());
    if (lib == NULL)
        exit(tap_done());
    void *symbols[] = {
        dlsym(lib, "fake_cupti_call"), dlsym(lib, "fake_cupti_copy"),
        dlsym(lib, "fake_cupti_kernel"), dlsym(lib, "fake_cupti_watched")};
    memcpy(&gpu, symbols, sizeof(gpu));
}

static struct profile_source *open_source(const char *path)
{
    struct error err = ERROR_INIT;
    struct profile_source *s = NULL;
    ok(profile_cupti_create(path, &s, &err) == 0, "opens: %s", err.msg);
    return s;
}

static void refused(const char *path, const char *how, enum err_code code,
                    const char *text)
{
    struct error err = ERROR_INIT;
    struct profile_source *s = NULL;
    (void)setenv("FAKE_CUPTI", how, 1);
    ok(profile_cupti_create(path, &s, &err) == -1 && err.code == code &&
           strstr(err.msg, text) != NULL,
       "'%s': %s", how, err.msg);
    (void)unsetenv("FAKE_CUPTI");
}

static const struct profile_row *find(const struct profile_rows *rows,
                                      const char *metric)
{
    static const struct profile_row none = {.calls = -1};
    for (int32_t i = 0; i < rows->n; i++)
        if (strcmp(rows->at[i].metric, metric) == 0)
            return &rows->at[i];
    return &none;
}

static void is_row(const struct profile_rows *rows, const char *metric,
                   long long calls, double total_s, long long bytes)
{
    const struct profile_row *r = find(rows, metric);
    ok(r->calls == calls && r->bytes == bytes && r->total_s > total_s - 1e-12 &&
           r->total_s < total_s + 1e-12,
       "%s: %lld calls, %g s, %lld bytes", metric, (long long)r->calls,
       r->total_s, (long long)r->bytes);
}

/* Launches, copies and waits under the names that other versions have for
 * them; the numbers differ from those of the real library. */
static void work(void)
{
    gpu.call("__cudaLaunchKernel_v13000", 1000, 3000);
    gpu.call("__cudaLaunchKernel_ptsz_v13000", 1000, 2000);
    gpu.call("cudaLaunchKernel_v7000", 1000, 2000);
    gpu.call("cudaLaunchKernelExC_v11060", 1000, 2000);
    gpu.call("cudaMemcpyAsync_v3020", 0, 500);
    gpu.call("cudaMemcpyAsync_ptsz_v7000", 0, 500);
    gpu.call("cudaStreamSynchronize_v3020", 0, 1000000000);
    gpu.call("cudaEventSynchronize_v3020", 0, 250);
    gpu.call("cudaEventDestroy_v3020", 9, 9);
    gpu.call("cudaGraphLaunch_v10000", 0, 1000);
    gpu.call("cudaDriverGetVersion_v3020", 0, 1000);
    gpu.call("cudaLaunchKernelFake_v1", 0, 1000);
    gpu.copy(1 /* HTOD */, 4096, 0, 2000);
    gpu.copy(1 /* HTOD */, 1024, 0, 1000);
    gpu.copy(2 /* DTOH */, 8, 0, 1000);
    gpu.kernel("_Z21ncclDevKernel_Generic24ncclDevKernelArgsStorageILm4096EE",
               0, 1000);
    gpu.kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4>)",
               0, 3000);
    gpu.kernel("_Z3addPdS_", 0, 500);
    gpu.kernel("_Z3mulPdS_", 0, 500);
    gpu.kernel(NULL, 5, 0); /* a clock that went back */
}

static void test_counts(const char *path)
{
    struct error err = ERROR_INIT;
    struct profile_rows rows = {.n = 0};
    struct profile_source *s = open_source(path);
    work();
    ok(s->ops->take(s, &rows, &err) == 0 && rows.n == 0,
       "nothing before the start");
    struct profile_source *second = NULL;
    ok(profile_cupti_create(path, &second, &err) == -1 && err.code == ERR_STATE,
       "one at a time: %s", err.msg);
    ok(s->ops->start(s, &err) == 0, "starts");
    is_int(gpu.watched(), CUPTI_API_VERSION >= 23 ? 12 : 14,
           "only the calls that are wanted are watched, if CUPTI can do that");
    work();
    ok(s->ops->stop(s, &err) == 0, "stops");
    is_int(gpu.watched(), 0, "and watches nothing");
    work();
    ok(s->ops->take(s, &rows, &err) == 0, "what there was in between");
    is_row(&rows, "cudaLaunchKernel", 4, 5e-6, -1);
    is_row(&rows, "cudaMemcpyAsync", 2, 1e-6, -1);
    is_row(&rows, "cudaStreamSynchronize", 1, 1, -1);
    is_row(&rows, "cudaEventSynchronize", 1, 250e-9, -1);
    is_row(&rows, "cudaEventDestroy", 1, 0, -1);
    is_row(&rows, "cudaGraphLaunch", 1, 1e-6, -1);
    is_row(&rows, "CUDA memcpy Host-to-Device", 2, 3e-6, 5120);
    is_row(&rows, "CUDA memcpy Device-to-Host", 1, 1e-6, 8);
    is_row(&rows, "ncclDevKernel_Generic", 1, 1e-6, -1);
    is_row(&rows, "ncclDevKernel_AllGather_RING_LL", 1, 3e-6, -1);
    is_row(&rows, "CUDA kernels", 3, 1e-6, -1);
    is_int(rows.n, 11, "and nothing else");
    rows.n = 0;
    ok(s->ops->take(s, &rows, &err) == 0 && rows.n == 0, "once");
    s->ops->destroy(s);
}

static void test_faults(const char *path)
{
    struct error err = ERROR_INIT;
    struct profile_rows rows = {.n = 0};
    refused("/nowhere/libcupti.so", "", ERR_UNAVAIL, "/nowhere/libcupti.so");
    refused(path, "old", ERR_UNAVAIL, "version 18");
    refused(path, "next", ERR_UNAVAIL, "0000, expected");
    refused(path, "register", ERR_EXTERN, "CUPTI_ERROR_OF_THE_TEST");
    struct profile_source *s = open_source(path);
    (void)setenv("FAKE_CUPTI", "start", 1);
    is_int(s->ops->start(s, &err), -1, "does not start");
    ok(strstr(err.msg, "OF_THE_TEST (") != NULL, "%s", err.msg);
    (void)setenv("FAKE_CUPTI", "drop", 1);
    ok(s->ops->start(s, &err) == 0, "starts");
    work();
    ok(s->ops->take(s, &rows, &err) == 0, "records were dropped");
    is_row(&rows, "CUPTI dropped records", 7, 0, -1);
    (void)setenv("FAKE_CUPTI", "flush", 1);
    is_int(s->ops->take(s, &rows, &err), -1, "gives nothing out");
    (void)setenv("FAKE_CUPTI", "stop", 1);
    is_int(s->ops->stop(s, &err), -1, "does not stop");
    (void)unsetenv("FAKE_CUPTI");
    s->ops->destroy(s);
}

/* A library of the same major version may be older than the header. */
static void test_before(const char *path)
{
    struct error err = ERROR_INIT;
    struct profile_rows rows = {.n = 0};
    (void)setenv("FAKE_CUPTI", "before", 1);
    struct profile_source *s = open_source(path);
    ok(s->ops->start(s, &err) == 0, "starts");
    work();
    ok(s->ops->take(s, &rows, &err) == 0 && rows.n == 11,
       "an older library's records");
    work();
    (void)setenv("FAKE_CUPTI", "short", 1);
    rows.n = 0;
    ok(s->ops->take(s, &rows, &err) == -1 && rows.n == 0 &&
           err.code == ERR_EXTERN && strstr(err.msg, "16 bytes") != NULL,
       "which are too short: %s", err.msg);
    (void)unsetenv("FAKE_CUPTI");
    work();
    ok(s->ops->take(s, &rows, &err) == 0 && rows.n == 11, "and then are not");
    s->ops->destroy(s);
}

/* A profile with it: one that fails leaves training alone. */
static void test_profile(const char *path)
{
    struct error err = ERROR_INIT;
    struct profile *p = NULL;
    struct profile_epoch e;
    ok(profile_create(open_source(path), PROFILE_EPOCH, &p, &err) == 0,
       "a profile");
    for (int32_t i = 0; i < 3; i++) {
        profile_begin(p, i, 3);
        work();
        profile_end(p, 0.001);
    }
    ok(profile_take(p, &e) && e.seen == 3, "sees three iterations");
    is_row(&e.rows, "cudaLaunchKernel", 12, 15e-6, -1);
    (void)setenv("FAKE_CUPTI", "flush", 1);
    profile_begin(p, 0, 3);
    profile_end(p, 0.001);
    ok(!profile_take(p, &e), "a source that fails in an epoch");
    (void)unsetenv("FAKE_CUPTI");
    profile_begin(p, 0, 3);
    profile_end(p, 0.001);
    ok(!profile_take(p, &e), "is not asked again");
    ok(profile_wish(p) == 1, "and has no wishes");
    profile_destroy(p);
}

/* The library of the CUDA toolkit, if it is here: the calls that the papers
 * count have the names that we look for. */
static void test_real(void)
{
    struct error err = ERROR_INIT;
    struct profile_source *s = NULL;
    if (profile_cupti_create(NULL, &s, &err) < 0) {
        ok(err.code == ERR_UNAVAIL || err.code == ERR_EXTERN, "%s", err.msg);
        return;
    }
    ok(true, "the real CUPTI opens");
    if (s->ops->start(s, &err) < 0)
        ok(strncmp(err.msg, "CUPTI: ", 7) == 0, "without a GPU: %s", err.msg);
    s->ops->destroy(s);
}
#endif

int main(void)
{
#if HAVE_CUPTI
    char path[512];
    fake_path("cupti.so", path, sizeof(path));
    (void)unsetenv("FAKE_CUPTI");
    (void)unsetenv("MGPU_CUPTI");
    open_gpu(path);
    test_counts(path);
    test_faults(path);
    test_before(path);
    test_profile(path);
    test_real();
    return tap_done();
#else
    struct error err = ERROR_INIT;
    struct profile_source *s = NULL;
    is_int(profile_cupti_create(NULL, &s, &err), -1, "not in this build");
    ok(err.code == ERR_UNAVAIL, "%s", err.msg);
    return tap_done();
#endif
}
