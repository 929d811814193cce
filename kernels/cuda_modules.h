/* cuda_modules.h - load all kernels of some modules. The driver's functions are
 * members, so that a test gives others. */
#ifndef MGPU_KERNELS_CUDA_MODULES_H
#define MGPU_KERNELS_CUDA_MODULES_H

#include <stdint.h>
#include <stdlib.h>

/* Each returns 0, or the driver's error. */
struct cuda_modules_ops {
    /* The module of the kernel that this address launches. */
    int (*module_of)(void *arg, const void *kernel, void **ret);
    int (*count)(void *arg, void *module, uint32_t *ret);
    int (*functions)(void *arg, void *module, uint32_t n, void **ret);
    int (*load)(void *arg, void *function); /* again: nothing happens */
};
enum { CUDA_MODULES_NO_MEMORY = 2 }; /* CUDA's, for the host's memory, too */

/* marks: a kernel of each module, which is not counted.
 * out  ret_loaded  kernels that are loaded, also of an error
 * returns 0, or the first error, after which nothing more is loaded */
static inline int cuda_modules_load(const struct cuda_modules_ops *ops,
                                    void *arg, const void *const *marks,
                                    int32_t n, int32_t *ret_loaded)
{
    int32_t loaded = 0;
    int rc = 0;
    for (int32_t i = 0; i < n && rc == 0; i++) {
        void *module = NULL, **all = NULL;
        uint32_t functions = 0, done = 0;
        rc = ops->module_of(arg, marks[i], &module);
        if (rc == 0)
            rc = ops->count(arg, module, &functions);
        if (rc == 0 && functions > 0) {
            all = calloc(functions, sizeof(*all));
            rc = all ? ops->functions(arg, module, functions, all)
                     : CUDA_MODULES_NO_MEMORY;
        }
        while (rc == 0 && done < functions) {
            rc = ops->load(arg, all[done]);
            done += rc == 0;
        }
        loaded += done > 0 ? (int32_t)done - 1 : 0;
        free(all);
    }
    *ret_loaded = loaded;
    return rc;
}

#endif
