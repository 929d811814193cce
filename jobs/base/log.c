/* log.c - see log.h. A line is composed first and written with one write(2),
 * so that lines of several processes on one terminal do not mix. */
#include "jobs/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic(enum log_level) max_level = LOG_NOTICE;

static const char *const names[] = {
    [LOG_ERR] = "err",   [LOG_WARN] = "warn",   [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};

void log_set_level(enum log_level level)
{
    max_level = level;
}

int log_level_from_name(const char *name, enum log_level *ret)
{
    for (int i = 0; i <= LOG_DEBUG; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

static size_t stamp(char *out, size_t cap)
{
    struct timespec ts;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int m = snprintf(out + n, cap - n, ".%03ldZ ", ts.tv_nsec / 1000000);
    return n + (m > 0 ? (size_t)m : 0);
}

void log_line(enum log_level level, const char *area, const char *fmt, ...)
{
    if (level > max_level)
        return;
    int saved = errno;
    char text[1024]; /* longer messages are cut and marked with "..." */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(text))
        memcpy(text + sizeof(text) - 4, "...", 4);

    char line[2 * sizeof(text) + 96];
    size_t len = stamp(line, sizeof(line));
    int m = snprintf(line + len, sizeof(line) - len, "%s %.32s: ", names[level],
                     area);
    len += m > 0 ? (size_t)m : 0;
    for (const char *p = text; *p && len < sizeof(line) - 3; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f) {
            line[len++] = '\\';
            line[len++] = c == '\n' ? 'n' : '?';
        } else
            line[len++] = (char)c;
    }
    line[len++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
    errno = saved;
}
