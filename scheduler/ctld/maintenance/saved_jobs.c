/* saved_jobs.c - see saved_jobs.h. */
#include "scheduler/ctld/maintenance/saved_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/reply.h"

enum { PATH_CAP = 1024 };

static int add_job(const struct job *job, struct buf *out, struct error *err)
{
    json_t *spec = job->spec ? json_loads(job->spec, 0, NULL) : NULL;
    json_t *o =
        json_pack("{s:I, s:o, s:I, s:o, s:s, s:o, s:o, s:o, s:o}", "id",
                  (json_int_t)job->id, "user", ctld_text(job->user), "uid",
                  (json_int_t)job->uid, "name", ctld_text(job->name), "state",
                  job_state_name(job->state), "submitted",
                  ctld_time(job->submit_s), "key", ctld_text(job->key), "dir",
                  ctld_text(job->dir), "spec", spec ? spec : json_null());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    int rc = text ? buf_addf(out, err, "%s\n", text)
                  : error_set(err, ERR_NOMEM, "saved jobs");
    free(text);
    return rc;
}

static int add_jobs(const struct ctld *c, struct buf *out, size_t *ret_n,
                    struct error *err)
{
    size_t n = 0;
    for (const struct job *job = engine_next_since(c->engine, 0, INFINITY); job;
         job = engine_next_since(c->engine, job->id, INFINITY)) {
        if (job_state_is_final(job->state))
            continue;
        if (add_job(job, out, err) < 0)
            return -1;
        n++;
    }
    *ret_n = n;
    return 0;
}

static int write_all(int fd, const struct buf *text)
{
    for (size_t at = 0; at < text->len;) {
        ssize_t n = write(fd, text->data + at, text->len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += (size_t)n;
    }
    return fsync(fd);
}

static int write_file(const char *path, const struct buf *text,
                      struct error *err)
{
    char draft[PATH_CAP + 8];
    (void)snprintf(draft, sizeof(draft), "%s.part", path);
    int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                  0600);
    int rc = fd < 0 || write_all(fd, text) < 0
                 ? error_sys(err, errno, "write '%s'", draft)
                 : 0;
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = error_sys(err, errno, "write '%s'", draft);
    if (rc == 0 && rename(draft, path) < 0)
        rc = error_sys(err, errno, "rename '%s'", draft);
    if (rc < 0)
        (void)unlink(draft);
    return rc;
}

int saved_jobs_write(const struct ctld *c, char ret_file[STORE_FILE_CAP],
                     size_t *ret_n, struct error *err)
{
    const struct clock *clock = c->parts.clock;
    time_t now = (time_t)clock->wall_s(clock);
    char stamp[24], file[STORE_FILE_CAP], path[PATH_CAP];
    struct buf text = BUF_INIT;
    struct tm tm;
    if (!gmtime_r(&now, &tm))
        return error_sys(err, errno, "convert the time");
    (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
    (void)snprintf(file, sizeof(file), "state.db.rescued-%s.jsonl", stamp);
    int n =
        snprintf(path, sizeof(path), "%s/%s", c->parts.conf->state_dir, file);
    if (n < 0 || n >= PATH_CAP)
        return error_set(err, ERR_CONFIG, "'%s' is too long",
                         c->parts.conf->state_dir);
    int rc = add_jobs(c, &text, ret_n, err);
    if (rc == 0)
        rc = write_file(path, &text, err);
    buf_clear(&text);
    if (rc == 0)
        memcpy(ret_file, file, sizeof(file));
    return rc;
}
