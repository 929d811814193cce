/* nvml_library.c - see nvml_library.h. */
#include "jobs/base/nvml_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { ALL = NVML_LIST | NVML_WATCH | NVML_SAMPLE | NVML_ADDRESS };

static const struct {
    const char *name;
    size_t offset;
    unsigned uses; /* that must have it */
} calls[] = {
#define CALL(member, name, uses)                          \
    {                                                     \
        name, offsetof(struct nvml_library, member), uses \
    }
    CALL(init, "nvmlInit_v2", ALL),
    CALL(shutdown, "nvmlShutdown", ALL),
    CALL(text, "nvmlErrorString", ALL),
    CALL(get_count, "nvmlDeviceGetCount_v2", NVML_LIST),
    CALL(get_by_index, "nvmlDeviceGetHandleByIndex_v2",
         NVML_LIST | NVML_SAMPLE),
    CALL(get_by_uuid, "nvmlDeviceGetHandleByUUID", NVML_WATCH | NVML_SAMPLE),
    CALL(get_by_bus, "nvmlDeviceGetHandleByPciBusId_v2", NVML_ADDRESS),
    CALL(get_name, "nvmlDeviceGetName", NVML_LIST),
    CALL(get_uuid, "nvmlDeviceGetUUID", NVML_LIST),
    CALL(get_pci, "nvmlDeviceGetPciInfo_v3", NVML_LIST),
    CALL(get_memory, "nvmlDeviceGetMemoryInfo", NVML_LIST | NVML_ADDRESS),
    CALL(get_rates, "nvmlDeviceGetUtilizationRates", NVML_SAMPLE),
    CALL(get_ecc, "nvmlDeviceGetTotalEccErrors", NVML_WATCH),
    CALL(get_temperature, "nvmlDeviceGetTemperature", NVML_WATCH),
    CALL(get_remapped, "nvmlDeviceGetRemappedRows", 0),
    CALL(get_set, "nvmlEventSetCreate", NVML_WATCH),
    CALL(get_events, "nvmlDeviceRegisterEvents", NVML_WATCH),
    CALL(get_event, "nvmlEventSetWait_v2", NVML_WATCH),
    CALL(free_set, "nvmlEventSetFree", NVML_WATCH),
#undef CALL
};

/* dlsym(3) returns an object pointer; POSIX promises that a function has the
 * same representation. */
static int find_calls(struct nvml_library *n, const char *path, unsigned uses,
                      struct error *err)
{
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *symbol = dlsym(n->handle, calls[i].name);
        if (symbol == NULL && (calls[i].uses & uses))
            return error_set(err, ERR_EXTERN,
                             "'%s' is not the NVML that is needed: it has no "
                             "%s",
                             path, calls[i].name);
        memcpy((char *)n + calls[i].offset, &symbol, sizeof(symbol));
    }
    return 0;
}

int nvml_library_open(struct nvml_library *ret, const char *path, unsigned uses,
                      struct error *err)
{
    struct nvml_library n = {.handle = NULL};
    path = path != NULL ? path : "libnvidia-ml.so.1";
    *ret = n;
    n.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (n.handle == NULL) {
        const char *why = dlerror();
        return error_set(err, ERR_NOTFOUND, "%s", why != NULL ? why : path);
    }
    int rc = find_calls(&n, path, uses, err);
    int code = rc == 0 ? n.init() : 0;
    if (code != 0)
        rc = nvml_library_fail(&n, "start", code, err);
    if (rc == 0)
        *ret = n;
    else
        (void)dlclose(n.handle);
    return rc;
}

void nvml_library_close(struct nvml_library *n)
{
    if (n->handle == NULL)
        return;
    (void)n->shutdown();
    (void)dlclose(n->handle);
    n->handle = NULL;
}

int nvml_library_fail(const struct nvml_library *n, const char *what, int code,
                      struct error *err)
{
    const char *text = n->text(code);
    return error_set(err, ERR_EXTERN, "NVML: %s: %s (%d)", what,
                     text != NULL ? text : "?", code);
}
