/* log.c - one line per fact, whatever is in it; standard error is a pipe. */
#include "jobs/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/tap.h"

static int pipe_ends[2];

/* What has been written since the last call, without its time stamp. */
static const char *lines(void)
{
    static char text[8192];
    ssize_t n = read(pipe_ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 25 ? text + 25 : text;
}

static void test_form(void)
{
    log_warn("engine", "requeued job=%d why=\"%s\"", 41, "node lost");
    is_str(lines(), "warn engine: requeued job=41 why=\"node lost\"\n",
           "level, area, sentence");
    log_err("a", "%s", "x\ny\x1b[0m\x7f");
    is_str(lines(), "err a: x\\ny\\?[0m\\?\n",
           "control bytes cannot make a line");
    errno = 42;
    log_err("a", "x");
    is_int(errno, 42, "errno is left alone");
    (void)lines();
}

static void test_stamp(void)
{
    char text[100];
    log_notice("a", "x");
    ssize_t n = read(pipe_ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0, ms = 0, end = 0;
    /* NOLINTNEXTLINE(cert-err34-c): the count is what is tested */
    int fields = sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ notice a: x%n", &y,
                        &mo, &d, &h, &mi, &s, &ms, &end);
    is_int(fields, 7, "an RFC 3339 time in UTC");
    is_int(end, (long long)strlen(text) - 1, "and the line");
}

static void test_levels(void)
{
    log_info("a", "not shown");
    is_str(lines(), "", "info is below the default");
    log_set_level(LOG_INFO);
    log_info("a", "shown");
    log_debug("a", "not shown");
    is_str(lines(), "info a: shown\n", "another level lets it through");
}

/* The text holds 1023 bytes: one less, exact, one more. */
static void test_cut(void)
{
    char big[1200];
    for (size_t n = 1022; n <= 1024; n++) {
        memset(big, 'x', sizeof(big));
        big[n] = '\0';
        log_err("a", "%s", big);
        const char *got = lines();
        bool marked = strstr(got, "x...\n") != NULL;
        ok(marked == (n > 1023), "%zu bytes are %s", n,
           n > 1023 ? "cut" : "kept");
        is_int((long long)strlen(got), (long long)(n > 1023 ? 1023 : n) + 8,
               "in one line");
    }
    memset(big, '\n', sizeof(big));
    big[1023] = '\0';
    log_err("a", "%s", big);
    const char *got = lines();
    ok(strchr(got, '\n') == got + strlen(got) - 1,
       "all to be escaped: still one line");
}

/* A line, which the time stamp makes no constant. */
static bool is_json(const char *rest)
{
    char text[8192];
    ssize_t n = read(pipe_ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return strncmp(text, "{\"at\":\"20", 9) == 0 && strlen(text) > 32 &&
           strcmp(text + 32, rest) == 0;
}

static void test_json(void)
{
    log_set_format(LOG_JSON);
    log_warn("engine", "requeued job=%d why=\"%s\"", 41, "node\\lost\n");
    ok(is_json(",\"level\":\"warn\",\"area\":\"engine\",\"message\":\"requeued "
               "job=41 why=\\\"node\\\\lost\\u000a\\\"\"}\n"),
       "quotes, backslashes and control bytes are escaped");
    log_warn("a", "%s", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    ok(is_json(",\"level\":\"warn\",\"area\":\"a\",\"message\":\"\xc3\xa9 "
               "\xe2\x82\xac \xf0\x9f\x98\x80\"}\n"),
       "what is UTF-8 is as it was");
    log_warn("a", "%s", "\xc3 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82");
    ok(is_json(",\"level\":\"warn\",\"area\":\"a\",\"message\":\"? ?? ??? ???? "
               "??\"}\n"),
       "what is not, is not passed on");
    char big[1200];
    memset(big, 1, sizeof(big));
    big[1100] = '\0';
    log_warn("a", "%s", big);
    const char *got = lines();
    ok(strlen(got) > 4000 && strcmp(got + strlen(got) - 6, "...\"}\n") == 0,
       "the longest line is whole");
    size_t n = strlen(got) + 25;
    ok(n <= PIPE_BUF, "it is one that a pipe takes at once: %zu bytes", n);
    log_set_format(LOG_TEXT);
}

static void test_journal(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/log-XXXXXX", text[8192];
    if (!mkdtemp(dir)) {
        ok(false, "a directory");
        return;
    }
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/sock", dir);
    is_int(log_to_journal(at.sun_path), -1, "no journald");
    log_err("a", "x");
    is_str(lines(), "err a: x\n", "standard error stays");
    for (int life = 0; life < 2; life++) {
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        ok(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0,
           "a journald");
        if (life == 0)
            is_int(log_to_journal(at.sun_path), 0, "it is found");
        log_warn("engine", "requeued\njob=%d", 41);
        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        text[n > 0 ? n : 0] = '\0';
        is_str(text,
               "SYSLOG_IDENTIFIER=mgpu-ctld\nPRIORITY=4\nMGPU_AREA=engine\n"
               "MESSAGE=engine: requeued\\njob=41\n",
               "a line is its fields");
        is_str(lines(), "", "and nothing else");
        (void)close(fd);
        (void)unlink(at.sun_path);
        log_err("a", "x");
        is_str(lines(), "err a: x\n", "while it is away: standard error");
    }
    (void)rmdir(dir);
}

static void test_prefix(void)
{
    struct stat st;
    char at[64], text[8192];
    if (fstat(STDERR_FILENO, &st) < 0) {
        ok(false, "standard error");
        return;
    }
    (void)snprintf(at, sizeof(at), "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    (void)setenv("JOURNAL_STREAM", at, 1);
    log_err("a", "x");
    ssize_t n = read(pipe_ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    ok(strncmp(text, "<3>20", 5) == 0, "journald's: a priority comes first");
    is_str(text + (n > 28 ? 28 : 0), "err a: x\n", "and the line as before");
    is_str(log_prefix(LOG_DEBUG), "<7>", "the last one");
    log_set_format(LOG_JSON);
    log_warn("a", "x");
    n = read(pipe_ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    ok(strncmp(text, "<4>{\"at\":", 9) == 0, "of JSON, too");
    log_set_format(LOG_TEXT);
    /* Of a daemon that went into the background, or of its child. */
    (void)snprintf(at, sizeof(at), "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino + 1);
    (void)setenv("JOURNAL_STREAM", at, 1);
    log_err("a", "x");
    is_str(lines(), "err a: x\n", "another file: nothing");
    (void)unsetenv("JOURNAL_STREAM");
    is_str(log_prefix(LOG_ERR), "", "nor without systemd");
}

/* What came through so far, without a word of when. */
struct heard {
    int n_lines, n_told, n_lost; /* ours; that some were lost, and how many */
    bool is_last;
    char text[1 << 20];
    size_t len;
};

static void hear(struct heard *h, int fd)
{
    ssize_t n = read(fd, h->text + h->len, sizeof(h->text) - 1 - h->len);
    h->len += n > 0 ? (size_t)n : 0;
    h->text[h->len] = '\0';
    h->n_lines = h->n_told = h->n_lost = 0;
    for (const char *p = h->text; (p = strstr(p, " err a: line ")); p++)
        h->n_lines++;
    for (const char *p = h->text; (p = strstr(p, " warn log: log lines "));
         p++) {
        const char *count = strstr(p, "n=");
        h->n_told++;
        h->n_lost += count ? (int)strtol(count + 2, NULL, 10) : 0;
    }
    h->is_last = strstr(h->text, " err a: last") != NULL;
}

/* ---- who does not read ----------------------------------------------------
 */
static void on_signal(int signo)
{
    (void)signo;
}

/* One each millisecond: none is a reason to wait for longer. */
static bool begin_signals(timer_t *ret)
{
    const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGUSR2};
    return sigaction(SIGUSR2, &act, NULL) == 0 &&
           timer_create(CLOCK_MONOTONIC, &event, ret) == 0 &&
           timer_settime(*ret, 0, &often, NULL) == 0;
}

/* Nothing more can be opened; what is open stays. */
static void forbid_files(bool is_forbidden)
{
    static rlim_t most;
    struct rlimit files;
    int rc = getrlimit(RLIMIT_NOFILE, &files);
    if (is_forbidden)
        most = files.rlim_cur;
    files.rlim_cur = is_forbidden ? 1 : most;
    if (rc < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0)
        exit(1);
}

/* in  to    what standard error is meanwhile; waits when it is full
 *     from  its other end, which does not wait
 *     is_foreign  it cannot be opened again, as one of another user */
static void test_unread(int to, int from, bool is_foreign, const char *what)
{
    enum { LINES = 20000 };
    timer_t often;
    static struct heard h;
    int keep = dup(STDERR_FILENO), n = 0, tries = 0;
    if (keep < 0 || dup2(to, STDERR_FILENO) < 0) {
        ok(false, "standard error");
        return;
    }
    memset(&h, 0, sizeof(h));
    if (is_foreign)
        forbid_files(true);
    ok(begin_signals(&often), "signals come all the time");
    (void)alarm(120); /* who waits for the reader waits for ever */
    for (; n < LINES; n++)
        log_err("a", "line %d", n);
    ok(true, "%s%s that nobody reads holds nobody up", what,
       is_foreign ? " of another user" : "");
    for (; h.n_told == 0; n++, tries++) {
        hear(&h, from);
        log_err("a", "line %d", n);
    }
    ok(h.n_lines > 0 && h.n_lost > 0,
       "it is read again: what was lost is told");
    for (; !h.is_last; tries++) {
        log_err("a", "last");
        hear(&h, from);
    }
    (void)alarm(0);
    (void)timer_delete(often);
    if (is_foreign)
        forbid_files(false);
    /* Those tries may have been cut, and so count twice, or be lost. */
    int all = h.n_lines + h.n_lost;
    ok(all >= n && all <= n + tries, "%d lines and %d lost of %d", h.n_lines,
       h.n_lost, n);
    (void)dup2(keep, STDERR_FILENO);
    (void)close(keep);
}

static long n_sleeps(void)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use) < 0)
        exit(1);
    return use.ru_nvcsw;
}

/* Who reads a page now and then, with a line that is lost after each: to wait
 * for it is to sleep. */
static void test_slow_reader(void)
{
    enum { PAGES = 100, LINES = 200, WAITS = PAGES / 2 };
    static char page[4096];
    int keep = dup(STDERR_FILENO), ends[2];
    if (keep < 0 || pipe(ends) < 0 || dup2(ends[1], STDERR_FILENO) < 0) {
        ok(false, "a pipe");
        return;
    }
    (void)alarm(120);
    for (int i = 0; i < 20 * LINES; i++)
        log_err("a", "line %d", i);
    long before = n_sleeps();
    for (int i = 0; i < PAGES; i++) {
        if (read(ends[0], page, sizeof(page)) != (ssize_t)sizeof(page))
            ok(false, "a page");
        for (int k = 0; k < LINES; k++)
            log_err("a", "line %d", k);
    }
    long n = n_sleeps() - before;
    (void)alarm(0);
    (void)dup2(keep, STDERR_FILENO);
    (void)close(keep);
    (void)close(ends[0]);
    (void)close(ends[1]);
    ok(n <= WAITS, "who reads slowly is not waited for at each page");
    tap_diag("%ld times", n);
}

static void test_reader(bool is_foreign)
{
    int ends[2];
    if (pipe(ends) < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        ok(false, "a pipe");
        return;
    }
    test_unread(ends[1], ends[0], is_foreign, "a pipe");
    (void)close(ends[0]);
    (void)close(ends[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ||
        fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        ok(false, "sockets");
        return;
    }
    test_unread(ends[1], ends[0], is_foreign, "a socket");
    (void)close(ends[0]);
    (void)close(ends[1]);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    const char *name =
        master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0
            ? ptsname(master)
            : NULL;
    int tty = name ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (tty < 0) {
        ok(false, "a terminal");
        return;
    }
    test_unread(tty, master, is_foreign, "a terminal");
    (void)close(master);
    (void)close(tty);
}

int main(void)
{
    int keep = dup(STDERR_FILENO);
    if (keep < 0 || pipe2(pipe_ends, O_NONBLOCK) < 0 ||
        dup2(pipe_ends[1], STDERR_FILENO) < 0) {
        ok(false, "a pipe");
        return tap_done();
    }
    test_form();
    test_stamp();
    test_levels();
    test_cut();
    test_json();
    test_journal();
    test_prefix();
    test_reader(false);
    test_reader(true);
    test_slow_reader();
    (void)dup2(keep, STDERR_FILENO);
    return tap_done();
}
