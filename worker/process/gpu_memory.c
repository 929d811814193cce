/* gpu_memory.c - see gpu_memory.h. */
#include "worker/process/gpu_memory.h"

#include <stdlib.h>

#include "jobs/base/nvml_library.h"

struct gpu_memory {
    struct nvml_library n;
    void *device;
};

int gpu_memory_open(const char *library, const char *bus,
                    struct gpu_memory **ret, struct error *err)
{
    struct gpu_memory *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "NVML");
    int rc = nvml_library_open(&m->n, library, NVML_ADDRESS, err);
    int code = rc == 0 ? m->n.get_by_bus(bus, &m->device) : 0;
    if (code != 0)
        rc = nvml_library_fail(&m->n, bus, code, err);
    if (rc < 0)
        gpu_memory_close(m);
    else
        *ret = m;
    return rc;
}

int gpu_memory_read(struct gpu_memory *m, int64_t *ret_used_bytes,
                    int64_t *ret_total_bytes, struct error *err)
{
    struct nvml_memory now = {.total = 0};
    int code = m->n.get_memory(m->device, &now);
    if (code != 0)
        return nvml_library_fail(&m->n, "memory", code, err);
    *ret_used_bytes = (int64_t)now.used;
    *ret_total_bytes = (int64_t)now.total;
    return 0;
}

void gpu_memory_close(struct gpu_memory *m)
{
    if (m == NULL)
        return;
    nvml_library_close(&m->n);
    free(m);
}
