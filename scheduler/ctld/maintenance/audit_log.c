/* audit_log.c - see audit_log.h. */
#include "scheduler/ctld/maintenance/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/wire/wire.h"

/* A larger file is no log of ours: administrators do not act that often. */
enum { AUDIT_MAX_BYTES = 64 << 20 };

struct audit_log {
    int fd;
    char path[640];
    off_t len; /* of the whole lines in it */
};

/* Calls each() per line; *ret_len is the end of the last whole one. */
static int read_lines(const struct audit_log *a,
                      void (*each)(void *arg, const json_t *record), void *arg,
                      off_t *ret_len, struct error *err)
{
    struct buf text = BUF_INIT;
    off_t len = 0;
    int n = 0, rc = buf_read_file(&text, a->path, AUDIT_MAX_BYTES, err);
    const char *at = buf_str(&text), *all = at + text.len;

    for (const char *end;
         rc == 0 && (end = memchr(at, '\n', (size_t)(all - at)));
         at = end + 1) {
        json_error_t why;
        json_t *o = json_loadb(at, (size_t)(end - at), 0, &why);
        n++;
        if (!json_is_object(o))
            rc = error_set(err, ERR_IO,
                           "'%s' line %d is damaged: take it out, and what it "
                           "set or ended is not so any more",
                           a->path, n);
        else if (each)
            each(arg, o);
        json_decref(o);
        len = (off_t)(end + 1 - buf_str(&text));
    }
    buf_clear(&text);
    if (rc == 0)
        *ret_len = len;
    return rc;
}

int audit_log_open(const char *state_dir,
                   void (*each)(void *arg, const json_t *record), void *arg,
                   struct audit_log **ret, struct error *err)
{
    struct audit_log *a = calloc(1, sizeof(*a));
    if (!a)
        return error_set(err, ERR_NOMEM, "log of administrators");
    (void)snprintf(a->path, sizeof(a->path), "%s/admin.log", state_dir);
    a->fd = open(a->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                 0600);
    if (a->fd < 0)
        (void)error_sys(err, errno, "open '%s'", a->path);
    if (a->fd < 0 || read_lines(a, each, arg, &a->len, err) < 0) {
        audit_log_close(a);
        return -1;
    }
    if (ftruncate(a->fd, a->len) < 0) {
        (void)error_sys(err, errno, "cut '%s'", a->path);
        audit_log_close(a);
        return -1;
    }
    *ret = a;
    return 0;
}

int audit_log_check(const char *state_dir,
                    void (*each)(void *arg, const char *finding), void *arg)
{
    struct audit_log a = {.fd = -1};
    struct error err = ERROR_INIT;
    off_t len;
    (void)snprintf(a.path, sizeof(a.path), "%s/admin.log", state_dir);
    if (read_lines(&a, NULL, NULL, &len, &err) == 0 || err.code == ERR_NOTFOUND)
        return 0;
    each(arg, err.msg);
    return 1;
}

void audit_log_close(struct audit_log *a)
{
    if (!a)
        return;
    if (a->fd >= 0)
        (void)close(a->fd);
    free(a);
}

static int append(struct audit_log *a, const char *text, size_t len,
                  struct error *err)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(a->fd, text + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_sys(err, n < 0 ? errno : ENOSPC, "write '%s'",
                             a->path);
        at += (size_t)n;
    }
    if (fdatasync(a->fd) < 0)
        return error_sys(err, errno, "sync '%s'", a->path);
    return 0;
}

int audit_log_add(struct audit_log *a, double at_s, int64_t uid,
                  const char *action, json_t *detail, struct error *err)
{
    char time[WIRE_TIME_CAP];
    wire_time(at_s, time);
    json_t *o =
        json_pack("{s:s, s:I, s:s, s:o}", "at", time, "uid", (json_int_t)uid,
                  "do", action, "detail", detail ? detail : json_null());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return error_set(err, ERR_NOMEM, "log of administrators");
    size_t len = strlen(text);
    text[len] = '\n'; /* in place of the NUL: append() counts */
    int rc = append(a, text, len + 1, err);
    free(text);
    if (rc == 0)
        a->len += (off_t)len + 1;
    else if (ftruncate(a->fd, a->len) < 0)
        (void)error_wrap(err, "and what was written could not be taken back");
    return rc;
}

struct last {
    json_t *list;
    int64_t n;
};

static void keep(void *arg, const json_t *record)
{
    struct last *l = arg;
    if ((int64_t)json_array_size(l->list) >= l->n)
        (void)json_array_remove(l->list, 0);
    (void)json_array_append(l->list, (json_t *)record);
}

json_t *audit_log_last(const struct audit_log *a, int64_t n, struct error *err)
{
    struct last l = {.list = json_array(), .n = n};
    off_t len = 0;
    if (!l.list)
        (void)error_set(err, ERR_NOMEM, "log of administrators");
    if (l.list && read_lines(a, keep, &l, &len, err) < 0) {
        json_decref(l.list);
        return NULL;
    }
    return l.list;
}
