/* log_follow.c - GET /v1/jobs/:id/logs: stream what an attempt prints.
 *
 * A client may ask for the lines of one rank, or for the lines since a time, as
 * far as the attempt's `times` (jobs/log/log_times.h) tells; the log of an
 * attempt without that file is sent whole. The daemon reads a log in pieces,
 * and only while the client keeps up: `less` may stand still for an hour. It
 * follows the job through later attempts, and ends the stream when the job has
 * ended and all of its log was sent.
 *
 * A thread of its own reads the logs: a log may lie on a slow file system, and
 * behind a helper with a deadline of seconds. A follower has at most one piece
 * under way; if its stream is closed meanwhile, it is freed when that comes
 * back.
 */
#include "scheduler/ctld/api/log_follow.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/log/bounded_log.h"
#include "jobs/log/log_times.h"
#include "jobs/log/rank_lines.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"

enum { PIECE_BYTES = 65536, BEHIND_MAX = 4 * PIECE_BYTES };
/* Time between two looks at a log that may grow, and between two tries to send
 * to a client that is behind. */
static const double LOOK_S = 0.2, RESEND_S = 0.02;

struct follower {
    struct task task;
    struct follower *next;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job, offset;
    int32_t attempt;
    bool follow, behind;
    bool reading; /* the thread has it */
    bool closed;  /* and nobody else */

    /* The request; and the state of this attempt, once its log exists. */
    int64_t rank;   /* -1: all */
    double since_s; /* -INFINITY: all */
    bool has_begun, has_labels;
    struct rank_lines lines;

    /* The piece under way. */
    bool over; /* this piece is the last */
    uid_t uid;
    char dir[640];
    char *piece;       /* owned; NULL: nothing was read */
    size_t n, n_shown; /* read, and of those to be sent */
    uint64_t dropped;
    int rc;
    struct error err;
};

struct log_follow {
    struct follower *followers;
    struct loop_source *timer;
};

/* Removes it from the list; its stream is closed or about to be. */
static void let_go(struct follower *f)
{
    for (struct follower **p = &f->c->log_follow->followers; *p;
         p = &(*p)->next) {
        if (*p == f) {
            *p = f->next;
            break;
        }
    }
    f->closed = true;
    if (!f->reading)
        free(f);
}

static void on_closed(void *arg)
{
    let_go(arg);
}

static void end(struct follower *f)
{
    http_stream_end(f->x);
    let_go(f);
}

/* ---- on the thread --------------------------------------------------------
 */
static int read_times(struct follower *f, struct buf *ret, struct error *err)
{
    struct files *files = f->c->parts.files;
    size_t n = 1;
    buf_reset(ret);
    while (n > 0 && ret->len < LOGTIMES_FILE_MAX) {
        if (buf_reserve(ret, PIECE_BYTES, err) < 0 ||
            files->ops->read(files, f->uid, f->dir, LOGTIMES_NAME, ret->len,
                             ret->data + ret->len, PIECE_BYTES, &n, err) < 0)
            return -1;
        ret->len += n;
    }
    return 0;
}

static int read_log(struct follower *f, uint64_t *io_offset, size_t cap,
                    struct error *err)
{
    struct files *files = f->c->parts.files;
    return files->ops->log(files, f->uid, f->dir, io_offset, f->piece, cap,
                           &f->n, &f->dropped, err);
}

/* Finds where to begin, and whether lines have labels. `times` exists before
 * the log does: a log without it is an old one, or is on a full disk. err
 * ERR_NOTFOUND there is no log yet */
static int begin_attempt(struct follower *f, struct error *err)
{
    struct buf b = BUF_INIT;
    uint64_t start = 0;
    int32_t ranks = 0;
    int rc = read_times(f, &b, err);
    if (rc < 0 && err->code == ERR_NOTFOUND) {
        rc = read_log(f, &start, 1, err);
        start = 0;
        if (rc == 0 && read_times(f, &b, err) < 0)
            buf_reset(&b);
    }
    if (rc == 0 && log_times_find(buf_str(&b), b.len, f->since_s, &ranks,
                                  &start, NULL) < 0)
        ranks = 0;
    buf_clear(&b);
    if (rc < 0)
        return -1;
    f->offset = start;
    f->has_labels = ranks > 0;
    f->lines = (struct rank_lines){.rank = (int32_t)f->rank};
    f->has_begun = true;
    return 0;
}

static int read_piece(struct follower *f, struct error *err)
{
    bool is_part = f->rank >= 0 || f->since_s > -INFINITY;
    if (!f->piece)
        return error_set(err, ERR_NOMEM, "a piece of a log");
    if (is_part && !f->has_begun && begin_attempt(f, err) < 0)
        return -1;
    return read_log(f, &f->offset, PIECE_BYTES, err);
}

static void choose_lines(struct follower *f)
{
    if (f->rank < 0 || !f->has_labels)
        return;
    if (f->dropped > 0)
        rank_lines_gap(&f->lines);
    f->n_shown = rank_lines_take(&f->lines, f->piece, f->n);
}

static void read_run(struct task *t)
{
    struct follower *f = (struct follower *)t;
    f->piece = malloc(PIECE_BYTES);
    f->n = 0;
    f->dropped = 0;
    f->rc = read_piece(f, &f->err);
    f->n_shown = f->n;
    if (f->rc == 0)
        choose_lines(f);
    if (f->rc < 0 || f->n == 0) {
        free(f->piece);
        f->piece = NULL;
    }
}

/* ---- on the loop ----------------------------------------------------------
 */
static void read_done(struct task *t);

/* Has the next piece read, unless the client is behind. */
static void begin(struct follower *f)
{
    struct ctld *c = f->c;
    /* Looked up before the piece is read, so it has all that was printed before
     * the end. */
    const struct job *job = ctld_job_find_or_log(c, f->job);
    if (job)
        job = engine_settled(c->engine, job);
    f->behind = http_stream_behind(f->x) > BEHIND_MAX;
    if (f->behind || f->reading)
        return;
    f->over = !job || !f->follow || job_state_is_final(job->state) ||
              job->attempt > f->attempt;
    f->uid = job ? (uid_t)job->uid : (uid_t)-1;
    (void)snprintf(f->dir, sizeof(f->dir), "%s/%d", job ? job->dir : "",
                   f->attempt);
    f->task = (struct task){.run = read_run, .done = read_done};
    /* A full queue: the next look tries again. */
    f->reading = work_queue_post(c->logs, &f->task, NULL) == 0;
}

static void send_piece(struct follower *f)
{
    char marker[JOBLOG_MARKER_CAP];
    if (f->rc < 0 && f->over && f->err.code != ERR_NOTFOUND) {
        http_stream_send(f->x, "\n[mgpu: ", 8);
        http_stream_send(f->x, f->err.msg, strlen(f->err.msg));
        http_stream_send(f->x, "]\n", 2);
    }
    if (f->rc < 0)
        return;
    if (f->dropped > 0)
        http_stream_send(f->x, marker, bounded_log_marker(f->dropped, marker));
    if (f->n_shown > 0)
        http_stream_send(f->x, f->piece, f->n_shown);
}

static void read_done(struct task *t)
{
    struct follower *f = (struct follower *)t;
    f->reading = false;
    if (!f->closed)
        send_piece(f);
    free(f->piece);
    f->piece = NULL;
    if (f->closed) {
        free(f);
        return;
    }
    if (f->c->stopping)
        return;
    const struct job *job = ctld_job_find_or_log(f->c, f->job);
    if (f->rc == 0 && f->n > 0) {
        begin(f);
    } else if (f->over && (!f->follow || !job || job->attempt <= f->attempt)) {
        end(f);
    } else if (f->over) {
        f->attempt++;
        f->offset = 0;
        f->has_begun = false;
        begin(f);
    }
}

static void on_look(void *arg)
{
    struct ctld *c = arg;
    double pause_s = LOOK_S;
    for (struct follower *f = c->log_follow->followers; f; f = f->next) {
        begin(f);
        if (f->behind)
            pause_s = RESEND_S;
    }
    if (c->log_follow->followers)
        loop_timer_set(c->log_follow->timer, pause_s);
}

/* There is a rank for each GPU or slot, and at least one on each node; another
 * attempt may have more of them than this one. */
static int64_t last_rank(const struct job *job)
{
    int32_t gpus = job->gpus > job->gpus_max ? job->gpus : job->gpus_max;
    int32_t nodes = job->nodes > job->nodes_max ? job->nodes : job->nodes_max;
    int32_t n = gpus > nodes ? gpus : nodes;
    return n > 0 ? n - 1 : 0;
}

static bool has_rank(struct http_exchange *x, const struct job *job,
                     int64_t rank)
{
    int64_t last = last_rank(job);
    char name[JOB_DISPLAY_CAP];
    struct error err;
    if (rank <= last)
        return true;
    (void)job_display_id(job, name);
    if (last == 0)
        (void)error_set(&err, ERR_INVAL,
                        "no rank %" PRId64 ": job %s has rank 0 alone", rank,
                        name);
    else
        (void)error_set(&err, ERR_INVAL,
                        "no rank %" PRId64 ": job %s has ranks 0 to %" PRId64,
                        rank, name, last);
    http_reply_err(x, &err);
    return false;
}

void serve_logs(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    const struct job *job = NULL;
    int64_t follow = 0, attempt = 0, rank = -1;
    double since_s = -INFINITY;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job) ||
        !ctld_query_int(x, "follow", 0, 1, 0, &follow) ||
        !ctld_query_int(x, "attempt", 1, INT32_MAX, job->attempt, &attempt) ||
        !ctld_query_int(x, "rank", 0, INT32_MAX, -1, &rank) ||
        !has_rank(x, job, rank) || !ctld_query_since(x, &since_s))
        return;
    struct follower *f = calloc(1, sizeof(*f));
    if (!f) {
        struct error err;
        (void)error_set(&err, ERR_NOMEM, "log");
        http_reply_err(x, &err);
        return;
    }
    *f = (struct follower){.next = c->log_follow->followers,
                           .c = c,
                           .x = x,
                           .job = job->id,
                           .attempt = (int32_t)attempt,
                           .rank = rank,
                           .since_s = since_s,
                           .follow = follow != 0};
    c->log_follow->followers = f;
    http_stream_start(x, "text/plain; charset=utf-8", on_closed, f);
    loop_timer_set(c->log_follow->timer, 0);
}

int log_follow_init(struct ctld *c, struct error *err)
{
    c->log_follow = calloc(1, sizeof(*c->log_follow));
    if (!c->log_follow)
        return error_set(err, ERR_NOMEM, "logs");
    return loop_timer_create(c->loop, on_look, c, &c->log_follow->timer, err);
}

void log_follow_end(struct ctld *c)
{
    struct log_follow *l = c->log_follow;
    for (struct follower *f = l->followers, *next; f; f = next) {
        next = f->next;
        http_stream_end(f->x);
        f->closed = true;
        if (!f->reading)
            free(f);
    }
    l->followers = NULL;
    loop_source_destroy(l->timer);
    l->timer = NULL;
}

void log_follow_clear(struct ctld *c)
{
    if (!c->log_follow)
        return;
    log_follow_end(c);
    free(c->log_follow);
    c->log_follow = NULL;
}
