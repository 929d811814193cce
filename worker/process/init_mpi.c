/* init_mpi.c - MPI_Init and MPI_Finalize, with their preparation and clean-up.
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "jobs/log/shm_dir.h"
#include "worker/comm/comm.h"

static struct shm_dir shared = {.fd = -1};

/* Sets the directory of the memory that Open MPI shares with the other ranks of
 * the node, which get its path. The default is /dev/shm, where nobody removes
 * it when the ranks and mpirun are killed. A value that the user set stays, and
 * so does the default if no directory can be made. */
static void choose_shared(void)
{
    static const char where[] = "OMPI_MCA_btl_vader_backing_directory";
    (void)shm_dir_sweep(SHM_DIR_BASE);
    if (getenv(where) == NULL && shm_dir_make(SHM_DIR_BASE, &shared, NULL) == 0)
        (void)setenv(where, shared.path, 1);
}

int comm_mpi_start(struct error *err)
{
    int level = 0;
    choose_shared();
    /* The sender's thread never calls MPI. */
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return error_set(err, ERR_EXTERN, "MPI cannot be started");
    return 0;
}

void comm_mpi_lend(void)
{
    choose_shared();
}

void comm_mpi_take_back(void)
{
    shm_dir_remove(&shared);
}

static volatile sig_atomic_t code_after_crash;

static void on_crash(int signo)
{
    static const char words[] =
        "mgpu-worker: Open MPI crashed in MPI_Finalize, after the job\n";
    (void)signo;
    ssize_t n = write(STDERR_FILENO, words, sizeof(words) - 1);
    (void)n;
    _exit(code_after_crash);
}

/* Open MPI 4.1 ends PMIx, unloads the module through which it heard PMIx's
 * events, and ends the thread that they run on, in this order: an event that
 * comes last of all jumps to where nothing is. The job is over by then. */
static void survive_crash(int exit_code)
{
    struct sigaction act = {.sa_handler = on_crash};
    (void)sigemptyset(&act.sa_mask);
    code_after_crash = exit_code;
    (void)sigaction(SIGSEGV, &act, NULL);
    (void)sigaction(SIGBUS, &act, NULL);
}

void comm_mpi_end(int exit_code)
{
    survive_crash(exit_code);
    (void)MPI_Finalize();
    shm_dir_remove(&shared);
}
