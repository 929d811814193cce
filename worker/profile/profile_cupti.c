/* profile_cupti.c - the GPU's source: activity records of NVIDIA's CUPTI.
 *
 * The library is opened when a job asks for a profile, and nothing of ours
 * links it. Only some of the runtime's calls are recorded (`wanted`): they are
 * found by name, for the numbers differ between
 * versions and one call has several (nvcc 13 launches by
 * "__cudaLaunchKernel_v13000", nvcc 12 and C by "cudaLaunchKernel_v7000").
 *
 * CUPTI hands out filled buffers on a thread of its own, without a pointer of
 * ours: hence the one static source, and the lock around its rows.
 *
 * src  CUPTI 13.0, "CUPTI Activity API"
 */
#include "worker/profile/profile.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/profile/compat_cupti.h"

/* A record has 100 to 250 bytes: 4,000 and more of them in a buffer. */
enum { BUFFER_BYTES = 1 << 20, CALLS_MAX = 32 };

/* Runtime calls that are recorded, by their name in a row. A graph's launch
 * counts for all launches in it. */
static const char *const wanted[] = {
    "cudaLaunchKernel",     "cudaMemcpyAsync",  "cudaStreamSynchronize",
    "cudaEventSynchronize", "cudaEventDestroy", "cudaGraphLaunch",
};
enum { N_WANTED = sizeof(wanted) / sizeof(wanted[0]) };

struct call {
    uint32_t id;
    const char *name; /* of wanted */
};

struct cupti {
    struct profile_source base;
    struct cupti_api api;
    struct call calls[CALLS_MAX];
    int32_t n_calls;
    bool is_used;
    pthread_mutex_t lock;
    /* ---- under the lock ---- */
    struct profile_rows rows;
    int64_t dropped;
    bool is_short; /* no memory for a buffer */
    size_t cut;    /* bytes of a record that lacks what is read; 0: none */
};

/* Not on the heap: CUPTI may call back after the source has ended. */
static struct cupti the = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- names ---------------------------------------------------------------
 */

/* "__cudaLaunchKernel_ptsz_v13000", "cudaLaunchKernelExC_v11060" ->
 * "cudaLaunchKernel"; NULL: not wanted. */
static const char *wanted_name(const char *symbol)
{
    while (*symbol == '_')
        symbol++;
    for (int i = 0; i < N_WANTED; i++) {
        size_t n = strlen(wanted[i]);
        if (strncmp(symbol, wanted[i], n) != 0)
            continue;
        const char *rest = symbol + n;
        if (i == 0 && strncmp(rest, "ExC", 3) == 0)
            rest += 3;
        if (*rest == '\0' || *rest == '_')
            return wanted[i];
    }
    return NULL;
}

static void find_calls(struct cupti *c)
{
    for (uint32_t id = 1; id < CUPTI_RUNTIME_TRACE_CBID_SIZE; id++) {
        const char *symbol = NULL;
        if (c->api.cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id,
                                        &symbol) != CUPTI_SUCCESS ||
            symbol == NULL)
            continue;
        const char *name = wanted_name(symbol);
        if (name != NULL && c->n_calls < CALLS_MAX)
            c->calls[c->n_calls++] = (struct call){id, name};
    }
}

/* NCCL's kernels by name, without what C++ puts around it:
 * "_Z21ncclDevKernel_Generic24ncclDev..." has the length of the name. */
static void kernel_name(const char *symbol, char *ret, size_t cap)
{
    const char *at = symbol != NULL ? strstr(symbol, "ncclDevKernel") : NULL;
    if (at == NULL) {
        (void)snprintf(ret, cap, "CUDA kernels");
        return;
    }
    size_t n = strcspn(at, "(<");
    if (strncmp(symbol, "_Z", 2) == 0) {
        size_t length = strtoul(symbol + 2, NULL, 10);
        n = length > 0 && length < n ? length : n;
    }
    (void)snprintf(ret, cap, "%.*s", (int)n, at);
}

/* ---- records, on CUPTI's thread ------------------------------------------
 */

static void CUPTIAPI want_buffer(uint8_t **ret, size_t *ret_bytes,
                                 size_t *ret_records)
{
    *ret = aligned_alloc(8, BUFFER_BYTES);
    *ret_bytes = *ret != NULL ? BUFFER_BYTES : 0;
    *ret_records = 0; /* as many as there is room for */
    if (*ret == NULL) {
        pthread_mutex_lock(&the.lock);
        the.is_short = true;
        pthread_mutex_unlock(&the.lock);
    }
}

static double seconds(uint64_t start, uint64_t end)
{
    return end > start ? 1e-9 * (double)(end - start) : 0;
}

static void add_call(struct cupti *c, const CUpti_ActivityAPI *a)
{
    for (int32_t i = 0; i < c->n_calls; i++)
        if (c->calls[i].id == a->cbid)
            profile_add(&c->rows, c->calls[i].name, 1,
                        seconds(a->start, a->end), -1);
}

static void add_copy(struct cupti *c, const cupti_copy *m)
{
    const char *name = m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                           ? "CUDA memcpy Host-to-Device"
                       : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                           ? "CUDA memcpy Device-to-Host"
                       : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOD
                           ? "CUDA memcpy Device-to-Device"
                           : "CUDA memcpy, others";
    profile_add(&c->rows, name, 1, seconds(m->start, m->end),
                (int64_t)m->bytes);
}

/* Bytes of a record up to the last that add_record() reads. */
#define UP_TO(type, member) \
    (offsetof(type, member) + sizeof(((type *)0)->member))
static size_t bytes_read(const CUpti_Activity *r)
{
    switch (r->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
        return UP_TO(CUpti_ActivityAPI, end);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        return UP_TO(cupti_copy, end);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        return UP_TO(cupti_kernel, name);
    default:
        return sizeof(r->kind);
    }
}

static void add_record(struct cupti *c, const CUpti_Activity *r, size_t bytes)
{
    char name[METRIC_NAME_CAP];
    if (bytes < bytes_read(r)) {
        c->cut = bytes;
        return;
    }
    switch (r->kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
        add_call(c, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        add_copy(c, (const void *)r);
        break;
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const cupti_kernel *k = (const void *)r;
        kernel_name(k->name, name, sizeof(name));
        profile_add(&c->rows, name, 1, seconds(k->start, k->end), -1);
        break;
    }
    default:
        break;
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream,
                                 uint8_t *buffer, size_t bytes, size_t valid)
{
    struct cupti *c = &the;
    CUpti_Activity *r = NULL, *before = NULL;
    size_t dropped = 0;
    (void)bytes;
    pthread_mutex_lock(&c->lock);
    /* A record ends where the next one begins. */
    while (valid > 0 && c->api.cuptiActivityGetNextRecord(buffer, valid, &r) ==
                            CUPTI_SUCCESS) {
        if (before != NULL)
            add_record(c, before, (size_t)((uint8_t *)r - (uint8_t *)before));
        before = r;
    }
    if (before != NULL)
        add_record(c, before, (size_t)(buffer + valid - (uint8_t *)before));
    if (c->api.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) ==
        CUPTI_SUCCESS)
        c->dropped += (int64_t)dropped;
    pthread_mutex_unlock(&c->lock);
    free(buffer);
}

/* ---- the seam ------------------------------------------------------------
 */

static int check(const struct cupti *c, CUptiResult status, const char *what,
                 struct error *err)
{
    const char *text = NULL;
    if (status == CUPTI_SUCCESS)
        return 0;
    if (c->api.cuptiGetResultString(status, &text) != CUPTI_SUCCESS)
        text = NULL;
    return error_set(err, ERR_EXTERN, "CUPTI: %s: %s (%d)", what,
                     text != NULL ? text : "?", (int)status);
}

static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, /* the other kind serialises */
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int watch(struct cupti *c, bool on, const char *what, struct error *err)
{
    if (check(c, cupti_watch(&c->api, on), what, err) < 0)
        return -1;
    for (int32_t i = 0; i < c->n_calls; i++)
        if (check(c, cupti_watch_call(&c->api, c->calls[i].id, on),
                  c->calls[i].name, err) < 0)
            return -1;
    return 0;
}

static int cupti_start(struct profile_source *s, struct error *err)
{
    struct cupti *c = (struct cupti *)s;
    for (int i = 0; i < N_KINDS; i++)
        if (check(c, c->api.cuptiActivityEnable(kinds[i]), "start", err) < 0)
            return -1;
    return watch(c, true, "start", err);
}

static int cupti_stop(struct profile_source *s, struct error *err)
{
    struct cupti *c = (struct cupti *)s;
    if (watch(c, false, "stop", err) < 0)
        return -1;
    for (int i = 0; i < N_KINDS; i++)
        if (check(c, c->api.cuptiActivityDisable(kinds[i]), "stop", err) < 0)
            return -1;
    return 0;
}

static int cupti_take(struct profile_source *s, struct profile_rows *io,
                      struct error *err)
{
    struct cupti *c = (struct cupti *)s;
    if (check(c, c->api.cuptiActivityFlushAll(0), "flush", err) < 0)
        return -1;
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < c->rows.n; i++)
        profile_add(io, c->rows.at[i].metric, c->rows.at[i].calls,
                    c->rows.at[i].total_s, c->rows.at[i].bytes);
    int64_t dropped = c->dropped;
    bool is_short = c->is_short;
    size_t cut = c->cut;
    c->rows.n = 0;
    c->dropped = 0;
    c->cut = 0;
    pthread_mutex_unlock(&c->lock);
    if (cut > 0)
        return error_set(err, ERR_EXTERN,
                         "CUPTI: a record has %zu bytes, too few for version "
                         "%d, with which this program was built",
                         cut, CUPTI_API_VERSION);
    if (is_short)
        return error_set(err, ERR_NOMEM, "CUPTI: no memory for its records");
    if (dropped > 0) /* their time is not known */
        profile_add(io, "CUPTI dropped records", dropped, 0, -1);
    return 0;
}

/* The library stays: its thread may be in it. */
static void cupti_destroy(struct profile_source *s)
{
    struct cupti *c = (struct cupti *)s;
    if (c == NULL)
        return;
    (void)cupti_stop(s, NULL);
    (void)c->api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    c->is_used = false;
}

static const struct profile_source_ops cupti_ops = {
    .name = "cupti",
    .start = cupti_start,
    .stop = cupti_stop,
    .take = cupti_take,
    .destroy = cupti_destroy,
};

/* ---- the library ---------------------------------------------------------
 */

static void *open_library(const char *library, struct error *err)
{
    static const char *const places[] = {
        CUPTI_LIBRARY,
        "/usr/local/cuda/lib64/" CUPTI_LIBRARY,
        "/usr/local/cuda/extras/CUPTI/lib64/" CUPTI_LIBRARY,
        "libcupti.so",
    };
    const char *asked = getenv("MGPU_CUPTI");
    if (library == NULL && asked != NULL && asked[0] != '\0')
        library = asked;
    void *lib = library != NULL ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; library == NULL && lib == NULL &&
                       i < sizeof(places) / sizeof(places[0]);
         i++)
        lib = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (lib != NULL)
        return lib;
    const char *why = dlerror();
    (void)error_set(err, ERR_UNAVAIL, "CUPTI: %s",
                    why != NULL ? why : "there is no " CUPTI_LIBRARY);
    return NULL;
}

/* ISO C has no cast from an object to a function pointer. */
static int find_symbol(void *lib, const char *name, void *ret, size_t size,
                       struct error *err)
{
    void *symbol = dlsym(lib, name);
    if (symbol == NULL)
        return error_set(err, ERR_UNAVAIL, "CUPTI has no %s", name);
    memcpy(ret, &symbol, size);
    return 0;
}

/* The records' layout is that of the header that this was built with. Within a
 * major version records only grow at their ends, so a newer library's have more
 * than is read, and an older one's have enough unless add_record() finds one
 * that is too short. */
static int open_api(struct cupti *c, void *lib, struct error *err)
{
    uint32_t version = 0;
#define FIND(f)                                                     \
    if (find_symbol(lib, #f, &c->api.f, sizeof(c->api.f), err) < 0) \
        return -1;
    CUPTI_CALLS(FIND)
    if (check(c, c->api.cuptiGetVersion(&version), "version", err) < 0)
        return -1;
    if (cupti_cuda(version) != cupti_cuda(CUPTI_API_VERSION))
        return error_set(err, ERR_UNAVAIL,
                         "CUPTI: version %u, expected one of CUDA %u", version,
                         cupti_cuda(CUPTI_API_VERSION));
    return 0;
}

int profile_cupti_create(const char *library, struct profile_source **ret,
                         struct error *err)
{
    struct cupti *c = &the;
    if (c->is_used)
        return error_set(err, ERR_STATE, "CUPTI: there is a profile already");
    void *lib = open_library(library, err);
    if (lib == NULL || open_api(c, lib, err) < 0)
        return -1;
    c->base.ops = &cupti_ops;
    c->n_calls = 0;
    pthread_mutex_lock(&c->lock);
    c->rows.n = 0;
    c->dropped = 0;
    c->is_short = false;
    c->cut = 0;
    pthread_mutex_unlock(&c->lock);
    find_calls(c);
    if (check(c,
              c->api.cuptiActivityRegisterCallbacks(want_buffer, take_buffer),
              "register", err) < 0)
        return -1;
    c->is_used = true;
    *ret = &c->base;
    return 0;
}
