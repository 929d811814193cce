/* mpirun_version.h - which release of Open MPI an mpirun belongs to.
 *
 * Open MPI 4 has a launcher of its own, and Open MPI 5 runs PRRTE's: their
 * options differ, and each refuses some of the other's. The mpirun that starts
 * ranks need not be of the release that this program was compiled with (a
 * module, `local.mpirun`, a node of a cluster), so it is asked.
 *
 * `mpirun --version` prints "mpirun (Open MPI) 4.1.4" or "mpirun (Open MPI)
 * 5.0.7", prterun "prterun (PRRTE) 3.0.8". Measured: 10 to 15 ms.
 */
#ifndef MGPU_SLURM_LAUNCH_MPIRUN_VERSION_H
#define MGPU_SLURM_LAUNCH_MPIRUN_VERSION_H

#include "jobs/base/error.h"

enum mpirun_kind {
    MPIRUN_OMPI_4,
    MPIRUN_OMPI_5, /* and later ones */
    MPIRUN_PRRTE,  /* prterun, called by its own name */
};

/* in   text  what `program --version` printed
 * err  ERR_CONFIG the program belongs to another MPI or to an older release */
int mpirun_version_parse(const char *program, const char *text,
                         enum mpirun_kind *ret, struct error *err) MUST_CHECK;

/* Runs `program --version`.
 *
 * in   program  a path, or a name for $PATH
 * err  ERR_CONFIG as mpirun_version_parse(), or the program cannot be run:
 *      another try would fail, too;  ERR_TIMEOUT it does not answer in time */
int mpirun_version_ask(const char *program, enum mpirun_kind *ret,
                       struct error *err) MUST_CHECK;

#endif
