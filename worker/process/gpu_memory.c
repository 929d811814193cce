/* gpu_memory.c - see gpu_memory.h.
 *
 * src  NVIDIA Management Library reference, "Device Queries"; the _v2 names
 *      are those that nvml.h maps the plain ones to
 */
#include "worker/process/gpu_memory.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct memory { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

struct gpu_memory {
    void *library, *device;
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_handle)(const char *bus, void **ret);
    int (*get_memory)(void *device, struct memory *ret);
    const char *(*text)(int code);
    bool is_up;
};

static bool find(const struct gpu_memory *m, const char *name, void *fn,
                 size_t size)
{
    void *symbol = dlsym(m->library, name);
    memcpy(fn, &symbol, size);
    return symbol != NULL;
}

static int refused(const struct gpu_memory *m, const char *what, int code,
                   struct error *err)
{
    const char *text = m->text(code);
    return error_set(err, ERR_EXTERN, "NVML: %s: %s (%d)", what,
                     text != NULL ? text : "?", code);
}

static int open_library(struct gpu_memory *m, const char *path,
                        struct error *err)
{
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (m->library == NULL) {
        const char *why = dlerror();
        return error_set(err, ERR_UNAVAIL, "NVML: %s",
                         why != NULL ? why : path);
    }
    if (find(m, "nvmlInit_v2", &m->init, sizeof(m->init)) &&
        find(m, "nvmlShutdown", &m->shutdown, sizeof(m->shutdown)) &&
        find(m, "nvmlDeviceGetHandleByPciBusId_v2", &m->get_handle,
             sizeof(m->get_handle)) &&
        find(m, "nvmlDeviceGetMemoryInfo", &m->get_memory,
             sizeof(m->get_memory)) &&
        find(m, "nvmlErrorString", &m->text, sizeof(m->text)))
        return 0;
    return error_set(err, ERR_UNAVAIL, "'%s' is not the NVML that is needed",
                     path);
}

static int find_device(struct gpu_memory *m, const char *bus, struct error *err)
{
    int code = m->init();
    if (code != 0)
        return refused(m, "start", code, err);
    m->is_up = true;
    code = m->get_handle(bus, &m->device);
    return code != 0 ? refused(m, bus, code, err) : 0;
}

int gpu_memory_open(const char *library, const char *bus,
                    struct gpu_memory **ret, struct error *err)
{
    struct gpu_memory *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "NVML");
    if (open_library(m, library != NULL ? library : "libnvidia-ml.so.1", err) <
            0 ||
        find_device(m, bus, err) < 0) {
        gpu_memory_close(m);
        return -1;
    }
    *ret = m;
    return 0;
}

int gpu_memory_read(struct gpu_memory *m, int64_t *ret_used_bytes,
                    int64_t *ret_total_bytes, struct error *err)
{
    struct memory now = {.total = 0};
    int code = m->get_memory(m->device, &now);
    if (code != 0)
        return refused(m, "memory", code, err);
    *ret_used_bytes = (int64_t)now.used;
    *ret_total_bytes = (int64_t)now.total;
    return 0;
}

void gpu_memory_close(struct gpu_memory *m)
{
    if (m == NULL)
        return;
    if (m->is_up)
        (void)m->shutdown();
    if (m->library != NULL)
        (void)dlclose(m->library);
    free(m);
}
