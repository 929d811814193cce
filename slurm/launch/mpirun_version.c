/* mpirun_version.c - run `mpirun --version` and parse it; see
 * mpirun_version.h. */
#include "slurm/launch/mpirun_version.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/spawn_program.h"

/* A file server that has just come back answers late. */
static const double ANSWER_S = 20;

enum { TEXT_CAP = 4096, OLDEST_OMPI = 4, FIRST_WITH_PRRTE = 5 };

/* ---- the text ------------------------------------------------------------ */
/* Length of the first line, for a message. */
static int line_length(const char *text)
{
    return (int)strcspn(text, "\r\n");
}

/* The number after "(name) ", or -1. A wrapper may print lines of its own. */
static long major_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    char *end;
    if (!at)
        return -1;
    at += strlen(name);
    long major = strtol(at, &end, 10);
    return end > at && *end == '.' ? major : -1;
}

int mpirun_version_parse(const char *program, const char *text,
                         enum mpirun_kind *ret, struct error *err)
{
    long major = major_of(text, "(Open MPI) ");
    if (major < 0)
        major = major_of(text, "(OpenRTE) "); /* orterun of Open MPI 4 */
    if (major >= OLDEST_OMPI) {
        *ret = major < FIRST_WITH_PRRTE ? MPIRUN_OMPI_4 : MPIRUN_OMPI_5;
        return 0;
    }
    if (major < 0 && major_of(text, "(PRRTE) ") > 0) {
        *ret = MPIRUN_PRRTE;
        return 0;
    }
    return error_set(err, ERR_CONFIG,
                     "'%s' is not mpirun of Open MPI 4 or 5: --version prints "
                     "'%.*s'",
                     program, line_length(text) < 60 ? line_length(text) : 60,
                     text);
}

/* ---- the program --------------------------------------------------------- */
/* Read until the end of the answer, a full buffer or ANSWER_S.
 * Returns whether the program has answered. */
static bool read_answer(int fd, char text[TEXT_CAP])
{
    double until_s = clock_real.now_s(&clock_real) + ANSWER_S;
    size_t n = 0;
    ssize_t got = 1;
    while (got != 0 && n < TEXT_CAP - 1) {
        double rest_s = until_s - clock_real.now_s(&clock_real);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (rest_s <= 0)
            break;
        if (poll(&p, 1, (int)(rest_s * 1e3) + 1) <= 0)
            continue;
        got = read(fd, text + n, TEXT_CAP - 1 - n);
        if (got < 0 && errno != EINTR)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    return got == 0 || n > 0;
}

int mpirun_version_ask(const char *program, enum mpirun_kind *ret,
                       struct error *err)
{
    const char *const argv[] = {program, "--version", NULL};
    char text[TEXT_CAP];
    int ends[2];
    pid_t pid = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    const struct spawn_program asked = {.program = program,
                                        .argv = argv,
                                        .fds = {SPAWN_NULL, ends[1], ends[1]},
                                        .n_fds = 3};
    int rc = spawn_program(&asked, &pid);
    (void)close(ends[1]);
    if (rc != 0) {
        (void)close(ends[0]);
        return error_set(err, ERR_CONFIG, "cannot run '%s': %s", program,
                         strerror(rc));
    }
    bool has_answered = read_answer(ends[0], text);
    (void)close(ends[0]);
    /* Its exit status does not matter. */
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (!has_answered)
        return error_set(err, ERR_TIMEOUT,
                         "'%s --version' has not answered in %.0f s", program,
                         ANSWER_S);
    return mpirun_version_parse(program, text, ret, err);
}
