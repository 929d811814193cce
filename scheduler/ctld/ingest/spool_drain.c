/* spool_drain.c - what an attempt left behind, read before its end is final.
 *
 * The ranks' last rows may be in their spool files only: the daemon was
 * away, or a rank died. The engine asks (spool_drain_on_exit) before it stages
 * an attempt's end; the first answer is "not yet", the writer's thread reads
 * what was not acknowledged, and the next step gets a yes. So a job that is
 * seen COMPLETED has all its rows.
 *
 * Unless the store takes no rows at all, because metrics.db is damaged or its
 * disk is full. Jobs do not wait for that for ever: after GIVE_UP_S of tries
 * the attempt ends without them, and what its spools still hold stays there.
 *
 * A worker that was killed may not have read all that its program wrote to
 * $MGPU_METRICS, and the spool lacks those rows. So the file of the program is
 * read as well, behind the spool, from the byte that the worker noted
 * (worker/process/metrics_tail.h); the store keeps one of a row that both have.
 *
 * In the same way the worker's final word is taken from report.json when it
 * could not be delivered.
 *
 * The directory is the job's own: what stands in it is input. The files are
 * read as their user (files.h), and only those of the ranks that there were.
 * A spool may be of any size, or grow as fast as it is read: it is read in
 * slices, between which the writer has time for other jobs' rows, and only as
 * far as a rank may have written.
 */
#include "scheduler/ctld/ingest/spool_drain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/attempt_progress.h"
#include "scheduler/ctld/ingest/metric_ingest.h"
#include "scheduler/ctld/ingest/metric_name_limit.h"
#include "scheduler/ctld/ingest/sol_counts.h"
#include "scheduler/ctld/ingest/worker_report.h"
#include "scheduler/ctld/loop/step_request.h"

enum {
    REPORT_MAX_BYTES = 65536,
    HOLE_SHARE = 32 /* zeroes count so much less: they are not even parsed */
};
/* Of one spool. A rank leaves 64 MiB that are not acknowledged
 * (worker/report/spool.h). But a daemon that did not see it run does not know
 * what an earlier daemon acknowledged, and not every file system has holes. */
static const int64_t SPOOL_READ_MAX = (int64_t)2 << 30;
static const double SLICE_S = 0.1;
/* Between two tries when the store failed, and from the first that failed to
 * the end without the rows. */
static const double RETRY_S = 0.5, GIVE_UP_S = 10, COMPLAIN_EVERY_S = 10;
/* The file system of the job does not answer, and its worker's last word has
 * not come: to go on means to call it failed. Longer than a file server takes
 * to restart. */
static const double NO_REPORT_S = 600;

struct drain {
    struct task task;
    struct ctld *c;
    uint64_t job;
    int32_t attempt;
    uid_t uid;
    char dir[640];
    struct metric_name_limit *names; /* a reference */
    int64_t *acked;                  /* a copy, by rank; owned */
    int32_t n_acked;                 /* its length */
    int32_t n_ranks;                 /* that ran */
    struct drain_at at;
    double until_s; /* the slice's end */
    bool looked;    /* for a report; has_report says whether there is one */
    bool has_report;
    struct worker_report report;
    bool has_progress;
    struct attempt_progress progress;
    struct ingest_count count;
    struct sol_shares shares;
    int rc;
    struct error err;
};

/* ---- on the writer's thread -----------------------------------------------
 */

/* A shortage of ours, or nobody answers: worth another try. Whatever else
 * stands in the way is the job's own doing, or its disk's, and must not keep
 * it from ending. */
static bool may_pass(enum err_code code)
{
    return code == ERR_NOMEM || code == ERR_LIMIT || code == ERR_BUSY ||
           code == ERR_TIMEOUT || code == ERR_UNAVAIL;
}

/* Fills buf as far as the file goes; nothing of one that cannot be read. */
static int read_full(const struct drain *d, const char *name, char *buf,
                     size_t cap, int64_t at, size_t *ret_len, struct error *err)
{
    struct files *f = d->c->parts.files;
    size_t len = 0;
    while (len < cap) {
        struct error why = ERROR_INIT;
        size_t n = 0;
        if (f->ops->read(f, d->uid, d->dir, name, (uint64_t)at + len, buf + len,
                         cap - len, &n, &why) < 0) {
            if (may_pass(why.code))
                return error_set(err, why.code, "%s: %s", name, why.msg);
            break;
        }
        if (n == 0)
            break;
        len += n;
    }
    *ret_len = len;
    return 0;
}

static bool is_hole(const char *buf, size_t n)
{
    return buf[0] == '\0' && memcmp(buf, buf + 1, n - 1) == 0;
}

static bool is_late(const struct drain *d)
{
    const struct clock *clock = d->c->parts.clock;
    return clock->now_s(clock) >= d->until_s || atomic_load(&d->c->closing);
}

/* Where a file is read from, at first. Without a number, from its start. */
static int first_offset(struct drain *d, int64_t *ret, struct error *err)
{
    char name[32], text[32];
    int32_t rank = d->at.rank;
    size_t n = 0;
    if (!d->at.is_program) {
        *ret = rank < d->n_acked && d->acked[rank] > 0 ? d->acked[rank] : 0;
        return 0;
    }
    (void)snprintf(name, sizeof(name), "metrics.%d.read", (int)rank);
    if (read_full(d, name, text, sizeof(text) - 1, 0, &n, err) < 0)
        return -1;
    text[n] = '\0';
    long long at = strtoll(text, NULL, 10);
    *ret = at > 0 ? at : 0;
    return 0;
}

/* Of the file of the rank d->at is at. Whole lines only: the last one may
 * have been cut by the rank's death. True: that is all of it. */
static int drain_piece(struct drain *d, char *buf, bool *ret_all,
                       struct error *err)
{
    char name[32];
    int32_t rank = d->at.rank;
    size_t n = 0;
    (void)snprintf(name, sizeof(name),
                   d->at.is_program ? "metrics.%d.jsonl" : "spool.%d",
                   (int)rank);
    if (d->at.offset < 0 && first_offset(d, &d->at.offset, err) < 0)
        return -1;
    if (read_full(d, name, buf, WIRE_ROWS_MAX_BYTES, d->at.offset, &n, err) < 0)
        return -1;
    const char *end = n > 0 ? memrchr(buf, '\n', n) : NULL;
    if (n == WIRE_ROWS_MAX_BYTES && !end)
        end = buf + n - 1; /* one endless line: dropped piece by piece */
    size_t len = end ? (size_t)(end - buf) + 1 : 0;
    bool hole = len > 0 && is_hole(buf, len);
    d->count.shares = rank == 0 ? &d->shares : NULL;
    d->count.curves = d->c->curve_cache;
    if (len > 0 && !hole &&
        metric_ingest_store(d->c->parts.store, d->job, d->attempt, rank,
                            d->names, buf, len, &d->count, err) < 0)
        return -1;
    d->at.offset += (int64_t)len;
    d->at.cost += (int64_t)(hole ? len / HOLE_SHARE : len);
    bool is_cut = d->at.cost > SPOOL_READ_MAX;
    d->at.is_cut = d->at.is_cut || is_cut;
    *ret_all = !end || is_cut;
    return 0;
}

static int drain_spools(struct drain *d, char *buf, struct error *err)
{
    bool is_first = true; /* however slow it was to get here */
    while (d->at.rank < d->n_ranks && (is_first || !is_late(d))) {
        bool is_all = false;
        is_first = false;
        if (drain_piece(d, buf, &is_all, err) < 0)
            return -1;
        if (is_all) {
            d->at.rank += d->at.is_program;
            d->at.is_program = !d->at.is_program;
            d->at.offset = -1;
            d->at.cost = 0;
        }
    }
    return 0;
}

static int read_report(struct drain *d, char *buf, struct error *err)
{
    size_t n = 0;
    if (read_full(d, "report.json", buf, REPORT_MAX_BYTES, 0, &n, err) < 0)
        return -1;
    json_t *o = n > 0 ? json_loadb(buf, n, 0, NULL) : NULL;
    d->has_report = o && worker_report_parse(o, &d->report, NULL) == 0;
    json_decref(o);
    return 0;
}

static int drain_files(struct drain *d, struct error *err)
{
    char *buf = malloc(WIRE_ROWS_MAX_BYTES);
    if (!buf)
        return error_set(err, ERR_NOMEM, "spools");
    /* First: the job's end needs it, also without the rows. */
    int rc = read_report(d, buf, err);
    d->looked = rc == 0;
    if (rc == 0)
        rc = drain_spools(d, buf, err);
    free(buf);
    return rc;
}

static void drain_run(struct task *t)
{
    struct drain *d = (struct drain *)t;
    struct store *s = d->c->parts.store;
    const struct clock *clock = d->c->parts.clock;
    d->until_s = clock->now_s(clock) + SLICE_S;
    d->rc = drain_files(d, &d->err);
    if (d->rc == 0 && d->at.rank == d->n_ranks)
        d->rc = s->metrics->sync_rows(s, &d->err);
    /* What was heard before is better than no end. */
    if (d->rc == 0 && d->at.rank == d->n_ranks)
        d->has_progress = attempt_progress_read(s, d->job, d->attempt,
                                                &d->progress, NULL) == 0;
}

/* ---- on the loop ----------------------------------------------------------
 */

static void drain_free(struct drain *d)
{
    metric_name_limit_unref(d->names);
    sol_shares_clear(&d->shares);
    free(d->acked);
    free(d);
}

static void failed(struct ctld *c, struct attempt_metrics *i,
                   const struct error *why)
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    i->state = SPOOL_FAILED;
    i->why = *why;
    i->failed_s = now_s;
    if (isnan(i->failing_s))
        i->failing_s = now_s;
    if (now_s - i->complained_s < COMPLAIN_EVERY_S)
        return;
    i->complained_s = now_s;
    log_warn("metrics",
             "the spool was not stored, trying again job=%llu attempt=%d "
             "why=\"%s\"",
             (unsigned long long)i->job, i->attempt, why->msg);
}

static void drain_done(struct task *t)
{
    struct drain *d = (struct drain *)t;
    struct ctld *c = d->c;
    struct attempt_metrics *i =
        attempt_metrics_of(c, d->job, d->attempt, false);
    metric_ingest_count(c, &d->count);
    if (i && d->looked) {
        i->looked = true;
        i->has_report = d->has_report;
        i->report = d->report;
    }
    if (i && d->has_progress) {
        i->has_progress = true;
        i->progress = d->progress;
    }
    if (i) { /* also of a try that failed: so much is stored */
        i->at = d->at;
        sol_counts_add(c, i, &d->shares);
    }
    if (i && d->rc < 0)
        failed(c, i, &d->err);
    else if (i)
        i->state = d->at.rank < d->n_ranks ? SPOOL_IDLE : SPOOL_DRAINED;
    drain_free(d);
    ctld_step_want(c);
}

static int post(struct ctld *c, const struct job *job,
                struct attempt_metrics *i, struct error *err)
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
    d->uid = (uid_t)job->uid;
    d->acked = acked;
    d->names = metric_name_limit_ref(i->names);
    d->n_acked = i->n_ranks;
    /* One per device; without one, one per node. */
    d->n_ranks = job->gpus > job->nodes ? job->gpus : job->nodes;
    d->at = i->at;
    (void)snprintf(d->dir, sizeof(d->dir), "%s/%d", job->dir, job->attempt);
    if (work_queue_post(c->writer, &d->task, err) < 0) {
        drain_free(d);
        return -1;
    }
    i->state = SPOOL_DRAINING;
    return error_set(err, ERR_BUSY, "its last rows are being read");
}

/* Staged with the end, and anew with it when the batch is undone. */
static void use_report(struct ctld *c, const struct job *job,
                       const struct attempt_metrics *i)
{
    struct error err = ERROR_INIT;
    if (i->has_report && !job->reported &&
        worker_report_use(c->engine, job->id, job->attempt, &i->report, &err) <
            0)
        log_info("engine", "report.json not used job=%llu why=\"%s\"",
                 (unsigned long long)job->id, err.msg);
}

/* Only right after a try that failed. When the end cannot be stored either,
 * because both databases are on the full disk, it is undone, and the next one
 * is preceded by another try: once there is room again, the rows are stored
 * with it. Not before report.json was looked for, for without it a success
 * would become a failure. */
static bool gives_up(const struct job *job, const struct attempt_metrics *i,
                     double now_s)
{
    bool is_known = i->looked || job->reported;
    return now_s - i->failed_s < RETRY_S &&
           now_s - i->failing_s >= (is_known ? GIVE_UP_S : NO_REPORT_S);
}

int spool_drain_on_exit(void *arg, const struct job *job, struct error *err)
{
    struct ctld *c = arg;
    struct attempt_metrics *i =
        attempt_metrics_of(c, job->id, job->attempt, true);
    if (!i)
        return error_set(err, ERR_NOMEM, "spool");
    double now_s = c->parts.clock->now_s(c->parts.clock);
    bool is_given_up = i->state == SPOOL_FAILED && gives_up(job, i, now_s);
    i->undrained = is_given_up || i->at.is_cut;
    if (i->state == SPOOL_DRAINED || is_given_up) {
        if (!is_given_up && i->at.is_cut)
            (void)error_set(&i->why, ERR_LIMIT,
                            "more than a rank leaves unacknowledged");
        use_report(c, job, i);
        if (i->has_progress)
            attempt_progress_use(c->engine, job, &i->progress);
        return 0;
    }
    if (i->state == SPOOL_DRAINING || c->stopping)
        return error_set(err, ERR_BUSY, "its last rows are being read");
    if (i->state == SPOOL_FAILED && now_s - i->failed_s < RETRY_S) {
        if (err)
            *err = i->why;
        return -1;
    }
    return post(c, job, i, err);
}
