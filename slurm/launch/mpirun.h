/* mpirun.h - arguments and environment of ranks on this machine: under mpirun,
 * or one rank without a launcher.
 *
 * Measured with Open MPI 4.1.4 and 5.0.7: mpirun exits with the code of the
 * first rank that exited with a code other than 0, and with 128 + N if that
 * rank died of signal N. When a rank fails, or mpirun receives SIGTERM, the
 * other ranks get SIGTERM after 1 s with Open MPI 4 and after 0.25 s with Open
 * MPI 5, and SIGKILL after the same time again. When mpirun is killed, Open MPI
 * 4 ends the ranks within 1.4 s; with Open MPI 5 a rank ends at its next call
 * of MPI. */
#ifndef MGPU_SLURM_LAUNCH_MPIRUN_H
#define MGPU_SLURM_LAUNCH_MPIRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "slurm/launch/mpirun_version.h"

/* Appends the options that every start by an mpirun of this kind has. */
int mpirun_add_common(struct buf *b, enum mpirun_kind kind,
                      struct error *err) MUST_CHECK;

/* mpirun's arguments for `ranks` ranks of `worker --launch <dir>/launch.json`
 *
 * in   program_mpi  the program is the MPI process: `worker --program-mpi`
 * own  argv is a NULL-terminated array; the caller frees it and its strings
 *      with one free() */
char **mpirun_argv(const char *mpirun, enum mpirun_kind kind, int32_t ranks,
                   const char *worker, const char *dir, bool program_mpi,
                   struct error *err) MUST_CHECK;

/* The arguments of one rank without a launcher.
 * own  as mpirun_argv() */
char **mpirun_argv_alone(const char *worker, const char *dir,
                         struct error *err) MUST_CHECK;

/* Where the user is at home. MPI_Init of Open MPI 5 fails without HOME, which a
 * service of the system may not have.
 *
 * Returns the variable's value; else what the user database says, in `buf`; or
 * "/". */
const char *mpirun_home(char *buf, size_t cap);

/* The environment of an attempt: a few variables of the daemon's own, and no
 * others of the daemon's environment.
 *
 * in   threads  for each rank's compute threads, >= 1, unless our own
 *               environment has OMP_NUM_THREADS
 *      bind     the attempt has its cores alone, and the ranks divide them
 *      cuda     the value of CUDA_VISIBLE_DEVICES; "" hides every GPU
 * own  as mpirun_argv() */
char **mpirun_env(const char *dir, int32_t threads, bool bind, const char *cuda,
                  struct error *err) MUST_CHECK;

#endif
