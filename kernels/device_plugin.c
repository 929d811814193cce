/* device_plugin.c - find and open the CUDA plug-in.
 *
 * The program links no CUDA library: loading them costs 0.2 s and 200 MB per
 * process, and most machines have none. A run that asks for a CUDA device
 * opens libmgpu-cuda.so, which brings cuBLAS with it.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/card_name.h"
#include "kernels/device.h"
#include "kernels/module_load.h"

#define PLUGIN "libmgpu-cuda.so"

/* Paths of the plug-in relative to the program's directory: installed, in the
 * same directory, and in a build tree. */
static const char *const places[] = {
    PLUGIN,
    "../lib/mgpu/" PLUGIN,
    "../lib/" PLUGIN,
};

/* The directory of this program, with its slash. */
static int program_dir(char *ret, size_t cap, struct error *err)
{
    ssize_t n = readlink("/proc/self/exe", ret, cap);

    if (n < 0 || (size_t)n >= cap)
        return error_set(err, ERR_UNAVAIL,
                         "cannot determine the program's directory");
    ret[n] = '\0';
    char *slash = strrchr(ret, '/');
    if (slash)
        slash[1] = '\0';
    return 0;
}

static int find_plugin(char *ret, size_t cap, struct error *err)
{
    char dir[PATH_MAX];
    const char *asked = getenv("MGPU_CUDA_PLUGIN");

    if (asked && asked[0] != '\0') {
        int n = snprintf(ret, cap, "%s", asked);
        if (n < 0 || (size_t)n >= cap || access(ret, R_OK) < 0)
            return error_set(err, ERR_UNAVAIL,
                             "no plug-in at '%s' ($MGPU_CUDA_PLUGIN)", asked);
        return 0;
    }
    if (program_dir(dir, sizeof(dir), err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        int n = snprintf(ret, cap, "%s%s", dir, places[i]);
        if (n > 0 && (size_t)n < cap && access(ret, R_OK) == 0)
            return 0;
    }
    return error_set(err, ERR_UNAVAIL,
                     "no plug-in at '%s" PLUGIN "', nor in ../lib/mgpu", dir);
}

static int find_symbol(const char *name, void **ret, struct error *err)
{
    char path[PATH_MAX];

    if (find_plugin(path, sizeof(path), err) < 0)
        return -1;
    /* Never closed: CUDA's own threads and exit handlers use it. */
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return error_set(err, ERR_UNAVAIL, "plug-in: %s", dlerror());
    *ret = dlsym(lib, name);
    if (!*ret)
        return error_set(err, ERR_UNAVAIL, "plug-in: %s", dlerror());
    return 0;
}

int device_cuda_create(int32_t index, struct device **ret, struct error *err)
{
    void *symbol;
    device_cuda_open_f open_device;

    if (index < 0)
        return error_set(err, ERR_INVAL, "CUDA device %d", index);
    if (find_symbol("mgpu_cuda_open", &symbol, err) < 0)
        return -1;
    /* ISO C has no cast from an object to a function pointer. */
    memcpy(&open_device, &symbol, sizeof(open_device));
    return open_device(index, ret, err);
}

int device_cuda_count(int32_t *ret, struct error *err)
{
    void *symbol;
    device_cuda_count_f count;

    if (find_symbol("mgpu_cuda_count", &symbol, err) < 0)
        return -1;
    memcpy(&count, &symbol, sizeof(count));
    return count(ret, err);
}

int device_cuda_card(int32_t index, char ret[CARD_NAME_CAP], struct error *err)
{
    void *symbol;
    device_cuda_card_f card;

    if (find_symbol("mgpu_cuda_card", &symbol, err) < 0)
        return -1;
    memcpy(&card, &symbol, sizeof(card));
    return card(index, ret, err);
}

int device_cuda_load(struct device *d, struct module_load *ret,
                     struct error *err)
{
    void *symbol;
    device_cuda_load_f load;

    if (find_symbol("mgpu_cuda_load", &symbol, err) < 0)
        return -1;
    memcpy(&load, &symbol, sizeof(load));
    return load(d, ret, err);
}
