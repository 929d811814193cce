/* device.h - the device that a test runs on: the host, or with
 * MGPU_TEST_DEVICE=cuda the first GPU, by the plug-in of this build. */
#ifndef MGPU_TESTS_DEVICE_H
#define MGPU_TESTS_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"

static inline bool test_on_gpu(void)
{
    const char *want = getenv("MGPU_TEST_DEVICE");
    return want != NULL && strcmp(want, "cuda") == 0;
}

static inline int test_device(int32_t threads, struct device **ret,
                              struct error *err)
{
    const char *bin = getenv("MGPU_BIN");
    char path[4096];
    if (!test_on_gpu())
        return device_host_create(threads, ret, err);
    if (bin != NULL) {
        (void)snprintf(path, sizeof(path), "%s/../lib/libmgpu-cuda.so", bin);
        (void)setenv("MGPU_CUDA_PLUGIN", path, 0);
    }
    return device_cuda_create(0, ret, err);
}

#endif
