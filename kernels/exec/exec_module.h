/* exec_module.h - for nvcc: a family's installer, and a kernel by which the
 * driver finds the module that the family's file is. */
#ifndef MGPU_KERNELS_EXEC_EXEC_MODULE_H
#define MGPU_KERNELS_EXEC_EXEC_MODULE_H

namespace
{

/* Never launched. */
static __global__ void module_mark()
{
}

} // namespace

#define CUDA_FAMILY(name)                              \
    extern "C" const void *cuda_module_##name(void)    \
    {                                                  \
        return reinterpret_cast<void *>(&module_mark); \
    }                                                  \
    extern "C" void cuda_##name(struct device_ops *ops)
#endif
