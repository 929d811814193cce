/* notifier.c - F42: notify.program hangs, fails or is not there: three tries,
 * each with an end, a queue with one, and nobody waits. */
#include "scheduler/ctld/notify/notifier.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/log.h"
#include "tests/tap.h"

static char dir[] = "/tmp/mgpu-notices.XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[4][128];
    static int i;
    i = (i + 1) % 4;
    (void)snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
    return path[i];
}

static int unlink_one(const char *path, const struct stat *st, int kind,
                      struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

/* ---- rig ------------------------------------------------------------------
 */
static struct notices *start(double limit_s, size_t max_waiting)
{
    struct notices *n = NULL;
    struct error err = ERROR_INIT;
    const struct notices_conf conf = {.path = in_dir("notified"),
                                      .limit_s = limit_s,
                                      .pause_s = 0.01,
                                      .max_waiting = max_waiting};
    if (!ok(notifier_create(&conf, &n, &err) == 0, "create %s", err.msg))
        exit(1);
    return n;
}

static struct notice *notice(uint64_t seq, uint64_t job, int64_t uid,
                             const char *program, const char *text)
{
    struct notice *w = calloc(1, sizeof(*w));
    char **argv = calloc(4, sizeof(*argv));
    if (!w || !argv)
        exit(1);
    argv[0] = strdup(program);
    argv[1] = strdup("a;b `c` $(d)");
    argv[2] = strdup("");
    *w = (struct notice){.seq = seq, .job = job, .uid = uid, .on = "end"};
    w->argv = argv;
    w->text = strdup(text);
    return w;
}

static void post(struct notices *n, uint64_t seq, int64_t uid,
                 const char *program)
{
    struct notice *w = notice(seq, seq, uid, program, "{\"job\":1}\n");
    notifier_post(n, &w, 1);
}

/* Until there are so many, for 60 s at most. */
static struct notices_counts counts(struct notices *n, uint64_t sent,
                                    uint64_t failed)
{
    struct notices_counts c = notifier_count(n);
    for (int i = 0; i < 6000 && (c.sent < sent || c.failed < failed); i++) {
        (void)poll(NULL, 0, 10);
        c = notifier_count(n);
    }
    return c;
}

static void are(struct notices *n, uint64_t sent, uint64_t failed,
                const char *what)
{
    struct notices_counts c = counts(n, sent, failed);
    ok(c.sent == sent && c.failed == failed && c.dropped == 0 && c.waiting == 0,
       "%s: %d sent, %d failed, %d dropped, %d wait", what, (int)c.sent,
       (int)c.failed, (int)c.dropped, (int)c.waiting);
}

static uint64_t number(void)
{
    uint64_t seq = UINT64_MAX;
    bool is_there = false;
    struct error err = ERROR_INIT;
    if (notifier_read(in_dir("notified"), &seq, &is_there, &err) < 0)
        tap_diag("%s", err.msg);
    return is_there ? seq : UINT64_MAX;
}

static void file_is(const char *name, const char *want)
{
    struct buf b = BUF_INIT;
    if (buf_read_file(&b, in_dir(name), 65536, NULL) < 0)
        tap_diag("%s is not there", name);
    is_str(buf_str(&b), want, name);
    buf_clear(&b);
}

/* ---- the program ----------------------------------------------------------
 */
static const char *program(const char *name, const char *text)
{
    const char *path = in_dir(name);
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "#!/bin/sh\ncd \"${0%%/*}\"\n%s\n", text) < 0 ||
        fclose(f) != 0 || chmod(path, 0700) != 0)
        exit(1);
    return path;
}

static void test_run(void)
{
    struct notices *n = start(60, 16);
    (void)setenv("MGPU_SECRET", "x", 1);
    int fd = fcntl(STDERR_FILENO, F_DUPFD, 100); /* to be inherited */
    char script[500];
    (void)snprintf(
        script, sizeof(script),
        "printf '%%s|' \"$@\" >argv; cat >text; env | sed 's/=.*//' |"
        " grep -v '^_$\\|^PWD$\\|^OLDPWD$\\|^SHLVL$' | sort |"
        " tr '\\n' ' ' >env\n"
        "test /dev/fd/%d -ef /dev/fd/%d; echo $? >fds\n"
        "echo x; echo y >&2; exit 0",
        fd, fd);
    post(n, 7, 1000, program("run", script));
    are(n, 1, 0, "a program");
    (void)close(fd);
    file_is("argv", "a;b `c` $(d)||");
    file_is("text", "{\"job\":1}\n");
    file_is("env", "HOME LC_ALL PATH ");
    file_is("fds", "1\n"); /* it is not there */
    notifier_destroy(n);
    is_int((int)number(), 7, "it is written down");
    (void)unlink(in_dir("notified"));
}

static void test_fails(void)
{
    struct notices *n = start(60, 16);
    post(n, 1, 1000, program("run3", "echo x >>tries; exit 3"));
    are(n, 0, 1, "a program that fails");
    file_is("tries", "x\nx\nx\n");
    post(n, 2, 1000, in_dir("no-such-program"));
    are(n, 0, 2, "one that is not there");
    post(n, 3, 1000, program("run2", "echo x >>late; test $(wc -l <late) = 3"));
    are(n, 1, 2, "one that does it the third time");
    notifier_destroy(n);
    is_int((int)number(), 3, "told, or given up");
    (void)unlink(in_dir("notified"));
}

/* The first of a job fails and is tried again; the second waits for it. */
static void test_order(void)
{
    struct notices *n = start(60, 16);
    const char *path = program("order", "cat >>told; mkdir first");
    struct notice *list[] = {notice(1, 5, 1000, path, "begin\n"),
                             notice(2, 5, 1000, path, "end\n")};
    (void)mkdir(in_dir("first"), 0700);
    notifier_post(n, list, 2);
    for (int i = 0; i < 6000 && access(in_dir("told"), F_OK) < 0; i++)
        (void)poll(NULL, 0, 10);
    (void)rmdir(in_dir("first"));
    (void)counts(n, 1, 0);
    (void)rmdir(in_dir("first"));
    ok(counts(n, 2, 0).failed == 0, "two of one job");
    struct buf b = BUF_INIT;
    ok(buf_read_file(&b, in_dir("told"), 4096, NULL) == 0 &&
           !strstr(buf_str(&b), "end\nbegin"),
       "in their order: %s", buf_str(&b));
    buf_clear(&b);
    notifier_destroy(n);
    (void)unlink(in_dir("notified"));
}

/* Whoever inherits it may leave it a zombie. */
static bool is_there(pid_t pid)
{
    char path[40], state = 'X';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d %*s %c", &state) != 1)
        state = 'X';
    if (f)
        (void)fclose(f);
    return state != 'X' && state != 'Z';
}

static bool has_ended(pid_t pid)
{
    for (int i = 0; i < 6000 && is_there(pid); i++)
        (void)poll(NULL, 0, 10);
    return !is_there(pid);
}

/* With its children, one of which does not read what it is told. */
static void test_hangs(void)
{
    struct notices *n = start(0.1, 16);
    struct buf b = BUF_INIT;
    char *at;
    int n_ended = 0;
    post(n, 1, 1000,
         program("run4", "echo $$ >>pids; sleep 3600 & echo $! >>pids; wait"));
    are(n, 0, 1, "a program that hangs");
    notifier_destroy(n);
    if (buf_read_file(&b, in_dir("pids"), 4096, NULL) < 0)
        tap_diag("it was killed before it had begun");
    for (at = b.data; at && *at;) {
        long pid = strtol(at, &at, 10);
        at += strspn(at, "\n");
        n_ended += pid > 1 && !has_ended((pid_t)pid);
    }
    is_int(n_ended, 0, "nothing of it is left");
    buf_clear(&b);
}

/* ---- bounds ---------------------------------------------------------------
 */
static void test_queue(void)
{
    struct notices *n = start(3600, 40);
    const char *hangs = program("hangs", "exec sleep 3600");
    for (uint64_t i = 1; i <= 100; i++)
        post(n, i, 1000, hangs);
    struct notices_counts c = notifier_count(n);
    ok(c.waiting == 10 && c.dropped == 90,
       "one user fills a quarter: %d wait, %d are dropped", (int)c.waiting,
       (int)c.dropped);
    for (uint64_t i = 101; i <= 200; i++)
        post(n, i, (int64_t)i, hangs);
    c = notifier_count(n);
    ok(c.waiting == 40 && c.dropped == 90 + 70, "and all users all of it");
    notifier_destroy(n); /* does not wait for those that hang */
    (void)unlink(in_dir("notified"));
}

static int n_lines(const char *name)
{
    struct buf b = BUF_INIT;
    int lines = 0;
    if (buf_read_file(&b, in_dir(name), 4096, NULL) == 0)
        for (const char *p = buf_str(&b); (p = strchr(p, '\n')); p++)
            lines++;
    buf_clear(&b);
    return lines;
}

/* Two of a user's hang, and the others of his wait; nobody else does. */
static void test_neighbours(void)
{
    struct notices *n = start(3600, 80);
    const char *hangs = program("hangs2", "echo x >>hung; exec sleep 3600");
    const char *fine = program("fine", "exit 0");
    for (uint64_t i = 1; i <= 10; i++)
        post(n, i, 1000, hangs);
    for (uint64_t i = 11; i <= 20; i++)
        post(n, i, 1001, fine);
    ok(counts(n, 10, 0).sent == 10, "another user's are told");
    for (int i = 0; i < 6000 && n_lines("hung") < 2; i++)
        (void)poll(NULL, 0, 10);
    is_int(n_lines("hung"), 2, "so many of one user at a time");
    for (uint64_t i = 21; i <= 30; i++)
        post(n, i, 1002 + (int64_t)i % 2, hangs);
    for (int i = 0; i < 6000 && n_lines("hung") < 4; i++)
        (void)poll(NULL, 0, 10);
    (void)poll(NULL, 0, 200);
    is_int(n_lines("hung"), 4, "so many at a time");
    notifier_destroy(n);
    is_int((int)number(), 0, "the first is still to be told");
    (void)unlink(in_dir("notified"));
}

/* ---- the file -------------------------------------------------------------
 */
static void test_file(void)
{
    uint64_t seq = 5;
    bool is_there = true;
    struct error err = ERROR_INIT;
    const char *path = in_dir("notified");
    is_int(notifier_read(path, &seq, &is_there, &err), 0, "no file");
    ok(!is_there && seq == 5, "says nothing");
    is_int(notifier_write(path, 18446744073709551614u, &err), 0, "written");
    is_int(notifier_read(path, &seq, &is_there, &err), 0, "read");
    ok(is_there && seq == 18446744073709551614u, "the same");
    FILE *f = fopen(path, "w");
    if (f) {
        (void)fputs("12\n", f);
        (void)fclose(f);
    }
    is_int(notifier_read(path, &seq, &is_there, &err), 0, "half a number");
    ok(!is_there, "is none");
    (void)unlink(path);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    log_set_level(LOG_ERR);
    if (!mkdtemp(dir))
        return 1;
    test_run();
    test_fails();
    test_order();
    test_hangs();
    test_queue();
    test_neighbours();
    test_file();
    (void)nftw(dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
