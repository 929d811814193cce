/* modules_cuda.c - loads every kernel of the plug-in before its first launch.
 *
 * CUDA loads code lazily: a module at the first use of one of its kernels, and
 * each kernel at its own. The memory for it is then taken after the worker has
 * compared its plan with what is free. Each family of kernels is a module,
 * found by a kernel in it (exec_module.h).
 *
 * The driver's functions come from the runtime, so that the plug-in links no
 * libcuda. Those that enumerate a module are as old as CUDA 12.4. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudaTypedefs.h>
#include <string.h>

#include "kernels/cuda_modules.h"
#include "kernels/exec/exec_cuda.h"
#include "kernels/module_load.h"

_Static_assert(CUDA_MODULES_NO_MEMORY == (int)CUDA_ERROR_OUT_OF_MEMORY,
               "cuda_modules.h has CUDA's number");

#define MODULE_DECLARE(build, family) const void *build##_module_##family(void);
#define MODULE_MARK(build, family) build##_module_##family(),

KERNEL_FAMILIES(MODULE_DECLARE, cuda)

struct driver {
    PFN_cuFuncGetModule_v11000 module_of;
    PFN_cuModuleGetFunctionCount_v12040 count;
    PFN_cuModuleEnumerateFunctions_v12040 functions;
    PFN_cuFuncLoad_v12040 load;
};

static int module_of(void *arg, const void *kernel, void **ret)
{
    const struct driver *driver = arg;
    cudaFunction_t function = NULL; /* is a CUfunction */
    CUmodule module = NULL;
    int rc = (int)cudaGetFuncBySymbol(&function, kernel);

    if (rc == 0)
        rc = (int)driver->module_of(&module, (CUfunction)function);
    *ret = module;
    return rc;
}

static int count(void *arg, void *module, uint32_t *ret)
{
    const struct driver *driver = arg;
    unsigned n = 0;
    int rc = (int)driver->count(&n, module);

    *ret = n;
    return rc;
}

static int functions(void *arg, void *module, uint32_t n, void **ret)
{
    const struct driver *driver = arg;

    /* A CUfunction is a pointer. */
    return (int)driver->functions((CUfunction *)ret, n, module);
}

static int load(void *arg, void *function)
{
    const struct driver *driver = arg;

    return (int)driver->load(function);
}

/* Whether the driver has a function, as it was in that version of CUDA. */
static bool find(const char *name, unsigned version, void *ret, size_t bytes)
{
    enum cudaDriverEntryPointQueryResult found;
    void *symbol = NULL;
    cudaError_t e;

#if CUDART_VERSION >= 12050
    e = cudaGetDriverEntryPointByVersion(name, &symbol, version,
                                         cudaEnableDefault, &found);
#else
    (void)version;
    e = cudaGetDriverEntryPoint(name, &symbol, cudaEnableDefault, &found);
#endif
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    if (e != cudaSuccess || found != cudaDriverEntryPointSuccess || !symbol)
        return false;
    memcpy(ret, &symbol, bytes);
    return true;
}
#define FIND(name, version, member) \
    find(name, version, &(member), sizeof(member))

static bool find_all(struct driver *ret)
{
    return FIND("cuFuncGetModule", 11000, ret->module_of) &&
           FIND("cuModuleGetFunctionCount", 12040, ret->count) &&
           FIND("cuModuleEnumerateFunctions", 12040, ret->functions) &&
           FIND("cuFuncLoad", 12040, ret->load);
}

__attribute__((visibility("default"))) int mgpu_cuda_load(
    struct device *d, struct module_load *ret, struct error *err)
{
    static const struct cuda_modules_ops ops = {module_of, count, functions,
                                                load};
    const void *const marks[] = {KERNEL_FAMILIES(MODULE_MARK, cuda)};
    struct driver driver = {.load = NULL};
    struct module_load done = {.kernels = 0};
    size_t before = 0, after = 0, all = 0;

    if (find_all(&driver)) {
        if (d->ops->memory(d, &before, &all, err) < 0)
            return -1;
        done.refused =
            cuda_modules_load(&ops, &driver, marks,
                              sizeof(marks) / sizeof(marks[0]), &done.kernels);
        (void)cudaGetLastError(); /* launch() would take it for its own */
        if (d->ops->memory(d, &after, &all, err) < 0)
            return -1;
    }
    done.bytes = before > after ? (int64_t)(before - after) : 0;
    *ret = done;
    return 0;
}
