/* mpi_tap.h - TAP from a test that runs on several ranks: every rank takes
 * part in each result, rank 0 reports it. */
#ifndef MGPU_TESTS_MPI_TAP_H
#define MGPU_TESTS_MPI_TAP_H

#include <mpi.h>
#include <stdio.h>

#include "jobs/base/error.h"
#include "tests/leak.h"
#include "tests/tap.h"

static int mpi_rank, mpi_size;

static inline void mpi_tap_start(int *argc, char ***argv)
{
    (void)MPI_Init(argc, argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
}

/* True when it holds on every rank; `err` is shown where it does not. */
static inline bool mpi_ok(bool cond, const struct error *err, const char *what)
{
    int mine = cond ? 1 : 0, all = 0;
    if (!cond)
        tap_diag("rank %d of %d: %s: %s", mpi_rank, mpi_size, what,
                 err != NULL ? err->msg : "");
    (void)MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (mpi_rank == 0)
        (void)ok(all != 0, "%s", what);
    return all != 0;
}

static inline int mpi_tap_done(void)
{
    int leaks = leaks_now();
    (void)mpi_ok(leaks == 0, NULL, "no leaks");
    int rc = mpi_rank == 0 ? tap_done() : 0;
    (void)MPI_Finalize();
    return rc;
}

#endif
