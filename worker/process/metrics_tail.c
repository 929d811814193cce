/* metrics_tail.c - see metrics_tail.h. */
#include "worker/process/metrics_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"

/* A shorter time is too inexact for a step time: lines are read twice a
 * second. */
static const double pace_least_s = 2.0;

/* A row of v_iteration and 60 values of one's own. */
enum { LINE_MAX_BYTES = 65536, ROWS_MAX = 64, READ_MAX_BYTES = 1 << 20 };

/* The rows before this byte are in the spool: reporter_row() has written them.
 * One write of a fixed length, so that a reader sees the old or the new number;
 * one that is too low costs rows that are sent twice and stored once. */
static void mark(struct tail *t, int64_t at)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%20lld\n", (long long)at);
    if (t->mark_fd >= 0)
        (void)!pwrite(t->mark_fd, text, (size_t)n, 0);
}

static int open_mark(const char *dir, int32_t rank)
{
    struct buf path = BUF_INIT;
    int fd = buf_addf(&path, NULL, "%s/metrics.%d.read", dir, rank) < 0
                 ? -1
                 : open(buf_str(&path),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    buf_clear(&path);
    return fd;
}

int tail_open(struct tail *ret, const char *dir, int32_t rank,
              struct error *err)
{
    struct tail t = {.fd = -1, .mark_fd = -1, .rank = rank};
    t.progress = (struct report_progress){.iteration = -1,
                                          .iterations_total = -1,
                                          .epoch = -1,
                                          .epochs_total = -1,
                                          .loss = NAN,
                                          .t_iter = NAN,
                                          .eval_loss = NAN,
                                          .eval_accuracy = NAN};
    if (buf_addf(&t.path, err, "%s/metrics.%d.jsonl", dir, rank) < 0)
        return -1;
    t.fd =
        open(buf_str(&t.path), O_RDONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (t.fd < 0) {
        (void)error_sys(err, errno, "create '%s'", buf_str(&t.path));
        buf_clear(&t.path);
        return -1;
    }
    t.mark_fd = open_mark(dir, rank);
    mark(&t, 0);
    *ret = t;
    return 0;
}

void tail_close(struct tail *t)
{
    if (t->fd >= 0)
        (void)close(t->fd);
    if (t->mark_fd >= 0)
        (void)close(t->mark_fd);
    t->fd = t->mark_fd = -1;
    buf_clear(&t->path);
    buf_clear(&t->rest);
}

/* Takes the number of iterations or epochs of the whole job, which is no
 * metric: it needs no curve. Returns whether the row was one. */
static bool take_total(struct report_progress *p, const struct metric_row *row)
{
    const double most = 9007199254740992.0; /* 2^53: a double is exact */
    if (!metric_is_total(row))
        return false;
    bool is_epochs = strcmp(row->value.name, "epochs_total") == 0;
    double n = row->value.value;
    bool is_known = n >= 1 && n <= (is_epochs ? (double)INT32_MAX : most);
    if (is_epochs)
        p->epochs_total = is_known ? (int32_t)n : -1;
    else
        p->iterations_total = is_known ? (int64_t)n : -1;
    return true;
}

/* The mean step time since this worker first read an iteration, for programs
 * that do not report t_iter; NAN: too early to say. */
static double pace_of(struct tail *t, int64_t iteration)
{
    double now_s = clock_real.now_s(&clock_real);
    if (t->pace_iteration < 1 || iteration < t->pace_iteration) {
        t->pace_iteration = iteration;
        t->pace_s = now_s;
    }
    double n = (double)(iteration - t->pace_iteration);
    double took_s = now_s - t->pace_s;
    return n > 0 && took_s >= pace_least_s ? took_s / n : (double)NAN;
}

static void note_progress(struct tail *t, const struct metric_row *row)
{
    struct report_progress *p = &t->progress;
    if (row->kind == METRIC_ITERATION) {
        double pace = pace_of(t, row->iteration.iteration);
        p->iteration = row->iteration.iteration;
        p->loss = row->iteration.loss;
        p->t_iter = row->iteration.t_iter > 0 ? row->iteration.t_iter : pace;
        if (row->iteration.epoch > 0)
            p->epoch = row->iteration.epoch;
    } else if (row->kind == METRIC_VALUE &&
               row->value.iteration > p->iteration) {
        p->iteration = row->value.iteration;
        p->t_iter = pace_of(t, p->iteration);
    } else if (row->kind == METRIC_EPOCH) {
        p->epoch = row->epoch.epoch;
        p->eval_loss = row->epoch.eval_loss;
        p->eval_accuracy = row->epoch.eval_accuracy;
    }
}

static void bad_line(struct tail *t, const char *why)
{
    if (t->bad++ == 0)
        log_warn("worker",
                 "a line of $MGPU_METRICS is no row, skipped "
                 "rank=%d line=%lld why=\"%s\"",
                 t->rank, (long long)t->lines, why);
}

static bool is_named(const struct tail *t, const char *name)
{
    for (size_t i = 0; i < t->named.n; i++)
        if (strcmp(t->named.keys[i].name, name) == 0)
            return true;
    return false;
}

/* The first METRIC_IGNORED_CAP different ones. */
static void name_ignored(struct tail *t, const struct metric_ignored *ignored)
{
    for (size_t i = 0; i < ignored->n && i < METRIC_IGNORED_CAP &&
                       t->named.n < METRIC_IGNORED_CAP;
         i++) {
        const struct metric_ignored_key *k = &ignored->keys[i];
        if (is_named(t, k->name))
            continue;
        t->named.keys[t->named.n++] = *k;
        log_warn("worker",
                 "a key of $MGPU_METRICS is ignored, the numbers of its lines "
                 "are kept rank=%d line=%lld key=\"%s\" why=\"%s\"",
                 t->rank, (long long)t->lines, k->name, k->why);
    }
}

static void take_line(struct tail *t, const char *text, size_t len,
                      struct reporter *r)
{
    struct metric_row rows[ROWS_MAX];
    struct metric_ignored ignored;
    struct error err = ERROR_INIT;
    size_t n = 0;
    t->lines++;
    if (strspn(text, " \t\r") >= len)
        return; /* an empty line */
    if (metric_line_decode_named(text, len, t->rank, rows, ROWS_MAX, &n,
                                 &ignored, &err) < 0) {
        bad_line(t, err.msg);
        return;
    }
    name_ignored(t, &ignored);
    for (size_t i = 0; i < n; i++) {
        if (!take_total(&t->progress, &rows[i]))
            reporter_row(r, &rows[i]);
        note_progress(t, &rows[i]);
    }
    reporter_progress(r, &t->progress);
}

static void take_lines(struct tail *t, struct reporter *r)
{
    size_t at = 0;
    const char *end;
    while ((end = memchr(t->rest.data + at, '\n', t->rest.len - at)) != NULL) {
        size_t len = (size_t)(end - t->rest.data) - at;
        if (!t->is_skipping)
            take_line(t, t->rest.data + at, len, r);
        t->is_skipping = false;
        at += len + 1;
    }
    buf_drop(&t->rest, at);
    if (t->rest.len > LINE_MAX_BYTES && !t->is_skipping) {
        t->lines++;
        bad_line(t, "longer than 64 KiB");
        t->is_skipping = true;
    }
    if (t->is_skipping)
        buf_reset(&t->rest);
}

bool tail_read(struct tail *t, struct reporter *r)
{
    char part[16384];
    for (size_t got = 0; got < READ_MAX_BYTES;) {
        ssize_t n = read(t->fd, part, sizeof(part));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || buf_add(&t->rest, part, (size_t)n, NULL) < 0)
            return false;
        t->at += n;
        take_lines(t, r);
        mark(t, t->at - (int64_t)t->rest.len);
        got += (size_t)n;
    }
    return true;
}

int64_t tail_size(const struct tail *t)
{
    struct stat st;
    return fstat(t->fd, &st) == 0 ? st.st_size : t->at;
}

void tail_end(struct tail *t, struct reporter *r)
{
    if (t->rest.len > 0 && !t->is_skipping)
        take_line(t, buf_str(&t->rest), t->rest.len, r);
    mark(t, t->at);
    if (t->bad > 1)
        log_warn("worker",
                 "lines of $MGPU_METRICS were skipped rank=%d "
                 "lines=%lld",
                 t->rank, (long long)t->bad);
}
