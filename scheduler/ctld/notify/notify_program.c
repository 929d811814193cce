/* notify_program.c - see notify_program.h. */
#include "scheduler/ctld/notify/notify_program.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/spawn_program.h"

/* Positioned at its beginning; not inherited as itself. */
static int text_file(const char *text, struct error *err)
{
    size_t len = strlen(text), at = 0;
    int fd = memfd_create("notice", MFD_CLOEXEC);
    while (fd >= 0 && at < len) {
        ssize_t n = write(fd, text + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    if (fd < 0 || at < len || lseek(fd, 0, SEEK_SET) < 0) {
        (void)error_sys(err, errno, "write the text of a notice");
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    return fd;
}

/* An errno. */
static int spawn(char *const *argv, int text_fd, pid_t *ret)
{
    /* A variable that is not set here is not the daemon's to give. */
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                home[] = "HOME=/nonexistent", lang[] = "LC_ALL=C.UTF-8";
    char *env[] = {path, home, lang, NULL};
    const struct spawn_program p = {.program = argv[0],
                                    .argv = (const char *const *)argv,
                                    .env = env,
                                    .dir = "/",
                                    .fds = {text_fd, SPAWN_NULL, SPAWN_NULL},
                                    .n_fds = 3,
                                    .where = SPAWN_GROUP};
    return spawn_program(&p, ret);
}

int notify_program_start(char *const *argv, const char *text, pid_t *ret,
                         struct error *err)
{
    pid_t pid = 0;
    int fd = text_file(text, err);
    if (fd < 0)
        return -1;
    int rc = spawn(argv, fd, &pid);
    (void)close(fd);
    if (rc != 0)
        return error_sys(err, rc, "start '%s'", argv[0]);
    *ret = pid;
    return 0;
}

bool notify_program_ended(pid_t pid, struct error *err)
{
    int status = 0;
    pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0)
        (void)error_sys(err, errno, "wait for the program");
    else if (WIFSIGNALED(status))
        (void)error_set(err, ERR_EXTERN, "the program died of signal %d",
                        WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        (void)error_set(err, ERR_EXTERN, "the program ended with status %d",
                        WEXITSTATUS(status));
    return true;
}

void notify_program_kill(pid_t pid)
{
    if (pid <= 1)
        return;
    (void)kill(-pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
