/* log.c - see log.h. A line is composed first and written by one call, so that
 * lines of several processes on one terminal do not mix. */
#include "jobs/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"

static _Atomic(enum log_level) max_level = LOG_NOTICE;
static _Atomic(enum log_format) log_format = LOG_TEXT;
static _Atomic int journal_fd = -1; /* -1: not in use */
static struct sockaddr_un journal;  /* set before journal_fd */

static const char *const names[] = {
    [LOG_ERR] = "err",   [LOG_WARN] = "warn",   [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

void log_set_level(enum log_level level)
{
    max_level = level;
}

void log_set_format(enum log_format format)
{
    log_format = format;
}

/* Checked for each line: a daemon in the background continues in a file, and
 * its children inherit its variables with another standard error. */
static bool is_journal(void)
{
    const char *at = getenv("JOURNAL_STREAM");
    struct stat st;
    char here[48];
    if (!at || fstat(STDERR_FILENO, &st) < 0)
        return false;
    (void)snprintf(here, sizeof(here), "%llu:%llu",
                   (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    return strcmp(at, here) == 0;
}

const char *log_prefix(enum log_level level)
{
    static const char *const prefixes[] = {
        [LOG_ERR] = "<3>",  [LOG_WARN] = "<4>",  [LOG_NOTICE] = "<5>",
        [LOG_INFO] = "<6>", [LOG_DEBUG] = "<7>",
    };
    return is_journal() ? prefixes[level] : "";
}

static size_t stamp(char *out, size_t cap)
{
    struct timespec ts;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int m = snprintf(out + n, cap - n, ".%03ldZ", ts.tv_nsec / 1000000);
    return n + (m > 0 ? (size_t)m : 0);
}

enum {
    TEXT_CAP = 1024,
    AREA_CAP = 33,
    LINE_CAP = PIPE_BUF, /* so that a write to a pipe is atomic */
    JSON_CHAR_MAX = 6,   /* \\u001f */
    JSON_END_MAX = 16,   /* ..."}, newline */
};

/* Length of the UTF-8 character that begins here; 0: invalid. */
static size_t utf8_len(const unsigned char *p)
{
    static const struct {
        unsigned char first, last, from, to; /* range of the second byte */
        unsigned char len;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2},
                {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
                {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
                {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        if (p[0] < rows[r].first || p[0] > rows[r].last)
            continue;
        size_t len = rows[r].len;
        if (len > 1 && (p[1] < rows[r].from || p[1] > rows[r].to))
            return 0;
        for (size_t i = 2; i < len; i++)
            if (p[i] < 0x80 || p[i] > 0xbf)
                return 0;
        return len;
    }
    return 0;
}

/* Escapes the inside of a JSON string. Text beyond max is truncated to
 * "...". */
static size_t put_json(char *out, size_t len, size_t max, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t n; *p; p += n) {
        if (len + JSON_CHAR_MAX > max) {
            for (int i = 0; i < 3; i++)
                out[len++] = '.';
            return len;
        }
        size_t is = utf8_len(p);
        n = is > 0 ? is : 1;
        if (is == 0) {
            out[len++] = '?';
        } else if (*p < 0x20 || *p == 0x7f) {
            len += (size_t)snprintf(out + len, 7, "\\u%04x", *p);
        } else {
            if (*p == '"' || *p == '\\')
                out[len++] = '\\';
            memcpy(out + len, p, n);
            len += n;
        }
    }
    return len;
}

static size_t put_text(char *out, size_t len, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f) {
            out[len++] = '\\';
            out[len++] = c == '\n' ? 'n' : '?';
        } else
            out[len++] = (char)c;
    }
    return len;
}

struct line {
    enum log_level level;
    char area[AREA_CAP], text[TEXT_CAP];
};

static size_t compose(const struct line *l, char out[LINE_CAP])
{
    size_t len = stamp(out, LINE_CAP);
    len += (size_t)snprintf(out + len, LINE_CAP - len, " %s ", names[l->level]);
    len = put_text(out, len, l->area);
    out[len++] = ':';
    out[len++] = ' ';
    return put_text(out, len, l->text);
}

static size_t compose_json(const struct line *l, char out[LINE_CAP])
{
    char at[40];
    (void)stamp(at, sizeof(at));
    size_t len = (size_t)snprintf(out, LINE_CAP,
                                  "{\"at\":\"%s\",\"level\":\"%s\",\"area\":\"",
                                  at, names[l->level]);
    len = put_json(out, len, LINE_CAP, l->area);
    len += (size_t)snprintf(out + len, LINE_CAP - len, "\",\"message\":\"");
    len = put_json(out, len, LINE_CAP - JSON_END_MAX, l->text);
    out[len++] = '"';
    out[len++] = '}';
    return len;
}

/* systemd.journal-fields(7); a value ends at its newline, so none has one. */
static bool tell_journal(const struct line *l)
{
    char out[LINE_CAP];
    int fd = journal_fd;
    if (fd < 0)
        return false;
    size_t len = (size_t)snprintf(out, LINE_CAP,
                                  "SYSLOG_IDENTIFIER=mgpu-ctld\nPRIORITY=%d\n"
                                  "MGPU_AREA=",
                                  3 + (int)l->level);
    len = put_text(out, len, l->area);
    len += (size_t)snprintf(out + len, LINE_CAP - len, "\nMESSAGE=");
    len = put_text(out, len, l->area);
    out[len++] = ':';
    out[len++] = ' ';
    len = put_text(out, len, l->text);
    out[len++] = '\n';
    return sendto(fd, out, len, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&journal,
                  sizeof(journal)) == (ssize_t)len;
}

int log_to_journal(const char *path)
{
    if (strlen(path) >= sizeof(journal.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    journal = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(journal.sun_path, path, strlen(path) + 1);
    /* Not connected: a connected socket would not reach a journald that was
     * restarted. */
    int rc = fd < 0 || probe < 0
                 ? -1
                 : connect(probe, (const struct sockaddr *)&journal,
                           sizeof(journal));
    int why = errno;
    if (probe >= 0)
        (void)close(probe);
    if (rc < 0) {
        if (fd >= 0)
            (void)close(fd);
        errno = why;
        return -1;
    }
    int old = journal_fd;
    journal_fd = fd;
    if (old >= 0)
        (void)close(old);
    return 0;
}

/* ---- standard error -------------------------------------------------------
 * Its reader may have stopped: a pager, a terminal after ^S, a journald that
 * hangs. The process waits PATIENCE_S for such a reader, and not again before
 * AGAIN_S; lines that cannot be written are dropped and counted. */
enum { CHILD_MS = 100, PIECE = 64 };
static const double PATIENCE_S = 0.02, AGAIN_S = 10;
static pthread_mutex_t taking_turns = PTHREAD_MUTEX_INITIALIZER;
static _Atomic double patient_from_s = -INFINITY;
static _Atomic unsigned long long n_lost;

/* A signal neither makes it ready nor consumes its time. False: EAGAIN. */
static bool becomes_ready(void)
{
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};
    double now_s = clock_real.now_s(&clock_real);
    bool is_patient = now_s >= patient_from_s;
    double until_s = now_s + (is_patient ? PATIENCE_S : 0);
    int n;
    do {
        n = poll(&fd, 1, (int)ceil(fmax(0, until_s - now_s) * 1e3));
        now_s = clock_real.now_s(&clock_real);
    } while (n < 0 && errno == EINTR && now_s < until_s);
    if (n <= 0 && is_patient)
        patient_from_s = now_s + AGAIN_S;
    errno = EAGAIN;
    return n > 0;
}

/* Other processes share the open file of standard error, and with it the flag
 * that makes writes non-blocking. Open it once more for our own use, if
 * possible: that fails for a terminal or a pipe of a different user. */
static int open_aside(void)
{
    return open("/proc/self/fd/2",
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Like writev(2). */
static ssize_t write_aside(int fd, const struct iovec *parts, int n)
{
    ssize_t did = writev(fd, parts, n);
    if (did < 0 && errno == EAGAIN && becomes_ready())
        did = writev(fd, parts, n);
    int why = errno;
    (void)close(fd);
    errno = why;
    return did;
}

/* A child of fork() may find it locked by a thread that does not exist
 * there. */
static bool take_turn(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += CHILD_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_mutex_timedlock(&taking_turns, &until) == 0;
}

/* A pipe that is ready accepts one line, but perhaps not those of two
 * threads. */
static ssize_t write_in_turn(const struct iovec *parts, int n)
{
    bool is_ours = take_turn();
    ssize_t did = becomes_ready() ? writev(STDERR_FILENO, parts, n) : -1;
    if (is_ours)
        (void)pthread_mutex_unlock(&taking_turns);
    return did;
}

static bool write_to_pipe(const struct iovec parts[2])
{
    int fd = open_aside();
    ssize_t n = fd >= 0 ? write_aside(fd, parts, 2) : write_in_turn(parts, 2);
    return n >= 0 || errno != EAGAIN;
}

/* A terminal that is ready accepts a few bytes, but perhaps not a whole line: a
 * write would block with the rest. Returns how many were written. */
static ssize_t write_in_pieces(const struct iovec *parts, int n)
{
    bool is_ours = take_turn();
    ssize_t did = 0, more = 1;
    for (int i = 0; more > 0 && i < n; i++) {
        const char *at = parts[i].iov_base, *end = at + parts[i].iov_len;
        for (; more > 0 && at<end; at += more> 0 ? more : 0) {
            size_t len = end - at < PIECE ? (size_t)(end - at) : PIECE;
            more = becomes_ready() ? write(STDERR_FILENO, at, len) : 0;
            did += more > 0 ? more : 0;
        }
    }
    if (is_ours)
        (void)pthread_mutex_unlock(&taking_turns);
    return did;
}

static bool write_to_terminal(const struct iovec parts[2])
{
    static _Atomic bool is_cut;
    char newline = '\n';
    struct iovec all[3] = {{&newline, is_cut}, parts[0], parts[1]};
    ssize_t len =
        (ssize_t)(all[0].iov_len + parts[0].iov_len + parts[1].iov_len);
    int fd = open_aside();
    ssize_t n = fd >= 0 ? write_aside(fd, all, 3) : write_in_pieces(all, 3);
    if (n > 0)
        is_cut = n < len;
    return n == len || (n < 0 && errno != EAGAIN);
}

static bool send_in_time(struct iovec parts[2])
{
    const struct msghdr msg = {.msg_iov = parts, .msg_iovlen = 2};
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    return sendmsg(STDERR_FILENO, &msg, flags) >= 0 || errno != EAGAIN ||
           (becomes_ready() &&
            (sendmsg(STDERR_FILENO, &msg, flags) >= 0 || errno != EAGAIN));
}

/* False: the write would block. */
static bool put_line(enum log_level level, const char *out, size_t len)
{
    const char *first = log_prefix(level);
    struct iovec parts[2] = {{(char *)first, strlen(first)},
                             {(char *)out, len}};
    struct stat st = {.st_mode = S_IFREG};
    (void)fstat(STDERR_FILENO, &st);
    if (S_ISSOCK(st.st_mode))
        return send_in_time(parts);
    if (S_ISFIFO(st.st_mode))
        return write_to_pipe(parts);
    if (S_ISCHR(st.st_mode) && isatty(STDERR_FILENO))
        return write_to_terminal(parts);
    ssize_t ignored = writev(STDERR_FILENO, parts, 2);
    (void)ignored;
    return true;
}

static bool say(const struct line *l)
{
    char out[LINE_CAP];
    size_t len =
        log_format == LOG_JSON ? compose_json(l, out) : compose(l, out);
    out[len++] = '\n';
    return put_line(l->level, out, len);
}

static void say_what_was_lost(void)
{
    struct line l = {.level = LOG_WARN, .area = "log"};
    unsigned long long n = n_lost > 0 ? atomic_exchange(&n_lost, 0) : 0;
    if (n == 0)
        return;
    (void)snprintf(l.text, sizeof(l.text),
                   "log lines dropped, standard error was not read n=%llu", n);
    if (!say(&l))
        n_lost += n;
}

void log_line(enum log_level level, const char *area, const char *fmt, ...)
{
    if (level > max_level)
        return;
    int saved = errno;
    struct line l = {.level = level}; /* a longer line ends with "..." */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l.text, sizeof(l.text), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(l.text))
        memcpy(l.text + sizeof(l.text) - 4, "...", 4);
    (void)snprintf(l.area, sizeof(l.area), "%s", area);
    if (!tell_journal(&l)) {
        say_what_was_lost();
        if (!say(&l))
            n_lost++;
    }
    errno = saved;
}
