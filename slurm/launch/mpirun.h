/* mpirun.h - how ranks are called on this machine: by Open MPI's launcher, or
 * one of them by itself.
 *
 * Measured with Open MPI 4.1.4: mpirun exits with the code of the first rank
 * that exited with another than 0, and with 128 + N when that rank died of
 * signal N; when a rank fails, the others get SIGTERM and, a second later,
 * SIGKILL.
 */
#ifndef MGPU_SLURM_LAUNCH_MPIRUN_H
#define MGPU_SLURM_LAUNCH_MPIRUN_H

#include <stdint.h>

#include "jobs/base/buf.h"

/* mpirun's arguments for `ranks` ranks of `worker --launch <dir>/launch.json`
 *
 * own  argv is a NULL-terminated array; the caller ends it with free(), which
 *      frees the strings too
 */
char **mpirun_argv(const char *mpirun, int32_t ranks, const char *worker,
                   const char *dir, struct error *err) MUST_CHECK;

/* The arguments for one rank, with no launcher.
 * own  as mpirun_argv() */
char **mpirun_argv_alone(const char *worker, const char *dir,
                         struct error *err) MUST_CHECK;

/* The environment of an attempt: a few variables of the daemon's own, and
 * nothing else that its surroundings happened to set.
 *
 * in   threads  for each rank's compute threads, >= 1
 *      cuda     the value of CUDA_VISIBLE_DEVICES; "" hides every GPU
 * own  as mpirun_argv()
 */
char **mpirun_env(const char *dir, int32_t threads, const char *cuda,
                  struct error *err) MUST_CHECK;

#endif
