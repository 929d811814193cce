/* error.c - format errors; the table of codes; see error.h. */
#include "jobs/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Marks a message that did not fit, so that its reader knows that it is
 * incomplete. */
static void mark_if_cut(struct error *err, int would_be)
{
    if (would_be < 0)
        err->msg[0] = '\0';
    else if ((size_t)would_be >= sizeof(err->msg))
        memcpy(err->msg + sizeof(err->msg) - 4, "...", 4);
}

int(error_set)(struct error *err, enum err_code code, const char *fmt, ...)
{
    if (!err)
        return -1;
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    mark_if_cut(err, n);
    err->code = code;
    errno = saved;
    return -1;
}

static enum err_code code_from_errno(int errnum)
{
    switch (errnum) {
    case EINVAL:
        return ERR_INVAL;
    case ENOENT:
        return ERR_NOTFOUND;
    case EAGAIN:
    case EBUSY:
        return ERR_BUSY;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case EACCES:
    case EPERM:
        return ERR_DENIED;
    case ENOMEM:
        return ERR_NOMEM;
    case EMFILE: /* RLIMIT_NOFILE; a retry may succeed */
    case ENFILE:
    case ENOLCK: /* the table of locks is full */
        return ERR_LIMIT;
    default:
        return ERR_IO;
    }
}

int(error_sys)(struct error *err, int errnum, const char *fmt, ...)
{
    if (!err)
        return -1;
    int saved = errno;
    char what[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    (void)error_set(err, code_from_errno(errnum), "%s: %s", what,
                    strerror(errnum));
    errno = saved;
    return -1;
}

int(error_wrap)(struct error *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char inner[sizeof(err->msg)];
    memcpy(inner, err->msg, sizeof(inner));
    char what[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return error_set(err, err->code, "%s: %s", what, inner);
}

int error_exit_status(enum err_code code)
{
    static const int status[] = {
#define X(name, exit_status) [ERR_##name] = exit_status,
        ERR_CODES(X)
#undef X
    };
    size_t n = sizeof(status) / sizeof(status[0]);
    return (size_t)code < n ? status[code] : 1;
}

static const char *const words[] = {
#define X(name, exit_status) [ERR_##name] = #name,
    ERR_CODES(X)
#undef X
};

const char *error_word(enum err_code code)
{
    size_t n = sizeof(words) / sizeof(words[0]);
    return (size_t)code < n ? words[code] : "INTERNAL";
}

enum err_code error_from_word(const char *word)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], word) == 0)
            return (enum err_code)i;
    return ERR_INTERNAL;
}
