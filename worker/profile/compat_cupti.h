/* compat_cupti.h - the differences between releases of CUPTI.
 *
 * A release adds fields at the end of a record, under a new name for it, and
 * adds functions. Every difference that concerns this program is in this file,
 * with the release that made it, and the other files use the name that this
 * file gives. CUPTI_API_VERSION of the header decides: 22 is CUDA 12.4, 23 is
 * 12.5, 26 is 12.8; from 13.0 on it is the release, 130000.
 *
 * Compiled with 12.4 and 13.0.
 */
#ifndef MGPU_WORKER_PROFILE_COMPAT_CUPTI_H
#define MGPU_WORKER_PROFILE_COMPAT_CUPTI_H

#include <cupti.h>
#include <stdbool.h>
#include <stdint.h>

/* The library's name depends on the release; 11 and older have others. */
#if CUPTI_API_VERSION >= 130000
#define CUPTI_LIBRARY "libcupti.so.13"
#else
#define CUPTI_LIBRARY "libcupti.so.12"
#endif

/* The CUDA release of a version: 12.0 is v19. 0: 11.8 or older. */
static inline uint32_t cupti_cuda(uint32_t version)
{
    return version >= 130000 ? version / 10000 : version >= 19 ? 12 : 0;
}

/* The record of a copy: 12.8 adds to it. */
#if CUPTI_API_VERSION >= 26
typedef CUpti_ActivityMemcpy6 cupti_copy;
#else
typedef CUpti_ActivityMemcpy5 cupti_copy;
#endif

/* The record of a kernel: 13.0 adds to it. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 cupti_kernel;
#else
typedef CUpti_ActivityKernel9 cupti_kernel;
#endif

/* 12.5 adds cuptiActivityEnableRuntimeApi(). */
#if CUPTI_API_VERSION >= 23
#define CUPTI_ADDED(X) X(cuptiActivityEnableRuntimeApi)
#else
#define CUPTI_ADDED(X)
#endif

#define CUPTI_CALLS(X)                \
    X(cuptiGetVersion)                \
    X(cuptiGetResultString)           \
    X(cuptiGetCallbackName)           \
    X(cuptiActivityRegisterCallbacks) \
    X(cuptiActivityEnable)            \
    X(cuptiActivityDisable)           \
    X(cuptiActivityFlushAll)          \
    X(cuptiActivityGetNextRecord)     \
    X(cuptiActivityGetNumDroppedRecords) CUPTI_ADDED(X)

#define MEMBER(f) __typeof__(&(f)) f;
struct cupti_api {
    CUPTI_CALLS(MEMBER)
};
#undef MEMBER

/* cupti_watch() once and then cupti_watch_call() for each call of the runtime
 * record these calls. Before 12.5 CUPTI records all or none, and the reader of
 * the records leaves out the others. */
#if CUPTI_API_VERSION >= 23
static inline CUptiResult cupti_watch(const struct cupti_api *api, bool on)
{
    (void)api;
    (void)on;
    return CUPTI_SUCCESS;
}

static inline CUptiResult cupti_watch_call(const struct cupti_api *api,
                                           CUpti_CallbackId id, bool on)
{
    return api->cuptiActivityEnableRuntimeApi(id, on);
}
#else
static inline CUptiResult cupti_watch(const struct cupti_api *api, bool on)
{
    return on ? api->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME)
              : api->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
}

static inline CUptiResult cupti_watch_call(const struct cupti_api *api,
                                           CUpti_CallbackId id, bool on)
{
    (void)api;
    (void)id;
    (void)on;
    return CUPTI_SUCCESS;
}
#endif

#endif
