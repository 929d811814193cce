/* spawn_program.c - see spawn_program.h. */
#include "slurm/launch/spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

static int set_files(posix_spawn_file_actions_t *fa, int out)
{
    int rc = posix_spawn_file_actions_addopen(fa, 0, "/dev/null", O_RDONLY, 0);
    for (int fd = 1; out >= 0 && fd <= 2 && rc == 0; fd++)
        rc = posix_spawn_file_actions_adddup2(fa, out, fd);
    return rc;
}

static void set_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(attr, &none);
    (void)posix_spawnattr_setsigdefault(attr, &all);
    (void)posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK |
                                             POSIX_SPAWN_SETSIGDEF);
}

int spawn_program(const char *program, char *const argv[], int out, pid_t *ret)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&fa);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        set_signals(&attr);
        rc = set_files(&fa, out);
        if (rc == 0)
            rc = posix_spawnp(ret, program, &fa, &attr, argv, environ);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&fa);
    return rc;
}
