/* metric_ingest.c - metric rows on their way from the workers into the store.
 *
 * The rows of a rank are lines of its spool file; a batch names the bytes of
 * the spool that stand before it. The writer's thread decodes and stores it,
 * and then the daemon acknowledges it: {"acked":N} says that the bytes of the
 * spool before N are stored. Rows have keys, so a batch that comes twice stores
 * nothing twice.
 *
 * The daemon keeps in memory only which bytes are stored (`attempt_metrics`).
 * After a restart it does not know, and believes the first offset that a rank
 * sends: an earlier daemon acknowledged it. It answers a batch beyond the known
 * end with that end, and the rank goes back to it.
 *
 * A malformed line would stop its spool for ever if it failed its batch. So it
 * is dropped, counted (mgpu_lines_dropped_total), and logged. So is a row over
 * the limit of metric names (metric_name_limit.c, mgpu_values_dropped_total).
 */
#include "scheduler/ctld/ingest/metric_ingest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/curve_data/curve_cache.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/metric_name_limit.h"
#include "scheduler/ctld/ingest/sol_counts.h"
#include "scheduler/ctld/ingest/teach_speed.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/reply.h"

/* rows() is durable within a second by calling sync_rows() that often. */
static const double SYNC_S = 1, COMPLAIN_EVERY_S = 10;
enum {
    RANKS_MAX = 65536,
    ROWS_PER_CALL = 2048, /* 5 us each: the store is free again in 10 ms */
    ROWS_PER_LINE = 64
};

struct metric_ingest {
    struct loop_source *sync_timer;
    bool unsynced;
    double complained_s; /* about lines; NAN: not yet */
};

/* ---- attempts --------------------------------------------------------------
 */

struct attempt_metrics *attempt_metrics_of(struct ctld *c, uint64_t job,
                                           int32_t attempt, bool create)
{
    for (struct attempt_metrics *i = c->attempts; i; i = i->next)
        if (i->job == job && i->attempt == attempt)
            return i;
    struct attempt_metrics *i = create ? calloc(1, sizeof(*i)) : NULL;
    if (i && !(i->names = metric_name_limit_create())) {
        free(i);
        i = NULL;
    }
    if (!i)
        return NULL;
    i->job = job;
    i->attempt = attempt;
    i->failed_s = i->failing_s = NAN;
    i->complained_s = -INFINITY;
    i->at.offset = -1;
    i->next = c->attempts;
    c->attempts = i;
    return i;
}

static void attempt_free(struct attempt_metrics *i)
{
    metric_name_limit_unref(i->names);
    free(i->acked);
    free(i->seen);
    free(i);
}

static void count_undrained(struct ctld *c, const struct attempt_metrics *i)
{
    const struct job *job = engine_job(c->engine, i->job);
    c->stats.spools_undrained++;
    log_err("metrics",
            "an attempt ended without all its rows; what was not stored is "
            "in its spools job=%llu attempt=%d spools=\"%s/%d/spool.*\" "
            "why=\"%s\"",
            (unsigned long long)i->job, i->attempt, job ? job->dir : "?",
            i->attempt, i->why.msg);
}

void metric_ingest_forget(struct ctld *c, uint64_t job, int32_t attempt)
{
    for (struct attempt_metrics **p = &c->attempts; *p; p = &(*p)->next) {
        struct attempt_metrics *i = *p;
        if (i->job == job && i->attempt == attempt) {
            *p = i->next;
            if (i->undrained)
                count_undrained(c, i);
            attempt_free(i);
            return;
        }
    }
}

int64_t *attempt_metrics_acked(struct attempt_metrics *i, int32_t rank)
{
    if (rank >= i->n_ranks) {
        int32_t n = rank + 1;
        int64_t *p = realloc(i->acked, (size_t)n * sizeof(*p));
        if (p)
            i->acked = p;
        struct rank_seen *s = realloc(i->seen, (size_t)n * sizeof(*s));
        if (s)
            i->seen = s;
        if (!p || !s)
            return NULL;
        for (int32_t r = i->n_ranks; r < n; r++) {
            p[r] = -1;
            s[r] = (struct rank_seen){.heard_s = NAN};
        }
        i->n_ranks = n;
    }
    return &i->acked[rank];
}

/* ---- on the writer's thread -----------------------------------------------
 */

struct rows {
    struct metric_row row[ROWS_PER_CALL + ROWS_PER_LINE];
    size_t n;
};

static int flush(struct store *s, uint64_t job, int32_t attempt, struct rows *r,
                 struct ingest_count *io, struct error *err)
{
    size_t n_new = 0;
    if (r->n == 0)
        return 0;
    if (s->metrics->rows(s, job, attempt, r->row, r->n, &n_new, err) < 0)
        return -1;
    if (n_new > 0)
        curve_cache_note(io->curves, job, attempt, r->row, r->n);
    io->stored += n_new;
    io->repeated += r->n - n_new;
    r->n = 0;
    return 0;
}

static int64_t highest(const struct metric_row *row, size_t n, int64_t so_far)
{
    for (size_t i = 0; i < n; i++)
        if (row[i].kind == METRIC_ITERATION &&
            row[i].iteration.iteration > so_far)
            so_far = row[i].iteration.iteration;
    return so_far;
}

/* Keeps of n rows those that may be stored; returns how many. */
static size_t keep_wanted(struct metric_name_limit *names,
                          struct metric_row *row, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!metric_name_limit_take(names, &row[i]))
            continue;
        if (kept < i)
            row[kept] = row[i];
        kept++;
    }
    return kept;
}

static size_t n_zeroes(const char *p, size_t max)
{
    size_t n = 0;
    while (n < max && p[n] == '\0')
        n++;
    return n;
}

/* A worker takes these for progress; what a program wrote itself has them. */
static size_t drop_totals(struct metric_row *rows, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!metric_is_total(&rows[i]))
            rows[kept++] = rows[i];
    return kept;
}

int metric_ingest_store(struct store *s, uint64_t job, int32_t attempt,
                        int32_t rank, struct metric_name_limit *names,
                        const char *text, size_t len, struct ingest_count *io,
                        struct error *err)
{
    struct rows *r = malloc(sizeof(*r));
    struct ingest_count count = {.curves = io->curves};
    const size_t n_shares = io->shares ? io->shares->n : 0;
    int rc = 0;
    if (!r)
        return error_set(err, ERR_NOMEM, "metric rows");
    r->n = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        /* What a rank gave back of its spool reads as zeroes; the line that
         * they run into was stored before. */
        size_t hole = n_zeroes(text + at, len - at), got = 0;
        at += hole;
        const char *end = at < len ? memchr(text + at, '\n', len - at) : NULL;
        size_t n = end ? (size_t)(end - text) - at : len - at;
        if (n > 0 && metric_line_decode(text + at, n, rank, r->row + r->n,
                                        ROWS_PER_LINE, &got, NULL) < 0)
            count.dropped += hole == 0;
        count.iteration = highest(r->row + r->n, got, count.iteration);
        for (size_t i = 0; io->times && i < got; i++)
            teach_times_add(io->times, &r->row[r->n + i]);
        for (size_t i = 0; rc == 0 && io->shares && i < got; i++)
            rc = sol_counts_note(io->shares, &r->row[r->n + i], err);
        got = drop_totals(r->row + r->n, got);
        size_t kept = keep_wanted(names, r->row + r->n, got);
        count.unwanted += got - kept;
        r->n += kept;
        at += n + 1;
        if (rc == 0 && r->n >= ROWS_PER_CALL)
            rc = flush(s, job, attempt, r, &count, err);
    }
    if (rc == 0)
        rc = flush(s, job, attempt, r, &count, err);
    free(r);
    if (rc == 0) {
        io->stored += count.stored;
        io->repeated += count.repeated;
        io->dropped += count.dropped;
        io->unwanted += count.unwanted;
        if (count.iteration > io->iteration)
            io->iteration = count.iteration;
    } else if (io->shares) {
        io->shares->n = n_shares; /* they come again */
    }
    return rc;
}

struct batch {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job;
    int32_t attempt, rank;
    int64_t offset;
    size_t len;
    char *text;                      /* owned */
    struct metric_name_limit *names; /* a reference */
    struct ingest_count count;
    struct iteration_times times;
    struct sol_shares shares;
    int rc;
    struct error err;
};

static void batch_run(struct task *t)
{
    struct batch *b = (struct batch *)t;
    b->count.times = b->rank == 0 ? &b->times : NULL;
    b->count.shares = b->rank == 0 ? &b->shares : NULL;
    b->count.curves = b->c->curve_cache;
    b->rc = metric_ingest_store(b->c->parts.store, b->job, b->attempt, b->rank,
                                b->names, b->text, b->len, &b->count, &b->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void batch_free(struct batch *b)
{
    metric_name_limit_unref(b->names);
    sol_shares_clear(&b->shares);
    free(b->text);
    free(b);
}

static void reply_acked(struct http_exchange *x, int64_t acked,
                        uint64_t dropped)
{
    ctld_reply(x, 200,
               json_pack("{s:s, s:I, s:I}", "schema", "mgpu.acked/1", "acked",
                         (json_int_t)acked, "dropped", (json_int_t)dropped));
}

void metric_ingest_count(struct ctld *c, const struct ingest_count *n)
{
    const struct clock *clock = c->parts.clock;
    c->stats.rows_stored += n->stored;
    c->stats.rows_repeated += n->repeated;
    c->stats.lines_dropped += n->dropped;
    c->stats.values_dropped += n->unwanted;
    c->metric_ingest->unsynced = c->metric_ingest->unsynced || n->stored > 0;
    if (c->metric_ingest->unsynced && !c->stopping &&
        !loop_timer_is_set(c->metric_ingest->sync_timer))
        loop_timer_set(c->metric_ingest->sync_timer, SYNC_S);
    double now_s = clock->now_s(clock);
    if (n->dropped + n->unwanted == 0 ||
        now_s - c->metric_ingest->complained_s < COMPLAIN_EVERY_S)
        return;
    c->metric_ingest->complained_s = now_s;
    if (n->dropped > 0)
        log_warn("metrics", "dropped lines that are not metric rows lines=%llu",
                 (unsigned long long)n->dropped);
    if (n->unwanted > 0)
        log_warn("metrics",
                 "dropped rows of a job with too many metric names rows=%llu",
                 (unsigned long long)n->unwanted);
}

static void batch_done(struct task *t)
{
    struct batch *b = (struct batch *)t;
    struct ctld *c = b->c;
    struct attempt_metrics *i =
        attempt_metrics_of(c, b->job, b->attempt, false);
    int64_t *acked = i ? attempt_metrics_acked(i, b->rank) : NULL;
    int64_t end = b->offset + (int64_t)b->len;
    if (b->rc < 0) {
        log_warn("metrics",
                 "rows not stored, the worker keeps them "
                 "job=%llu why=\"%s\"",
                 (unsigned long long)b->job, b->err.msg);
        http_reply_err(b->x, &b->err);
    } else {
        metric_ingest_count(c, &b->count);
        if (acked && *acked < end)
            *acked = end;
        if (acked && i->seen[b->rank].iteration < b->count.iteration)
            i->seen[b->rank].iteration = b->count.iteration;
        if (i) {
            teach_times(c, i, &b->times);
            sol_counts_add(c, i, &b->shares);
        }
        reply_acked(b->x, acked ? *acked : end, b->count.dropped);
    }
    batch_free(b);
}

static int batch_create(struct ctld *c, struct http_exchange *x,
                        const struct batch *like, struct error *err)
{
    size_t len = 0;
    const char *body = http_body(x, &len);
    struct batch *b = malloc(sizeof(*b));
    char *text = malloc(len + 1);
    if (!b || !text) {
        free(b);
        free(text);
        return error_set(err, ERR_NOMEM, "%zu bytes of rows", len);
    }
    *b = *like;
    b->task = (struct task){.run = batch_run, .done = batch_done};
    b->c = c;
    b->x = x;
    b->text = text;
    b->len = len;
    b->names = metric_name_limit_ref(like->names);
    if (len > 0) /* a rank without news asks whether it is still to run */
        memcpy(text, body, len);
    if (work_queue_post(c->writer, &b->task, err) < 0) {
        batch_free(b);
        return -1;
    }
    return 0;
}

void serve_rows(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct batch b = {.rc = 0};
    struct error err = ERROR_INIT;
    struct worker w;
    int64_t rank = 0;
    if (!ctld_admit_worker(c, x, &w) ||
        !ctld_query_int(x, "rank", 0, RANKS_MAX - 1, 0, &rank) ||
        !ctld_query_int(x, "offset", 0, INT64_MAX / 2, 0, &b.offset))
        return;
    b.job = w.job;
    b.attempt = w.attempt;
    b.rank = (int32_t)rank;
    if (engine_check_lease(c->engine, w.job, w.attempt, w.token, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    struct attempt_metrics *i = attempt_metrics_of(c, b.job, b.attempt, true);
    int64_t *acked = i ? attempt_metrics_acked(i, b.rank) : NULL;
    if (!acked) {
        (void)error_set(&err, ERR_NOMEM, "metric rows");
        http_reply_err(x, &err);
        return;
    }
    i->seen[b.rank].heard_s = c->parts.clock->now_s(c->parts.clock);
    if (*acked >= 0 && b.offset > *acked) {
        reply_acked(x, *acked, 0); /* go back: some bytes are missing */
        return;
    }
    b.names = i->names;
    if (batch_create(c, x, &b, &err) < 0)
        http_reply_err(x, &err);
}

/* ---- the sync of each second ----------------------------------------------
 */

struct sync {
    struct task task;
    struct ctld *c;
    int rc;
    struct error err;
};

static void sync_run(struct task *t)
{
    struct sync *s = (struct sync *)t;
    struct store *store = s->c->parts.store;
    s->rc = store->metrics->sync_rows(store, &s->err);
}

static void sync_done(struct task *t)
{
    struct sync *s = (struct sync *)t;
    if (s->rc < 0) {
        s->c->metric_ingest->unsynced = true;
        if (!s->c->stopping)
            loop_timer_set(s->c->metric_ingest->sync_timer, SYNC_S);
        log_warn("metrics", "rows not synced yet, trying again why=\"%s\"",
                 s->err.msg);
    }
    free(s);
}

static void on_sync(void *arg)
{
    struct ctld *c = arg;
    struct sync *s = c->metric_ingest->unsynced ? calloc(1, sizeof(*s)) : NULL;
    if (!c->metric_ingest->unsynced)
        return;
    if (s) {
        s->task = (struct task){.run = sync_run, .done = sync_done};
        s->c = c;
    }
    if (!s || work_queue_post(c->writer, &s->task, NULL) < 0) {
        free(s);
        loop_timer_set(c->metric_ingest->sync_timer, SYNC_S);
        return;
    }
    c->metric_ingest->unsynced = false;
}

int metric_ingest_init(struct ctld *c, struct error *err)
{
    struct metric_ingest *m = c->metric_ingest = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, ERR_NOMEM, "metric rows");
    m->complained_s = NAN;
    return loop_timer_create(c->loop, on_sync, c, &m->sync_timer, err);
}

void metric_ingest_clear(struct ctld *c)
{
    while (c->attempts) {
        struct attempt_metrics *i = c->attempts;
        c->attempts = i->next;
        attempt_free(i);
    }
    if (!c->metric_ingest)
        return;
    loop_source_destroy(c->metric_ingest->sync_timer);
    free(c->metric_ingest);
    c->metric_ingest = NULL;
}
