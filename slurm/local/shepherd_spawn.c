/* shepherd_spawn.c - spawn a shepherd with exactly five descriptors; see
 * shepherd_spawn.h. */
#include "slurm/local/shepherd_spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/spawn_program.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/mpirun.h"

/* Descriptors are moved here first, so that filling one of the fixed numbers
 * never closes a descriptor that another one needs. */
enum { OUT_OF_THE_WAY = 10 };

/* All signals stay blocked until the shepherd reads them: early ones stay
 * pending. Returns an errno, not -1, as posix_spawn(3) itself. */
static int spawn(const struct shepherd_spawn *s, char *const *env, int lock,
                 int go, pid_t *ret_pid)
{
    char log[PATH_MAX];
    int n = snprintf(log, sizeof(log), "%s/shepherd.log", s->dir);
    if (n < 0 || n >= PATH_MAX)
        return ENAMETOOLONG;
    const char *const argv[] = {s->program, s->dir, s->mpirun, s->worker, NULL};
    const struct spawn_program p = {
        .program = s->program,
        .argv = argv,
        .env = env,
        .fds = {SPAWN_NULL, SPAWN_NULL,
                SPAWN_LOG, [SHEPHERD_LOCK_FD] = lock, [SHEPHERD_GO_FD] = go},
        .n_fds = SHEPHERD_GO_FD + 1,
        .log = log,
        .is_blocked = true,
        .where = SPAWN_SESSION};
    return spawn_program(&p, ret_pid);
}

/* The daemon may have raised its own limit, which a program must not inherit:
 * programs that still use select(2) break beyond 1024. posix_spawn(3) has no
 * attribute for it, but the shepherd has not been let go yet. */
static int limit_fds(pid_t pid, int64_t max, struct error *err)
{
    struct rlimit fds;
    if (max <= 0)
        return 0;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &fds) < 0)
        return error_sys(err, errno, "the limits of a shepherd");
    fds.rlim_cur = (rlim_t)max < fds.rlim_max ? (rlim_t)max : fds.rlim_max;
    if (prlimit(pid, RLIMIT_NOFILE, &fds, NULL) < 0)
        return error_sys(err, errno, "limit the files of a shepherd");
    return 0;
}

/* Everything that it starts inherits them. */
static int limit_cores(pid_t pid, const cpu_set_t *cores, struct error *err)
{
    if (cores && sched_setaffinity(pid, sizeof(*cores), cores) < 0)
        return error_sys(err, errno, "limit the cores of a shepherd");
    return 0;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

int shepherd_spawn(const struct shepherd_spawn *s, pid_t *ret_pid,
                   int *ret_pidfd, struct error *err)
{
    enum { OURS, THEIRS, LOCK, GO, N_FDS };
    int fds[N_FDS] = {-1, -1, -1, -1};
    pid_t pid = -1;
    int pidfd = -1;
    char **env = mpirun_env(s->dir, s->threads, s->cores != NULL, s->cuda, err);
    if (!env)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
        (fds[LOCK] = fcntl(s->lock_fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)) < 0 ||
        (fds[GO] = fcntl(fds[THEIRS], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)) < 0) {
        (void)error_sys(err, errno, "descriptors for a shepherd");
        goto fail;
    }
    int rc = spawn(s, env, fds[LOCK], fds[GO], &pid);
    if (rc != 0) {
        pid = -1;
        (void)error_sys(err, rc, "run '%s'", s->program);
        goto fail;
    }
    if (limit_fds(pid, s->max_fds, err) < 0 ||
        limit_cores(pid, s->cores, err) < 0)
        goto fail;
    pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        (void)error_sys(err, errno, "watch a process");
        goto fail;
    }
    ssize_t sent;
    do
        sent = send(fds[OURS], "g", 1, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != 1) {
        (void)error_sys(err, errno, "let the shepherd go");
        goto fail;
    }
    free(env);
    close_all(fds, N_FDS);
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;

fail:
    free(env);
    close_all(fds, N_FDS);
    /* It reads the end of its pipe and exits at once. */
    if (pid > 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    if (pidfd >= 0)
        (void)close(pidfd);
    return -1;
}
