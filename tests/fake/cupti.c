/* cupti.c - a libcupti.so for machines without a GPU: it hands out the records
 * that a test made, in NVIDIA's own layout, as the real one would.
 *
 * FAKE_CUPTI says how it misbehaves: "old" and "next" are other versions,
 * "before" is the one before the header's, "short" has it with records that
 * lack their ends; "register", "start", "stop" and "flush" refuse, "drop"
 * loses records.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "worker/profile/compat_cupti.h"

enum { RECORDS = 64, KINDS = 512, CALLS = 1024 };

/* For the test, which finds them by dlsym. */
void fake_cupti_call(const char *symbol, uint64_t start, uint64_t end);
void fake_cupti_copy(uint8_t kind, uint64_t bytes, uint64_t start,
                     uint64_t end);
void fake_cupti_kernel(const char *symbol, uint64_t start, uint64_t end);
int fake_cupti_watched(void); /* calls of the runtime */

static const char *const symbols[CALLS] = {
    [1] = "cudaDriverGetVersion_v3020",
    [41] = "cudaMemcpyAsync_v3020",
    [131] = "cudaStreamSynchronize_v3020",
    [136] = "cudaEventDestroy_v3020",
    [137] = "cudaEventSynchronize_v3020",
    [211] = "cudaLaunchKernel_v7000",
    [214] = "cudaLaunchKernel_ptsz_v7000",
    [225] = "cudaMemcpyAsync_ptsz_v7000",
    [239] = "cudaStreamSynchronize_ptsz_v7000",
    [311] = "cudaGraphLaunch_v10000",
    [400] = "cudaLaunchKernelFake_v1",
    [430] = "cudaLaunchKernelExC_v11060",
    [431] = "__cudaLaunchKernel_v13000",
    [432] = "__cudaLaunchKernel_ptsz_v13000",
};

static bool is_on[KINDS], is_watched[CALLS];
static CUpti_BuffersCallbackRequestFunc want;
static CUpti_BuffersCallbackCompleteFunc take;
static struct {
    CUpti_ActivityKind kind;
    union {
        CUpti_ActivityAPI call;
        cupti_copy copy;
        cupti_kernel kernel;
    };
} records[RECORDS];
static int n_records, n_given;

static bool is(const char *word)
{
    const char *e = getenv("FAKE_CUPTI");
    return e && strcmp(e, word) == 0;
}

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version)
{
    const uint32_t next = 10000 * (cupti_cuda(CUPTI_API_VERSION) + 1);
    *version = is("old")      ? 18
               : is("next")   ? next
               : is("before") ? CUPTI_API_VERSION - 1
                              : CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **str)
{
    (void)result;
    *str = "CUPTI_ERROR_OF_THE_TEST";
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain,
                                          uint32_t id, const char **name)
{
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API || id >= CALLS || !symbols[id])
        return CUPTI_ERROR_INVALID_PARAMETER;
    *name = symbols[id];
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                               CUpti_BuffersCallbackCompleteFunc completed)
{
    if (is("register"))
        return CUPTI_ERROR_NOT_INITIALIZED;
    want = requested;
    take = completed;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (is("start"))
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    is_on[kind] = true;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
    if (is("stop"))
        return CUPTI_ERROR_UNKNOWN;
    is_on[kind] = false;
    return CUPTI_SUCCESS;
}

#if CUPTI_API_VERSION >= 23
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId id,
                                                   uint8_t enable)
{
    if (id >= CALLS || !symbols[id])
        return CUPTI_ERROR_INVALID_PARAMETER;
    is_watched[id] = enable != 0;
    return CUPTI_SUCCESS;
}
#endif

static bool watches(uint32_t id)
{
    return symbols[id] &&
           (is_watched[id] || is_on[CUPTI_ACTIVITY_KIND_RUNTIME]);
}

int fake_cupti_watched(void)
{
    int n = 0;
    for (uint32_t id = 0; id < CALLS; id++)
        n += watches(id);
    return n;
}

void fake_cupti_call(const char *symbol, uint64_t start, uint64_t end)
{
    for (uint32_t id = 0; id < CALLS; id++) {
        if (!watches(id) || strcmp(symbols[id], symbol) != 0 ||
            n_records == RECORDS)
            continue;
        records[n_records].kind = CUPTI_ACTIVITY_KIND_RUNTIME;
        records[n_records++].call =
            (CUpti_ActivityAPI){.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                                .cbid = id,
                                .start = start,
                                .end = end};
    }
}

void fake_cupti_copy(uint8_t kind, uint64_t bytes, uint64_t start, uint64_t end)
{
    if (!is_on[CUPTI_ACTIVITY_KIND_MEMCPY] || n_records == RECORDS)
        return;
    records[n_records].kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    records[n_records++].copy = (cupti_copy){.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                             .copyKind = kind,
                                             .bytes = bytes,
                                             .start = start,
                                             .end = end};
}

void fake_cupti_kernel(const char *symbol, uint64_t start, uint64_t end)
{
    if (!is_on[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] || n_records == RECORDS)
        return;
    records[n_records].kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    records[n_records++].kernel =
        (cupti_kernel){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                       .name = symbol,
                       .start = start,
                       .end = end};
}

/* In the buffer each record has its place in `records` before it, or is
 * alone. */
enum { SHORT_BYTES = 16 };
static size_t head(void)
{
    return is("short") ? 0 : offsetof(__typeof__(records[0]), call);
}
static size_t size(void)
{
    return is("short") ? SHORT_BYTES : sizeof(records[0]);
}

/* A buffer of the asker's, with as many records as it has room for. */
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    if (is("flush"))
        return CUPTI_ERROR_INVALID_OPERATION;
    while (n_given < n_records) {
        uint8_t *buffer = NULL;
        size_t bytes = 0, most = 0, valid = 0;
        want(&buffer, &bytes, &most);
        while (n_given < n_records && valid + size() <= bytes) {
            const char *record = (const char *)&records[n_given++];
            if (is("short"))
                record += offsetof(__typeof__(records[0]), call);
            memcpy(buffer + valid, record, size());
            valid += size();
        }
        take(NULL, 0, buffer, bytes, valid);
        if (valid == 0)
            break;
    }
    n_records = n_given = 0;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                                CUpti_Activity **record)
{
    size_t at =
        *record ? (size_t)((uint8_t *)*record - buffer) - head() + size() : 0;
    if (at + size() > valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)(buffer + at + head());
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context,
                                                       uint32_t stream,
                                                       size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = is("drop") ? 7 : 0;
    return CUPTI_SUCCESS;
}
