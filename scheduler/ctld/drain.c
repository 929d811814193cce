/* drain.c - what an attempt left behind, read before its end is final.
 *
 * The ranks' last rows may be in their spool files only: the daemon was
 * away, or a rank died. The engine asks (ctld_drain) before it stages an
 * attempt's end; the first answer is "not yet", the writer's thread reads
 * what was not acknowledged, and the next step gets a yes. So a job that is
 * seen COMPLETED has all its rows.
 *
 * Unless the store takes no rows at all, because metrics.db is damaged or its
 * disk is full. Jobs do not wait for that for ever: after GIVE_UP_S of tries
 * the attempt ends without them, and what its spools still hold stays there.
 *
 * In the same way the worker's final word is taken from report.json when it
 * could not be delivered.
 *
 * The directory is the job's own: what stands in it is input. Only regular
 * files are opened, no link is followed, and names beyond spool.<rank> are
 * nobody's business.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "jobs/wire.h"
#include "scheduler/ctld/private.h"

enum { REPORT_MAX_BYTES = 65536 };
/* Between two tries when the store failed, and from the first that failed to
 * the end without the rows. */
static const double RETRY_S = 0.5, GIVE_UP_S = 10;

struct drain {
    struct task task;
    struct ctld *c;
    uint64_t job;
    int32_t attempt;
    char dir[1024];
    int64_t *acked; /* a copy, by rank; owned */
    int32_t n_ranks;
    bool looked; /* for a report; has_report says whether there is one */
    bool has_report;
    int32_t report_code;
    char report_why[JOB_REASON_CAP];
    struct ingest_count count;
    int rc;
    struct error err;
};

/* ---- on the writer's thread -----------------------------------------------
 */

/* A shortage of ours, worth another try. Whatever else stands in the way is
 * the job's own doing, or its disk's, and must not keep it from ending. */
static bool may_pass(int e)
{
    return e == ENOMEM || e == EMFILE || e == ENFILE;
}

/* err  ERR_NOTFOUND for all that is not a regular file that we may read */
static int open_at(int dir, const char *name, int *ret_fd, struct error *err)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && may_pass(errno))
        return error_sys(err, errno, "open '%s'", name);
    if (fd < 0)
        return error_set(err, ERR_NOTFOUND, "cannot read '%s'", name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return error_set(err, ERR_NOTFOUND, "'%s' is not a regular file", name);
    }
    *ret_fd = fd;
    return 0;
}

/* Fills buf; returns the bytes read, 0 at the end, -1 on failure. */
static ssize_t read_full(int fd, char *buf, size_t cap, int64_t at)
{
    size_t len = 0;
    while (len < cap) {
        ssize_t n = pread(fd, buf + len, cap - len, (off_t)at + (off_t)len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* Whole lines only: the last one may have been cut by the rank's death. */
static int drain_fd(struct drain *d, int32_t rank, int fd, int64_t at,
                    struct error *err)
{
    char *buf = malloc(WIRE_ROWS_MAX_BYTES);
    int rc = buf ? 0 : error_set(err, ERR_NOMEM, "spool of rank %d", rank);
    while (rc == 0) {
        ssize_t n = read_full(fd, buf, WIRE_ROWS_MAX_BYTES, at);
        if (n < 0 && may_pass(errno))
            rc = error_sys(err, errno, "read the spool of rank %d", rank);
        const char *end = n > 0 ? memrchr(buf, '\n', (size_t)n) : NULL;
        if (n == WIRE_ROWS_MAX_BYTES && !end)
            end = buf + n - 1; /* one endless line: dropped piece by piece */
        if (rc < 0 || !end)
            break;
        size_t len = (size_t)(end - buf) + 1;
        rc = ctld_store_lines(d->c->parts.store, d->job, d->attempt, rank, buf,
                              len, &d->count, err);
        at += (int64_t)len;
    }
    free(buf);
    return rc;
}

static int drain_spool(struct drain *d, int dir, const char *name,
                       struct error *err)
{
    char *end = NULL;
    long rank = strtol(name, &end, 10);
    if (end == name || *end || rank < 0 || rank > INT32_MAX)
        return 0;
    char file[32];
    int fd = -1;
    struct error why = ERROR_INIT;
    (void)snprintf(file, sizeof(file), "spool.%ld", rank);
    if (open_at(dir, file, &fd, &why) < 0)
        return why.code == ERR_NOTFOUND
                   ? 0
                   : error_set(err, why.code, "%s", why.msg);
    int64_t at = rank < d->n_ranks && d->acked[rank] > 0 ? d->acked[rank] : 0;
    int rc = drain_fd(d, (int32_t)rank, fd, at, err);
    (void)close(fd);
    return rc;
}

static int read_report(struct drain *d, int dir, struct error *err)
{
    struct error why_not = ERROR_INIT;
    char text[REPORT_MAX_BYTES];
    int fd = -1, code = 0;
    const char *why = NULL;
    if (open_at(dir, "report.json", &fd, &why_not) < 0)
        return why_not.code == ERR_NOTFOUND
                   ? 0
                   : error_set(err, why_not.code, "%s", why_not.msg);
    ssize_t n = read_full(fd, text, sizeof(text), 0);
    (void)close(fd);
    json_t *o = n > 0 ? json_loadb(text, (size_t)n, 0, NULL) : NULL;
    if (o &&
        json_unpack(o, "{s:i, s?s}", "exit_code", &code, "why", &why) == 0 &&
        code >= 0 && code <= 255) {
        d->has_report = true;
        d->report_code = code;
        (void)snprintf(d->report_why, sizeof(d->report_why), "%s",
                       why ? why : "");
    }
    json_decref(o);
    return 0;
}

static int drain_dir(struct drain *d, struct error *err)
{
    DIR *dir = opendir(d->dir);
    if (!dir && may_pass(errno))
        return error_sys(err, errno, "'%s'", d->dir);
    if (!dir) { /* never started, or removed or closed by its user */
        d->looked = true;
        return 0;
    }
    /* First: the job's end needs it, also without the rows. */
    int rc = read_report(d, dirfd(dir), err);
    d->looked = rc == 0;
    const struct dirent *e;
    while (rc == 0 && (e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, "spool.", 6) == 0)
            rc = drain_spool(d, dirfd(dir), e->d_name + 6, err);
    (void)closedir(dir);
    return rc;
}

static void drain_run(struct task *t)
{
    struct drain *d = (struct drain *)t;
    struct store *s = d->c->parts.store;
    d->rc = drain_dir(d, &d->err);
    if (d->rc == 0)
        d->rc = s->ops->sync_rows(s, &d->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void drain_free(struct drain *d)
{
    free(d->acked);
    free(d);
}

static void drain_done(struct task *t)
{
    struct drain *d = (struct drain *)t;
    struct ctld *c = d->c;
    struct intake *i = ctld_intake(c, d->job, d->attempt, false);
    ctld_count_rows(c, &d->count);
    if (i && d->looked) {
        i->looked = true;
        i->has_report = d->has_report;
        i->report_code = d->report_code;
        memcpy(i->report_why, d->report_why, sizeof(i->report_why));
    }
    if (d->rc < 0) {
        log_warn("metrics",
                 "the spool was not stored, trying again job=%llu "
                 "attempt=%d why=\"%s\"",
                 (unsigned long long)d->job, d->attempt, d->err.msg);
        if (i) {
            i->state = INTAKE_FAILED;
            i->why = d->err;
            i->failed_s = c->parts.clock->now_s(c->parts.clock);
            if (isnan(i->failing_s))
                i->failing_s = i->failed_s;
        }
    } else if (i) {
        i->state = INTAKE_DRAINED;
    }
    drain_free(d);
    ctld_want_step(c);
}

static int post(struct ctld *c, const struct job *job, struct intake *i,
                struct error *err)
{
    struct drain *d = calloc(1, sizeof(*d));
    int64_t *acked = calloc((size_t)i->n_ranks + 1, sizeof(*acked));
    if (!d || !acked) {
        free(d);
        free(acked);
        return error_set(err, ERR_NOMEM, "spool of job %llu",
                         (unsigned long long)job->id);
    }
    if (i->n_ranks > 0)
        memcpy(acked, i->acked, (size_t)i->n_ranks * sizeof(*acked));
    d->task = (struct task){.run = drain_run, .done = drain_done};
    d->c = c;
    d->job = job->id;
    d->attempt = job->attempt;
    d->acked = acked;
    d->n_ranks = i->n_ranks;
    (void)snprintf(d->dir, sizeof(d->dir), "%s/%llu/%d", c->jobs_dir,
                   (unsigned long long)job->id, job->attempt);
    if (thread_post(c->writer, &d->task, err) < 0) {
        drain_free(d);
        return -1;
    }
    i->state = INTAKE_DRAINING;
    return error_set(err, ERR_BUSY, "its last rows are being read");
}

/* Staged with the end, and anew with it when the batch is undone. */
static void use_report(struct ctld *c, const struct job *job,
                       const struct intake *i)
{
    struct error err = ERROR_INIT;
    if (i->has_report && !job->reported &&
        engine_report(c->engine, job->id, job->attempt, i->report_code,
                      i->report_why, &err) < 0)
        log_info("engine", "report.json not used job=%llu why=\"%s\"",
                 (unsigned long long)job->id, err.msg);
}

/* Only right after a try that failed. When the end cannot be stored either,
 * because both databases are on the full disk, it is undone, and the next one
 * is preceded by another try: once there is room again, the rows are stored
 * with it. Never before report.json was looked for, for without it a success
 * would become a failure. */
static bool gives_up(const struct intake *i, double now_s)
{
    return i->looked && now_s - i->failed_s < RETRY_S &&
           now_s - i->failing_s >= GIVE_UP_S;
}

int ctld_drain(void *arg, const struct job *job, struct error *err)
{
    struct ctld *c = arg;
    struct intake *i = ctld_intake(c, job->id, job->attempt, true);
    if (!i)
        return error_set(err, ERR_NOMEM, "spool");
    double now_s = c->parts.clock->now_s(c->parts.clock);
    i->undrained = i->state == INTAKE_FAILED && gives_up(i, now_s);
    if (i->state == INTAKE_DRAINED || i->undrained) {
        use_report(c, job, i);
        return 0;
    }
    if (i->state == INTAKE_DRAINING || c->stopping)
        return error_set(err, ERR_BUSY, "its last rows are being read");
    if (i->state == INTAKE_FAILED && now_s - i->failed_s < RETRY_S) {
        if (err)
            *err = i->why;
        return -1;
    }
    return post(c, job, i, err);
}
