/* metrics_retention.c - remove metric rows older than store.metrics_retention.
 *
 * The writer's thread deletes them piece by piece, between the batches that
 * come in. So there is one writer only, and a batch waits for one piece at
 * most. A piece is as many rows as take PIECE_S. While batches are queued the
 * next piece waits, but not for ever: otherwise the file of a busy store would
 * never stop to grow. The configuration is the only state; a daemon that is
 * killed starts a new pass and finds the remaining rows.
 *
 * While the kernel says that the wall clock is not synchronised, passes are
 * skipped: a wrong clock makes everything old. A clock that is synchronised to
 * a wrong time removes rows too early; nothing here protects against that.
 */
#include "scheduler/ctld/maintenance/metrics_retention.h"

#include <math.h>
#include <stdlib.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/curve_data/curve_cache.h"
#include "scheduler/ctld/maintenance/job_retention.h"
#include "scheduler/ctld/request/reply.h"

enum { ROWS_MIN = 64, ROWS_FIRST = 256, ROWS_MAX = 8192 };
static const double PIECE_S = 0.005;
/* After each piece the writer is free for other work, two thirds of the time.
 */
static const double REST_SHARE = 2, REST_MIN_S = 0.001;
/* While batches are queued, the next piece waits YIELD_S, and in all no longer
 * than YIELD_MAX_S. */
static const double YIELD_S = 0.02, YIELD_MAX_S = 1;
/* Between two passes: an eighth of the retention, at most an hour. */
static const double PASS_SHARE = 8, PASS_MAX_S = 3600;
static const double RETRY_S = 60;

struct metrics_retention {
    struct loop_source *timer;
    bool is_busy;
    uint64_t job;     /* the pass has come to this job */
    size_t max;       /* rows of a piece */
    double yielded_s; /* that queued batches went first, since the last piece */
    double passed_s;  /* when the last pass ended; NAN: not yet */
    uint64_t n_of_pass;
    bool waits_for_clock; /* the last pass was skipped */
};

struct piece {
    struct task task;
    struct ctld *c;
    struct store_purge purge;
    double took_s;
    int rc;
    struct error err;
};

static double now_s(const struct ctld *c)
{
    return c->parts.clock->now_s(c->parts.clock);
}

static double wall_s(const struct ctld *c)
{
    return c->parts.clock->wall_s(c->parts.clock);
}

/* ---- on the writer's thread -----------------------------------------------
 */

static void piece_run(struct task *t)
{
    struct piece *p = (struct piece *)t;
    struct store *s = p->c->parts.store;
    const uint64_t first = p->purge.at;
    double began_s = now_s(p->c);
    p->rc = s->metrics->purge_rows(s, &p->purge, &p->err);
    if (p->rc == 0 && p->purge.n > 0)
        curve_cache_forget(p->c->curve_cache, first,
                           p->purge.is_over ? UINT64_MAX : p->purge.at);
    p->took_s = now_s(p->c) - began_s;
}

/* ---- on the loop ----------------------------------------------------------
 */

static double shorter(double a_s, double b_s) /* 0: for good */
{
    return a_s <= 0 ? b_s : b_s <= 0 ? a_s : fmin(a_s, b_s);
}

/* Rows are kept as long as their job is, at most. */
static double keep_s(const struct ctld *c)
{
    const struct ctld_conf *conf = c->parts.conf;
    return shorter(conf->metrics_retention_s, conf->jobs_retention_s);
}

static double pass_s(const struct ctld *c)
{
    return fmin(keep_s(c) / PASS_SHARE, PASS_MAX_S);
}

static void end_pass(struct ctld *c)
{
    struct metrics_retention *r = c->metrics_retention;
    r->job = 0;
    r->passed_s = wall_s(c);
    if (r->n_of_pass > 0)
        log_notice("store", "rows of old jobs were removed rows=%llu",
                   (unsigned long long)r->n_of_pass);
    r->n_of_pass = 0;
    job_retention_begin(c);
    loop_timer_set(r->timer, pass_s(c));
}

static void measure(struct metrics_retention *r, const struct piece *p)
{
    if (p->purge.n < r->max)
        return; /* it says little */
    if (p->took_s < PIECE_S / 2 && r->max < ROWS_MAX)
        r->max *= 2;
    else if (p->took_s > PIECE_S * 2 && r->max > ROWS_MIN)
        r->max /= 2;
}

static void took(struct ctld *c, const struct piece *p)
{
    struct metrics_retention *r = c->metrics_retention;
    measure(r, p);
    r->job = p->purge.at;
    r->n_of_pass += p->purge.n;
    c->stats.rows_removed += p->purge.n;
    if (p->purge.is_over)
        end_pass(c);
    else
        loop_timer_set(r->timer, fmax(p->took_s * REST_SHARE, REST_MIN_S));
}

static void piece_done(struct task *t)
{
    struct piece *p = (struct piece *)t;
    struct ctld *c = p->c;
    c->metrics_retention->is_busy = false;
    if (p->rc == 0 && !c->stopping) {
        took(c, p);
    } else if (!c->stopping) {
        log_warn("store", "old rows stay for now in_s=%.0f why=\"%s\"", RETRY_S,
                 p->err.msg);
        loop_timer_set(c->metrics_retention->timer, RETRY_S);
    }
    free(p);
}

static bool is_wanted(const struct ctld *c)
{
    return keep_s(c) > 0;
}

static bool is_synced(const struct ctld *c)
{
    const struct clock *clock = c->parts.clock;
    return clock->is_synced && clock->is_synced(clock);
}

/* A skipped pass is followed by the next one after the usual time. */
static bool must_skip(struct ctld *c)
{
    struct metrics_retention *r = c->metrics_retention;
    bool skips = !is_synced(c);
    if (skips && !r->waits_for_clock)
        log_warn("store", "the system clock is not synchronised, old rows and "
                          "jobs are kept");
    r->waits_for_clock = skips;
    if (skips)
        loop_timer_set(r->timer, pass_s(c));
    return skips;
}

static bool must_yield(struct ctld *c)
{
    struct metrics_retention *r = c->metrics_retention;
    if (work_queue_queued(c->writer) == 0 || r->yielded_s >= YIELD_MAX_S) {
        r->yielded_s = 0;
        return false;
    }
    r->yielded_s += YIELD_S;
    return true;
}

double metrics_retention_before(const struct ctld *c, double age_s)
{
    return is_synced(c) ? wall_s(c) - age_s : -INFINITY;
}

/* The daemon keeps rows of jobs that ended since then; -INFINITY: of all. */
static double kept_since(struct ctld *c)
{
    return is_wanted(c) ? metrics_retention_before(c, keep_s(c)) : -INFINITY;
}

static int post(struct ctld *c)
{
    struct metrics_retention *r = c->metrics_retention;
    struct piece *p = calloc(1, sizeof(*p));
    if (!p)
        return -1;
    p->task = (struct task){.run = piece_run, .done = piece_done};
    p->c = c;
    p->purge = (struct store_purge){
        .before_s = kept_since(c), .max = r->max, .at = r->job};
    if (work_queue_post(c->writer, &p->task, NULL) == 0) {
        r->is_busy = true;
        return 0;
    }
    free(p);
    return -1;
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct metrics_retention *r = c->metrics_retention;
    if (c->stopping || r->is_busy || !is_wanted(c))
        return;
    if (must_skip(c))
        return;
    if (must_yield(c) || post(c) < 0)
        loop_timer_set(r->timer, YIELD_S);
}

bool metrics_retention_has_removed(struct ctld *c, const struct job *j)
{
    return job_state_is_final(j->state) && j->end_s < kept_since(c);
}

void metrics_retention_restart(struct ctld *c)
{
    if (!c->metrics_retention)
        return;
    c->metrics_retention->job = 0;
    if (is_wanted(c))
        loop_timer_set(c->metrics_retention->timer, 0);
}

int metrics_retention_init(struct ctld *c, struct error *err)
{
    struct metrics_retention *r = c->metrics_retention = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "retention of metrics");
    r->max = ROWS_FIRST;
    r->passed_s = NAN;
    if (loop_timer_create(c->loop, on_timer, c, &r->timer, err) < 0)
        return -1;
    metrics_retention_restart(c);
    return 0;
}

void metrics_retention_clear(struct ctld *c)
{
    if (!c->metrics_retention)
        return;
    loop_source_destroy(c->metrics_retention->timer);
    free(c->metrics_retention);
    c->metrics_retention = NULL;
}

json_t *metrics_retention_json(struct ctld *c)
{
    const struct metrics_retention *r = c->metrics_retention;
    double rows_s = kept_since(c), jobs_s = job_retention_since(c);
    return json_pack(
        "{s:o, s:o, s:I, s:I, s:o, s:b}", "jobs_since",
        isfinite(jobs_s) ? ctld_time(jobs_s) : json_null(), "rows_since",
        isfinite(rows_s) ? ctld_time(rows_s) : json_null(), "jobs_removed",
        (json_int_t)c->stats.jobs_removed, "rows_removed",
        (json_int_t)c->stats.rows_removed, "looked", ctld_time(r->passed_s),
        "waits_for_clock", is_wanted(c) && !is_synced(c));
}
