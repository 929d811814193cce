/* finalize.c - a job that is done is done, whatever MPI_Finalize does. Ours
 * goes before MPI's and crashes as it can: in a thread, by a call into what is
 * not mapped any more. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mpi/mpi_tap.h"
#include "worker/comm/comm.h"

static void *call_nothing(void *page)
{
    void (*gone)(void);
    memcpy(&gone, &page, sizeof(gone));
    gone();
    return NULL;
}

int MPI_Finalize(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    pthread_t thread;
    void *page = mmap(NULL, bytes, PROT_READ | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)PMPI_Finalize();
    if (page != MAP_FAILED && munmap(page, bytes) == 0 &&
        pthread_create(&thread, NULL, call_nothing, page) == 0)
        (void)pthread_join(thread, NULL);
    return MPI_SUCCESS;
}

int main(void)
{
    struct error err = ERROR_INIT;
    int rc = 1;
    if (comm_mpi_start(&err) < 0)
        return 1;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
    (void)mpi_ok(true, NULL, "what prove wants is the exit code");
    rc = mpi_rank == 0 ? tap_done() : 0;
    (void)fflush(NULL);
    comm_mpi_end(rc);
    _exit(1); /* it has not crashed, which proves nothing */
}
