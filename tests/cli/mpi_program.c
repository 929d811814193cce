/* mpi_program.c - an MPI program of a user, for launch.bats: each rank says
 * who it is, and rank 0 the sum of all. With an argument, one rank ends.
 *
 *   mpi_program [exit CODE | abort CODE | kill SIGNAL]
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank = -1, size = -1, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    const char *mgpu = getenv("MGPU_RANK"),
               *gpu = getenv("CUDA_VISIBLE_DEVICES");
    printf("said %d of %d, MGPU_RANK %s, GPU %s\n", rank, size,
           mgpu ? mgpu : "-", gpu ? gpu : "-");
    if (rank == 0)
        printf("said sum %d\n", sum);
    (void)fflush(stdout);
    if (argc > 2 && rank == size - 1) {
        int n = atoi(argv[2]);
        if (strcmp(argv[1], "exit") == 0)
            exit(n);
        if (strcmp(argv[1], "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, n);
        (void)raise(n);
    }
    if (argc > 2) /* until somebody ends this rank, too */
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
