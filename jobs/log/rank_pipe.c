/* rank_pipe.c - find this rank's pipe and join it; see rank_pipe.h. */
#include "jobs/log/rank_pipe.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void rank_pipe_name(int32_t rank, char ret[RANK_PIPE_CAP])
{
    (void)snprintf(ret, RANK_PIPE_CAP, "out.%" PRId32, rank);
}

/* Our rank, before MPI is initialized. mpirun under Slurm passes the batch
 * step's SLURM_PROCID to its ranks: check it last. */
static const char *own_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (text && *text && strlen(text) <= 9 &&
            strspn(text, "0123456789") == strlen(text))
            return text;
    }
    return NULL;
}

void rank_pipe_join(const char *launch)
{
    const char *rank = own_rank(), *name = strrchr(launch, '/');
    char path[PATH_MAX];
    struct stat st;
    if (!rank || !name)
        return;
    int n = snprintf(path, sizeof(path), "%.*s/out.%s", (int)(name - launch),
                     launch, rank);
    if (n < 0 || n >= PATH_MAX)
        return;
    /* Does not block: the reader may be on another machine. */
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid == geteuid() &&
        fcntl(fd, F_SETFL, 0) == 0 && dup2(fd, STDOUT_FILENO) >= 0)
        (void)dup2(fd, STDERR_FILENO);
    /* mpirun's was a terminal: a user who follows the log sees each complete
     * line at once. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)close(fd);
}
