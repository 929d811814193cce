/* cancel_own.c - see cancel_own.h. */
#include "slurm/batch/cancel_own.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "jobs/base/clock.h"
#include "jobs/base/spawn_program.h"

static const double ANSWER_S = 10;
enum { TICK_MS = 20 };

void cancel_own_program(const char *srun, char *ret, size_t cap)
{
    const char *slash = srun ? strrchr(srun, '/') : NULL;
    int dir = slash ? (int)(slash - srun) + 1 : 0;
    (void)snprintf(ret, cap, "%.*sscancel", dir, srun ? srun : "");
}

int cancel_own(const char *srun, const char *slurm_id, struct error *err)
{
    char program[PATH_MAX], id[64];
    const char *const argv[] = {"scancel", "--quiet", id, NULL};
    const struct spawn_program scancel = {
        .program = program,
        .argv = argv,
        .fds = {SPAWN_NULL, SPAWN_SAME, SPAWN_SAME},
        .n_fds = 3};
    double until_s = clock_real.now_s(&clock_real) + ANSWER_S;
    int status = 0;
    pid_t pid = -1, got = 0;
    cancel_own_program(srun, program, sizeof(program));
    (void)snprintf(id, sizeof(id), "%s", slurm_id);
    int rc = spawn_program(&scancel, &pid);
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
