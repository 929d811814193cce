/* attempt_dir.c - read and write the files of an attempt's directory; see
 * attempt_dir.h. */
#include "slurm/launch/attempt_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"

static int path_of(const char *dir, const char *name, char ret[PATH_MAX],
                   struct error *err)
{
    int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= PATH_MAX)
        return error_set(err, ERR_INVAL, "'%s' is too long", dir);
    return 0;
}

int attempt_write(const char *dir, const char *name, const char *text,
                  struct error *err)
{
    return file_atomic_put(dir, name, text, strlen(text), FILE_NAME_CACHED,
                           err);
}

int attempt_put(const char *dir, const char *name, const char *text,
                struct error *err)
{
    return file_atomic_put(dir, name, text, strlen(text), FILE_CACHED, err);
}

int attempt_read(const char *dir, const char *name, char *ret, size_t cap,
                 struct error *err)
{
    char path[PATH_MAX];
    if (path_of(dir, name, path, err) < 0)
        return -1;
    /* The job may write here: do not block on a FIFO in its place. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return error_set(err, ERR_STATE, "'%s' is not a file", path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        (void)close(fd);
        return error_set(err, ERR_DENIED,
                         "'%s' may have been written by others (uid %lu, mode "
                         "%04o)",
                         path, (unsigned long)st.st_uid,
                         (unsigned)(st.st_mode & 07777));
    }
    size_t len = 0;
    ssize_t n = 0;
    while (len < cap) {
        n = read(fd, ret + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    int saved = errno;
    (void)close(fd);
    if (n < 0)
        return error_sys(err, saved, "read '%s'", path);
    if (len >= cap)
        return error_set(err, ERR_LIMIT, "'%s' is too long", path);
    ret[len] = '\0';
    return 0;
}

int attempt_launch_read(const char *dir, struct wire_launch *ret,
                        struct error *err)
{
    char *text = malloc(WIRE_LAUNCH_MAX_BYTES + 1);
    if (!text)
        return error_set(err, ERR_NOMEM, "launch.json");
    struct error why = ERROR_INIT;
    int rc =
        attempt_read(dir, "launch.json", text, WIRE_LAUNCH_MAX_BYTES + 1, &why);
    /* Another try finds the same file. */
    if (rc < 0)
        (void)error_set(err, why.code == ERR_LIMIT ? ERR_INVAL : why.code, "%s",
                        why.msg);
    if (rc == 0)
        rc = wire_launch_parse(text, strlen(text), ret, err);
    free(text);
    return rc;
}

int attempt_has(const char *dir, const char *name, struct error *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (path_of(dir, name, path, err) < 0)
        return -1;
    if (lstat(path, &st) == 0)
        return 1;
    return errno == ENOENT ? 0 : error_sys(err, errno, "look at '%s'", path);
}

int attempt_lock(const char *dir, int *ret_fd, struct error *err)
{
    char path[PATH_MAX];
    if (path_of(dir, "lock", path, err) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int saved = errno;
        (void)close(fd);
        return error_sys(err, saved, "lock '%s'", path); /* EAGAIN: BUSY */
    }
    *ret_fd = fd;
    return 0;
}

int attempt_pid_write(int lock_fd, const struct attempt_pid *pid,
                      struct error *err)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "%d %" PRIu64 "\n", (int)pid->pid,
                     pid->start_ticks);
    if (n < 0 || ftruncate(lock_fd, 0) < 0 ||
        pwrite(lock_fd, text, (size_t)n, 0) != n)
        return error_sys(err, errno, "write the lock file");
    return 0;
}

int attempt_pid_read(const char *dir, struct attempt_pid *ret,
                     struct error *err)
{
    char text[64];
    if (attempt_read(dir, "lock", text, sizeof(text), err) < 0)
        return -1;
    char *end;
    long pid = strtol(text, &end, 10);
    if (pid <= 1 || pid > INT_MAX || *end != ' ')
        return error_set(err, ERR_STATE, "no process in '%s/lock'", dir);
    ret->pid = (pid_t)pid;
    ret->start_ticks = strtoull(end + 1, NULL, 10);
    return 0;
}

enum { EXIT_BYTES = 192 };         /* the longest is less */
static const double MS_MAX = 9e15; /* largest integer range that a double
                                    * holds exactly */
static const char mark_key[] = "\"submission\":\"";

int attempt_exit_reserve(const char *dir, struct error *err)
{
    char blank[EXIT_BYTES], path[PATH_MAX];
    if (path_of(dir, ".exit.new", path, err) < 0)
        return -1;
    (void)unlink(path); /* that of a process that was killed */
    memset(blank, ' ', sizeof(blank));
    return file_atomic_create(dir, ".exit.new", blank, sizeof(blank), err);
}

int attempt_exit_write(const char *dir, const struct attempt_exit *x,
                       struct error *err)
{
    char text[EXIT_BYTES];
    char slurm[32] = "", used[64] = "", mark[40] = "";
    if (x->slurm_id > 0)
        (void)snprintf(slurm, sizeof(slurm), ",\"slurm_id\":%" PRIu32,
                       x->slurm_id);
    if (x->submission[0] != '\0')
        (void)snprintf(mark, sizeof(mark), ",\"submission\":\"%s\"",
                       x->submission);
    if (x->cores_ms > 0)
        (void)snprintf(used, sizeof(used),
                       ",\"cpu_ms\":%" PRId64 ",\"cores_ms\":%" PRId64,
                       x->cpu_ms, x->cores_ms);
    (void)snprintf(text, sizeof(text),
                   "{\"code\":%d,\"signal\":%d,\"when\":%.3f%s%s%s}\n", x->code,
                   x->signal, x->when_s, slurm, mark, used);
    return file_atomic_put_over(dir, "exit", ".exit.new", text, strlen(text),
                                err);
}

/* The number after "key":, in the one form that attempt_exit_write() writes;
 * rejects the inf and nan that strtod() accepts, because they would pass range
 * checks. */
static int number(const char *text, const char *key, double *ret)
{
    const char *p = strstr(text, key);
    if (!p)
        return -1;
    char *end;
    p += strlen(key);
    *ret = strtod(p, &end);
    return end > p && isfinite(*ret) ? 0 : -1;
}

/* ---- submissions ----------------------------------------------------------
 */
static const char hex[] = "0123456789abcdef";

bool attempt_is_submission(const char *text)
{
    size_t n = strspn(text, hex);
    return n > 0 && n < ATTEMPT_SUBMISSION_CAP && text[n] == '\0';
}

/* Parses the mark at p, which `stop` follows. False: there is none. */
static bool mark_at(const char *p, char stop, char ret[ATTEMPT_SUBMISSION_CAP])
{
    size_t n = strspn(p, hex);
    if (n == 0 || n >= ATTEMPT_SUBMISSION_CAP || p[n] != stop)
        return false;
    memcpy(ret, p, n);
    ret[n] = '\0';
    return true;
}

int attempt_submission_write(const char *dir, const char *submission,
                             struct error *err)
{
    char text[ATTEMPT_SUBMISSION_CAP + 1];
    (void)snprintf(text, sizeof(text), "%s\n", submission);
    return attempt_write(dir, "submission", text, err);
}

/* Whether there is a last submission, and it is not this one. */
static bool is_other(const char *dir, const char *submission)
{
    char text[64];
    char last[ATTEMPT_SUBMISSION_CAP];
    return submission[0] != '\0' &&
           attempt_read(dir, "submission", text, sizeof(text), NULL) == 0 &&
           mark_at(text, '\n', last) && strcmp(last, submission) != 0;
}

/* Parses "12 5f0c..", a job and its submission, and the newline after them; the
 * submission may be missing. */
static bool job_at(const char *p, struct attempt_exit *ret)
{
    char *end;
    unsigned long id = strtoul(p, &end, 10);
    ret->submission[0] = '\0';
    if (end == p || id > UINT32_MAX ||
        (*end != '\n' &&
         (*end != ' ' || !mark_at(end + 1, '\n', ret->submission))))
        return false;
    ret->slurm_id = (uint32_t)id;
    return true;
}

int attempt_started_write(const char *dir, uint32_t slurm_id,
                          const char *submission, struct error *err)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%" PRIu32 "%s%s\n", slurm_id,
                   submission[0] ? " " : "", submission);
    return attempt_write(dir, "started", text, err);
}

int attempt_told_write(const char *dir, const char *word, uint32_t slurm_id,
                       const char *submission, struct error *err)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%s %" PRIu32 "%s%s\n", word, slurm_id,
                   submission[0] ? " " : "", submission);
    return attempt_write(dir, "told", text, err);
}

/* A damaged or unreadable file counts as missing. */
static bool told(const char *dir, struct attempt_exit *ret)
{
    char text[64];
    if (attempt_read(dir, "told", text, sizeof(text), NULL) < 0)
        return false;
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (n == 0 || n >= ATTEMPT_TOLD_CAP || text[n] != ' ' ||
        !job_at(text + n, ret))
        return false;
    memcpy(ret->told, text, n);
    ret->told[n] = '\0';
    return true;
}

static bool started(const char *dir, struct attempt_exit *ret)
{
    char text[64];
    return attempt_read(dir, "started", text, sizeof(text), NULL) == 0 &&
           job_at(text, ret);
}

static int exit_read(const char *dir, struct attempt_exit *ret,
                     struct error *err)
{
    char text[EXIT_BYTES];
    double code;
    double signo;
    double when_s;
    double slurm_id = 0;
    double cpu_ms = 0;
    double cores_ms = 0;
    if (attempt_read(dir, "exit", text, sizeof(text), err) < 0)
        return -1;
    if (number(text, "\"code\":", &code) < 0 || code < 0 || code > 255 ||
        number(text, "\"signal\":", &signo) < 0 || signo < 0 || signo > 64 ||
        number(text, "\"when\":", &when_s) < 0)
        return error_set(err, ERR_STATE, "'%s/exit' is damaged", dir);
    if (number(text, "\"slurm_id\":", &slurm_id) < 0 || slurm_id < 0 ||
        slurm_id > UINT32_MAX)
        slurm_id = 0;
    if (number(text, "\"cpu_ms\":", &cpu_ms) < 0 || cpu_ms < 0 ||
        cpu_ms > MS_MAX || number(text, "\"cores_ms\":", &cores_ms) < 0 ||
        cores_ms < 0 || cores_ms > MS_MAX)
        cpu_ms = cores_ms = 0;
    *ret = (struct attempt_exit){.code = (int32_t)code,
                                 .signal = (int32_t)signo,
                                 .when_s = when_s,
                                 .cpu_ms = (int64_t)cpu_ms,
                                 .cores_ms = (int64_t)cores_ms,
                                 .slurm_id = (uint32_t)slurm_id};
    const char *mark = strstr(text, mark_key);
    if (mark && !mark_at(mark + strlen(mark_key), '"', ret->submission))
        ret->submission[0] = '\0';
    return 0;
}

int64_t attempt_ended_ms(const struct attempt_exit *x)
{
    bool is_time = x->when_s > 0 && 1000 * x->when_s < (double)MS_MAX;
    return is_time ? (int64_t)(1000 * x->when_s) : 0;
}

int attempt_exit_read(const char *dir, struct attempt_exit *ret,
                      struct error *err)
{
    struct error why = ERROR_INIT;
    struct attempt_exit x = {.code = 0};
    struct attempt_exit end = {.signal = SIGKILL, .is_ending = true};
    int rc = exit_read(dir, &x, &why);
    bool is_none = rc < 0 && why.code == ERR_NOTFOUND;
    bool is_told = (rc == 0 || is_none) && told(dir, &end);
    bool has_begun = is_none && !is_told && started(dir, &end);
    if (rc < 0 && !is_told && !(has_begun && is_other(dir, end.submission)))
        return error_set(err, why.code, "%s", why.msg);
    if (rc < 0)
        x = end;
    else if (is_told && end.slurm_id == x.slurm_id &&
             strcmp(end.submission, x.submission) == 0)
        memcpy(x.told, end.told, sizeof(x.told));
    x.is_other = is_other(dir, x.submission);
    *ret = x;
    return 0;
}
