/* nvml.c - see nvml.h.
 *
 * The library is asked once, at start, and closed again: it opens device
 * files and starts threads of its own.
 *
 * src  NVIDIA Management Library reference, "Initialization and Cleanup" and
 *      "Device Queries"; the _v2 names are those that nvml.h maps the plain
 *      ones to since driver 319
 */
#include "slurm/nvml.h"

#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The head of nvmlPciInfo_t; the rest only has to be large enough: the
 * structure has 68 bytes as of driver 580. */
struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
    unsigned char room[128];
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*get_count)(unsigned *n);
    int (*get_handle)(unsigned index, void **ret);
    int (*get_name)(void *device, char *ret, unsigned cap);
    int (*get_uuid)(void *device, char *ret, unsigned cap);
    int (*get_pci)(void *device, struct pci_info *ret);
    const char *(*text)(int code);
};

/* dlsym(3) returns an object pointer; POSIX promises that this works. */
static bool find(const struct nvml *n, const char *name, void *fn, size_t size)
{
    void *symbol = dlsym(n->library, name);
    assert(size == sizeof(symbol));
    memcpy(fn, &symbol, size);
    return symbol != NULL;
}

static int open_library(struct nvml *n, const char *path, struct error *err)
{
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n->library) {
        const char *why = dlerror();
        return error_set(err, ERR_NOTFOUND, "%s", why ? why : path);
    }
    if (find(n, "nvmlInit_v2", &n->init, sizeof(n->init)) &&
        find(n, "nvmlShutdown", &n->shutdown, sizeof(n->shutdown)) &&
        find(n, "nvmlDeviceGetCount_v2", &n->get_count, sizeof(n->get_count)) &&
        find(n, "nvmlDeviceGetHandleByIndex_v2", &n->get_handle,
             sizeof(n->get_handle)) &&
        find(n, "nvmlDeviceGetName", &n->get_name, sizeof(n->get_name)) &&
        find(n, "nvmlDeviceGetUUID", &n->get_uuid, sizeof(n->get_uuid)) &&
        find(n, "nvmlDeviceGetPciInfo_v3", &n->get_pci, sizeof(n->get_pci)) &&
        find(n, "nvmlErrorString", &n->text, sizeof(n->text)))
        return 0;
    (void)dlclose(n->library);
    return error_set(err, ERR_EXTERN, "'%s' is not the NVML that is needed",
                     path);
}

/* NVML_ERROR_GPU_IS_LOST. What is asked of one may say so, its handle first. */
enum { GPU_IS_LOST = 15 };

static int refused(const struct nvml *n, const char *what, int code,
                   struct error *err)
{
    const char *text = n->text(code);
    return error_set(err, ERR_EXTERN, "NVML: %s: %s (%d)", what,
                     text ? text : "?", code);
}

static int describe(const struct nvml *n, unsigned index, struct nvml_gpu *ret,
                    struct error *err)
{
    void *device;
    struct pci_info pci = {.domain = 0};
    struct nvml_gpu gpu = {.uuid = ""};
    int code = n->get_handle(index, &device);
    if (code == 0)
        code = n->get_name(device, gpu.name, sizeof(gpu.name));
    if (code == 0)
        code = n->get_uuid(device, gpu.uuid, sizeof(gpu.uuid));
    if (code == 0)
        code = n->get_pci(device, &pci);
    if (code == GPU_IS_LOST) {
        *ret = (struct nvml_gpu){.is_lost = true};
        return 0;
    }
    if (code != 0)
        return refused(n, "describe a GPU", code, err);
    memcpy(gpu.bus, pci.bus_id, sizeof(gpu.bus));
    gpu.bus[sizeof(gpu.bus) - 1] = '\0';
    nvml_type_of(gpu.name, gpu.type, sizeof(gpu.type));
    *ret = gpu;
    return 0;
}

static int by_bus(const void *a, const void *b)
{
    return strcasecmp(((const struct nvml_gpu *)a)->bus,
                      ((const struct nvml_gpu *)b)->bus);
}

/* One that is lost has no address any more. It stays where it is: who has GPUs
 * of this machine from before knows them by their numbers. */
static void sort(struct nvml_gpu *gpus, size_t n)
{
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++)
        n_known += !gpus[i].is_lost;
    struct nvml_gpu *known =
        n_known > 0 ? calloc(n_known, sizeof(*known)) : NULL;
    if (!known)
        return; /* in the driver's order, then, which is the same as a rule */
    for (size_t i = 0, at = 0; i < n; i++)
        if (!gpus[i].is_lost)
            known[at++] = gpus[i];
    qsort(known, n_known, sizeof(*known), by_bus);
    for (size_t i = 0, at = 0; i < n; i++)
        if (!gpus[i].is_lost)
            gpus[i] = known[at++];
    free(known);
}

static int list(const struct nvml *n, struct nvml_gpu *gpus, size_t cap,
                size_t *ret_n, struct error *err)
{
    unsigned count;
    int code = n->get_count(&count);
    if (code != 0)
        return refused(n, "count the GPUs", code, err);
    if (count > cap)
        return error_set(err, ERR_LIMIT, "%u GPUs, room for %zu", count, cap);
    for (unsigned i = 0; i < count; i++)
        if (describe(n, i, &gpus[i], err) < 0)
            return -1;
    sort(gpus, count);
    *ret_n = count;
    return 0;
}

int nvml_list(const char *library, struct nvml_gpu *gpus, size_t cap,
              size_t *ret_n, struct error *err)
{
    struct nvml n = {.library = NULL};
    if (open_library(&n, library ? library : "libnvidia-ml.so.1", err) < 0)
        return -1;
    int rc;
    int code = n.init();
    if (code != 0) {
        rc = refused(&n, "start", code, err);
    } else {
        rc = list(&n, gpus, cap, ret_n, err);
        (void)n.shutdown();
    }
    (void)dlclose(n.library);
    return rc;
}

/* The next word of letters and digits at *p, in lower case; moves *p past it
 * and past the blanks behind. Its length, 0 at the end. */
static size_t take_word(const char **p, char *ret, size_t cap)
{
    size_t len = 0;
    for (; isalnum((unsigned char)**p); (*p)++)
        if (len + 1 < cap)
            ret[len++] = (char)tolower((unsigned char)**p);
    ret[len] = '\0';
    while (**p && **p != ' ')
        (*p)++;
    while (**p == ' ')
        (*p)++;
    return len;
}

void nvml_type_of(const char *name, char *ret, size_t cap)
{
    static const char *const brands[] = {"nvidia", "tesla", "geforce",
                                         "quadro"};
    static const char *const series[] = {"rtx", "gtx", "titan"};
    char word[32];
    assert(cap >= sizeof(word));
    while (take_word(&name, word, sizeof(word)) > 0) {
        bool is_brand = false;
        for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++)
            is_brand = is_brand || strcmp(word, brands[i]) == 0;
        if (is_brand)
            continue;
        size_t len = strlen(word);
        for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++)
            if (strcmp(word, series[i]) == 0)
                (void)take_word(&name, word + len, sizeof(word) - len);
        memcpy(ret, word, strlen(word) + 1);
        return;
    }
    memcpy(ret, "gpu", 4);
}
