/* hwloc.h - what hwloc is told not to look for, under mpirun and MPI_Init.
 *
 * Open MPI reads from it where cores, memory and network cards are. Debian's
 * libhwloc-plugins also dials every X display there could be, ten of them by
 * socket and by TCP in each process that asks, to find the GPU behind it, and
 * others start a vendor's driver on every GPU of the machine. Open MPI takes
 * no word of theirs. "-name" leaves out what is built in; a file that is
 * listed is not even loaded, which spares its libraries, too. hwloc passes
 * over names that it does not have.
 */
#ifndef MGPU_SLURM_LAUNCH_HWLOC_H
#define MGPU_SLURM_LAUNCH_HWLOC_H

#define HWLOC_LEFT_OUT "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero"
#define HWLOC_NOT_LOADED                                                     \
    "hwloc_gl.so,hwloc_opencl.so,hwloc_cuda.so,hwloc_nvml.so,hwloc_rsmi.so," \
    "hwloc_levelzero.so"

#endif
