/* spawn_program.c - see spawn_program.h. */
#include "jobs/base/spawn_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

/* Returns an errno, as all that follow. */
static int set_file(posix_spawn_file_actions_t *fa,
                    const struct spawn_program *p, int to)
{
    int fd = p->fds[to];
    if (fd == SPAWN_NULL)
        return posix_spawn_file_actions_addopen(
            fa, to, "/dev/null", to == 0 ? O_RDONLY : O_WRONLY, 0);
    if (fd == SPAWN_LOG)
        return posix_spawn_file_actions_addopen(
            fa, to, p->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    return fd == SPAWN_SAME ? 0 : posix_spawn_file_actions_adddup2(fa, fd, to);
}

static int set_files(posix_spawn_file_actions_t *fa,
                     const struct spawn_program *p)
{
    int rc = 0;
    for (int to = 0; to < p->n_fds && rc == 0; to++)
        rc = set_file(fa, p, to);
    if (rc == 0 && p->dir)
        rc = posix_spawn_file_actions_addchdir_np(fa, p->dir);
    return rc == 0 ? posix_spawn_file_actions_addclosefrom_np(fa, p->n_fds)
                   : rc;
}

static int set_signals(posix_spawnattr_t *attr, const struct spawn_program *p)
{
    static const short flags[] = {[SPAWN_GROUP] = POSIX_SPAWN_SETPGROUP,
                                  [SPAWN_SESSION] = POSIX_SPAWN_SETSID};
    sigset_t all, mask;
    (void)sigfillset(&all);
    (void)(p->is_blocked ? sigfillset(&mask) : sigemptyset(&mask));
    int rc = posix_spawnattr_setsigmask(attr, &mask);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attr, &all);
    return rc == 0 ? posix_spawnattr_setflags(
                         attr, (short)(POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF | flags[p->where]))
                   : rc;
}

int spawn_program(const struct spawn_program *p, pid_t *ret)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    int rc = posix_spawn_file_actions_init(&fa);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = set_files(&fa, p);
        if (rc == 0)
            rc = set_signals(&attr, p);
        /* The prototype lacks a const that it respects. */
        if (rc == 0)
            rc =
                posix_spawnp(ret, p->program, &fa, &attr,
                             (char *const *)p->argv, p->env ? p->env : environ);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&fa);
    return rc;
}
