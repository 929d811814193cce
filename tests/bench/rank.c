/* rank.c - a rank that costs little, so that a soak may have a million jobs.
 *
 *   rank --launch FILE --alone           in the place of mgpu-worker
 *
 * Says to the daemon what mgpu-worker says for a job of one rank that runs
 * "true": the claim, a heartbeat, the last word, each by a connection of its
 * own, and leaves the same files. What differs is its start: no MPI, BLAS or
 * TLS is loaded, which is most of what such a job costs. Any other job is
 * run by the worker itself, as `mgpu-worker.whole` beside this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"

extern char **environ;

struct rank {
    char job[24], attempt[12], token[72], socket[108], dir[PATH_MAX];
};

static void die(const char *what)
{
    (void)fprintf(stderr, "rank: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The worker, for what this is too simple for. */
static void be_whole(char **argv)
{
    static const char name[] = "mgpu-worker.whole";
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(name));
    while (n > 0 && path[n - 1] != '/')
        n--;
    memcpy(path + (n > 0 ? n : 0), name, sizeof(name));
    (void)execv(path, argv);
    die(path);
}

/* The text after "KEY": up to the next quote or comma. */
static void take(const char *text, const char *key, char *ret, size_t cap)
{
    const char *at = strstr(text, key);
    at = at ? at + strlen(key) : "";
    size_t n = strcspn(at, "\",");
    if (n == 0 || n >= cap)
        die(key);
    memcpy(ret, at, n);
    ret[n] = '\0';
}

static bool read_launch(const char *path, struct rank *ret)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    if (buf_read_file(&b, path, 1 << 20, &err) < 0)
        die(err.msg);
    const char *text = buf_str(&b);
    bool is_simple = strstr(text, "\"url\":\"unix:") != NULL &&
                     strstr(text, "\"command\":[\"true\"]") != NULL;
    if (is_simple) {
        take(text, "\"job\":", ret->job, sizeof(ret->job));
        take(text, "\"attempt\":", ret->attempt, sizeof(ret->attempt));
        take(text, "\"token\":\"", ret->token, sizeof(ret->token));
        take(text, "\"url\":\"unix:", ret->socket, sizeof(ret->socket));
        take(text, "\"dir\":\"", ret->dir, sizeof(ret->dir));
    }
    buf_clear(&b);
    return is_simple;
}

/* ---- words ----------------------------------------------------------------
 */
static int connect_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        die(path);
    return fd;
}

static void say(const struct rank *r, const char *what, const char *body)
{
    char text[1024], answer[1024] = "";
    int fd = connect_to(r->socket);
    int len = snprintf(text, sizeof(text),
                       "POST /v1/attempts/%s/%s/%s HTTP/1.1\r\nHost: mgpu\r\n"
                       "Authorization: Bearer %s\r\n"
                       "Content-Type: application/json\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       r->job, r->attempt, what, r->token, strlen(body), body);
    if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        die(what);
    /* Short enough for one piece. */
    ssize_t n = recv(fd, answer, sizeof(answer) - 1, 0);
    if (n < 12 || answer[9] != '2') {
        (void)fprintf(stderr, "rank: %s: %.12s\n", what, answer);
        exit(1);
    }
    (void)close(fd);
}

static void claim(const struct rank *r)
{
    char body[400], host[256] = "", stat[1024] = "";
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
    const char *at = n > 0 ? strrchr(stat, ')') : NULL;
    for (int i = 2; at && i < 22; i++) /* the time when it started */
        at = strchr(at + 1, ' ');
    if (!at)
        die("/proc/self/stat");
    (void)close(fd);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(body, sizeof(body), "{\"holder\":\"%s %d %llu\"}", host,
                   (int)getpid(), strtoull(at, NULL, 10));
    say(r, "claim", body);
}

/* ---- files ----------------------------------------------------------------
 */
static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t len = (ssize_t)strlen(text);
    if (fd < 0 || write(fd, text, (size_t)len) != len ||
        (len > 0 && fsync(fd) < 0))
        die(path);
    (void)close(fd);
}

static void leave_files(const struct rank *r, const char *report)
{
    char path[PATH_MAX + 32], name[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/spool.0", r->dir);
    put(path, "");
    (void)snprintf(path, sizeof(path), "%s/metrics.0.jsonl", r->dir);
    put(path, "");
    (void)snprintf(path, sizeof(path), "%s/.report.json.0", r->dir);
    (void)snprintf(name, sizeof(name), "%s/report.json", r->dir);
    put(path, report);
    if (rename(path, name) < 0)
        die(name);
}

static void run_true(void)
{
    static char name[] = "true";
    char *argv[] = {name, NULL};
    pid_t pid;
    int status = 1;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        die(argv[0]);
}

int main(int argc, char **argv)
{
    static const char beat[] =
        "{\"rank\":0,\"iteration\":null,\"iterations_total\":null}";
    static const char report[] =
        "{\"exit_code\":0,\"why\":\"\",\"cpu_ms\":1,\"cores_ms\":4}";
    struct rank r;
    const char *ran = getenv("MGPU_RAN");
    if (argc != 4 || strcmp(argv[3], "--alone") != 0 ||
        !read_launch(argv[2], &r))
        be_whole(argv);
    if (ran != NULL)
        put(ran, "");
    claim(&r);
    say(&r, "heartbeat", beat);
    run_true();
    leave_files(&r, report);
    say(&r, "report", report);
    return 0;
}
