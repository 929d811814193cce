/* notifier.c - F42: whoever is told hangs, fails or is too slow: three tries,
 * each with an end, a queue with one, and nobody waits. */
#include "scheduler/ctld/notify/notifier.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "jobs/base/buf.h"
#include "jobs/base/log.h"
#include "tests/tap.h"
#include "tests/unit/base/hook_host.h"

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
    if (!ok(notices_create(&conf, &n, &err) == 0, "create %s", err.msg))
        exit(1);
    return n;
}

static void post(struct notices *n, uint64_t seq, int64_t uid, const char *url,
                 const char *program)
{
    struct notice *w = calloc(1, sizeof(*w));
    *w = (struct notice){.seq = seq, .job = seq, .uid = uid, .on = "end"};
    w->text = strdup("Job: 1\n");
    if (url) {
        w->url = strdup(url);
        w->host = strdup("127.0.0.1");
        w->is_literal = true;
    } else {
        w->program = strdup(program);
        w->subject = strdup("mgpu: job 1 a;b `c` $(d): FAILED");
        w->to = strdup("alice@example.org");
    }
    notices_post(n, &w, 1);
}

static void call(struct notices *n, uint64_t seq, int64_t uid,
                 const struct hook_host *h)
{
    char url[64];
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", h->port);
    post(n, seq, uid, url, NULL);
}

/* Until there are so many, for 60 s at most. */
static struct notices_counts counts(struct notices *n, uint64_t sent,
                                    uint64_t failed)
{
    struct notices_counts c = notices_count(n);
    for (int i = 0; i < 6000 && (c.sent < sent || c.failed < failed); i++) {
        (void)poll(NULL, 0, 10);
        c = notices_count(n);
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
    if (notices_read(in_dir("notified"), &seq, &is_there, &err) < 0)
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

/* ---- calls ----------------------------------------------------------------
 */
static void test_tries(void)
{
    static const struct {
        enum hook_how how;
        double limit_s;
        int sent, n_requests; /* 0: it is not known how many arrive */
    } cases[] = {
        {HOOK_OK, 60, 1, 1},     {HOOK_FAILS, 60, 0, NOTICES_TRIES},
        {HOOK_ABSENT, 60, 0, 1}, {HOOK_HUGE, 60, 1, 1},
        {HOOK_HANGS, 0.1, 0, 0}, {HOOK_HUGE_500, 60, 0, NOTICES_TRIES},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hook_host h;
        struct notices *n = start(cases[i].limit_s, 16);
        hook_start(&h, cases[i].how, NULL);
        call(n, 7, 1000, &h);
        are(n, (uint64_t)cases[i].sent, (uint64_t)!cases[i].sent,
            hook_hows[cases[i].how]);
        hook_stop(&h);
        if (cases[i].n_requests > 0)
            is_int(h.n_requests, cases[i].n_requests, "so many tries");
        ok(h.n_requests <= NOTICES_TRIES, "and no more");
        notices_destroy(n);
        is_int((int)number(), 7, "told, or given up");
        (void)unlink(in_dir("notified"));
    }
}

/* It comes back while it is tried again. */
static void test_comes_back(void)
{
    struct hook_host h;
    struct notices *n = start(60, 16);
    hook_start(&h, HOOK_OK, NULL);
    h.n_failing = NOTICES_TRIES - 1;
    call(n, 1, 1000, &h);
    are(n, 1, 0, "the last try");
    hook_stop(&h);
    is_int(h.n_requests, NOTICES_TRIES, "so many tries");
    notices_destroy(n);
}

/* The first of a job fails and is tried again; the second waits for it. */
static void test_order(void)
{
    struct hook_host h;
    struct notices *n = start(60, 16);
    char url[64];
    struct notice *list[2];
    hook_start(&h, HOOK_OK, in_dir("bodies"));
    h.n_failing = 1;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/", h.port);
    for (size_t i = 0; i < 2; i++) {
        list[i] = calloc(1, sizeof(*list[i]));
        *list[i] =
            (struct notice){.seq = 1 + i, .job = 5, .on = i ? "end" : "begin"};
        list[i]->url = strdup(url);
        list[i]->host = strdup("127.0.0.1");
        list[i]->text = strdup(list[i]->on);
        list[i]->is_literal = true;
    }
    notices_post(n, list, 2);
    are(n, 2, 0, "two of one job");
    hook_stop(&h);
    file_is("bodies", "begin\nbegin\nend\n");
    notices_destroy(n);
}

/* ---- mails ----------------------------------------------------------------
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

static void test_mail(void)
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
    post(n, 1, 1000, NULL, program("mail", script));
    are(n, 1, 0, "a mail");
    (void)close(fd);
    file_is("argv", "-s|mgpu: job 1 a;b `c` $(d): FAILED|alice@example.org|");
    file_is("text", "Job: 1\n");
    file_is("env", "DEAD HOME LC_ALL MAILRC PATH ");
    file_is("fds", "1\n"); /* it is not there */
    notices_destroy(n);
}

static void test_mail_fails(void)
{
    struct notices *n = start(60, 16);
    post(n, 1, 1000, NULL, program("mail3", "echo x >>tries; exit 3"));
    are(n, 0, 1, "a mail program that fails");
    file_is("tries", "x\nx\nx\n");
    post(n, 2, 1000, NULL, in_dir("no-such-program"));
    are(n, 0, 2, "one that is not there");
    notices_destroy(n);
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
static void test_mail_hangs(void)
{
    struct notices *n = start(0.1, 16);
    struct buf b = BUF_INIT;
    char *at;
    int n_ended = 0;
    post(n, 1, 1000, NULL,
         program("mail4", "echo $$ >>pids; sleep 3600 & echo $! >>pids; wait"));
    are(n, 0, 1, "a mail program that hangs");
    notices_destroy(n);
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
    struct hook_host h;
    struct notices *n = start(3600, 40);
    hook_start(&h, HOOK_HANGS, NULL);
    for (uint64_t i = 1; i <= 100; i++)
        call(n, i, 1000, &h);
    struct notices_counts c = notices_count(n);
    ok(c.waiting == 10 && c.dropped == 90,
       "one user fills a quarter: %d wait, %d are dropped", (int)c.waiting,
       (int)c.dropped);
    for (uint64_t i = 101; i <= 200; i++)
        call(n, i, (int64_t)i, &h);
    c = notices_count(n);
    ok(c.waiting == 40 && c.dropped == 90 + 70, "and all users all of it");
    notices_destroy(n); /* does not wait for those that hang */
    hook_stop(&h);
    (void)unlink(in_dir("notified"));
}

/* Four of a user's hang, and the others of his wait; nobody else does. */
static void test_neighbours(void)
{
    struct hook_host hung, fine;
    struct notices *n = start(3600, 80);
    hook_start(&hung, HOOK_HANGS, NULL);
    hook_start(&fine, HOOK_OK, NULL);
    for (uint64_t i = 1; i <= 10; i++)
        call(n, i, 1000, &hung);
    for (uint64_t i = 11; i <= 20; i++)
        call(n, i, 1001, &fine);
    ok(counts(n, 10, 0).sent == 10, "another user's are told");
    while (hung.n_requests < 4)
        (void)poll(NULL, 0, 1);
    is_int(hung.n_requests, 4, "so many of one user at a time");
    notices_destroy(n);
    is_int((int)number(), 0, "the first is still to be told");
    hook_stop(&hung);
    hook_stop(&fine);
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
    is_int(notices_read(path, &seq, &is_there, &err), 0, "no file");
    ok(!is_there && seq == 5, "says nothing");
    is_int(notices_write(path, 18446744073709551614u, &err), 0, "written");
    is_int(notices_read(path, &seq, &is_there, &err), 0, "read");
    ok(is_there && seq == 18446744073709551614u, "the same");
    FILE *f = fopen(path, "w");
    if (f) {
        (void)fputs("12\n", f);
        (void)fclose(f);
    }
    is_int(notices_read(path, &seq, &is_there, &err), 0, "half a number");
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
    test_tries();
    test_comes_back();
    test_order();
    test_mail();
    test_mail_fails();
    test_mail_hangs();
    test_queue();
    test_neighbours();
    test_file();
    (void)nftw(dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}
