/* cancel_own.c - see cancel_own.h. */
#include "slurm/batch/cancel_own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"

extern char **environ;

static const double ANSWER_S = 10;
enum { TICK_MS = 20 };

void cancel_own_program(const char *srun, char *ret, size_t cap)
{
    const char *slash = srun ? strrchr(srun, '/') : NULL;
    int dir = slash ? (int)(slash - srun) + 1 : 0;
    (void)snprintf(ret, cap, "%.*sscancel", dir, srun ? srun : "");
}

/* An errno, as posix_spawn(3). We block signals; scancel starts with none
 * blocked. */
static int spawn(const char *program, const char *slurm_id, pid_t *ret)
{
    char id[64], quiet[] = "--quiet";
    char *argv[] = {(char[]){"scancel"}, quiet, id, NULL};
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none, all;
    (void)snprintf(id, sizeof(id), "%s", slurm_id);
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&fa);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
        (void)posix_spawnattr_setsigmask(&attr, &none);
        (void)posix_spawnattr_setsigdefault(&attr, &all);
        (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF);
        if (rc == 0)
            rc = posix_spawnp(ret, program, &fa, &attr, argv, environ);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&fa);
    return rc;
}

int cancel_own(const char *srun, const char *slurm_id, struct error *err)
{
    char program[PATH_MAX];
    double until_s = clock_real.now_s(&clock_real) + ANSWER_S;
    int status = 0;
    pid_t pid = -1, got = 0;
    cancel_own_program(srun, program, sizeof(program));
    int rc = spawn(program, slurm_id, &pid);
    if (rc != 0)
        return error_set(err, ERR_EXTERN, "cannot run '%s': %s", program,
                         strerror(rc));
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 ||
           (got < 0 && errno == EINTR)) {
        if (clock_real.now_s(&clock_real) >= until_s)
            (void)kill(pid, SIGKILL);
        (void)poll(NULL, 0, TICK_MS);
    }
    if (got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return error_set(err, ERR_EXTERN, "'%s %s' has failed", program, slurm_id);
}
