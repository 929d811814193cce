/* hwloc.h - hwloc components to disable under mpirun and MPI_Init.
 *
 * Open MPI asks hwloc for cores, memory and network cards. Debian's
 * libhwloc-plugins also connects to every possible X display, ten of them by
 * socket and by TCP in each process, to find the GPU behind it, and other
 * plug-ins start a vendor's driver on every GPU of the machine. Open MPI uses
 * none of their results. "-name" disables a built-in component; a listed
 * plug-in file is not even loaded, nor are its libraries. hwloc ignores names
 * that it does not have. */
#ifndef MGPU_SLURM_LAUNCH_HWLOC_H
#define MGPU_SLURM_LAUNCH_HWLOC_H

#define HWLOC_LEFT_OUT "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero"
#define HWLOC_NOT_LOADED                                                     \
    "hwloc_gl.so,hwloc_opencl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_rsmi.so," \
    "hwloc_levelzero.so"

#endif
