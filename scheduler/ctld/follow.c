/* follow.c - GET /v1/jobs/:id/logs: what an attempt printed, as it grows.
 *
 * The log is read in pieces, and only while its reader keeps up: `less` may
 * stand still for an hour. Following goes on through a job's later attempts
 * and ends when the job has ended and all of it was sent.
 *
 * The reading is done on a thread of its own: a log may lie on a file system
 * that takes its time, and behind a helper with a deadline of seconds. A
 * follower has at most one piece under way; one that was closed meanwhile is
 * freed when that comes back.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/joblog.h"
#include "scheduler/ctld/private.h"

enum { PIECE_BYTES = 65536, BEHIND_MAX = 4 * PIECE_BYTES };
/* Between two looks at a log that may grow, and between two tries to send
 * to a reader that is behind. */
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

    /* Of the piece under way. */
    bool over; /* there will be no more than what is read now */
    uid_t uid;
    char dir[640];
    char *piece; /* owned; NULL: nothing was read */
    size_t n;
    uint64_t dropped;
    int rc;
    struct error err;
};

/* Out of the list; its stream is closed or about to be. */
static void let_go(struct follower *f)
{
    for (struct follower **p = &f->c->followers; *p; p = &(*p)->next) {
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
static void read_run(struct task *t)
{
    struct follower *f = (struct follower *)t;
    struct files *files = f->c->parts.files;
    f->piece = malloc(PIECE_BYTES);
    f->n = 0;
    f->dropped = 0;
    f->rc = f->piece
                ? files->ops->log(files, f->uid, f->dir, &f->offset, f->piece,
                                  PIECE_BYTES, &f->n, &f->dropped, &f->err)
                : error_set(&f->err, ERR_NOMEM, "a piece of a log");
    if (f->rc < 0 || f->n == 0) {
        free(f->piece);
        f->piece = NULL;
    }
}

/* ---- on the loop ----------------------------------------------------------
 */
static void read_done(struct task *t);

/* Has the next piece read, unless its reader is behind. */
static void begin(struct follower *f)
{
    struct ctld *c = f->c;
    /* Asked before the reading: what was printed before the end is read. */
    const struct job *job = ctld_find_or_log(c, f->job);
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
    f->reading = thread_post(c->logs, &f->task, NULL) == 0;
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
        http_stream_send(f->x, marker, joblog_marker(f->dropped, marker));
    if (f->n > 0)
        http_stream_send(f->x, f->piece, f->n);
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
    const struct job *job = ctld_find_or_log(f->c, f->job);
    if (f->rc == 0 && f->n > 0) {
        begin(f);
    } else if (f->over && (!f->follow || !job || job->attempt <= f->attempt)) {
        end(f);
    } else if (f->over) {
        f->attempt++;
        f->offset = 0;
        begin(f);
    }
}

static void on_look(void *arg)
{
    struct ctld *c = arg;
    double pause_s = LOOK_S;
    for (struct follower *f = c->followers; f; f = f->next) {
        begin(f);
        if (f->behind)
            pause_s = RESEND_S;
    }
    if (c->followers)
        loop_timer_set(c->follow_timer, pause_s);
}

void serve_logs(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    const struct job *job = NULL;
    int64_t follow = 0, attempt = 0;
    if (!ctld_admit(c, x) || !ctld_param_job(c, x, &job) ||
        !ctld_query_int(x, "follow", 0, 1, 0, &follow) ||
        !ctld_query_int(x, "attempt", 1, INT32_MAX, job->attempt, &attempt))
        return;
    struct follower *f = calloc(1, sizeof(*f));
    if (!f) {
        struct error err;
        (void)error_set(&err, ERR_NOMEM, "log");
        http_reply_err(x, &err);
        return;
    }
    *f = (struct follower){.next = c->followers,
                           .c = c,
                           .x = x,
                           .job = job->id,
                           .attempt = (int32_t)attempt,
                           .follow = follow != 0};
    c->followers = f;
    http_stream_start(x, "text/plain; charset=utf-8", on_closed, f);
    loop_timer_set(c->follow_timer, 0);
}

int ctld_follow_init(struct ctld *c, struct error *err)
{
    return loop_timer_create(c->loop, on_look, c, &c->follow_timer, err);
}

void ctld_follow_clear(struct ctld *c)
{
    for (struct follower *f = c->followers, *next; f; f = next) {
        next = f->next;
        http_stream_end(f->x);
        f->closed = true;
        if (!f->reading)
            free(f);
    }
    c->followers = NULL;
    loop_source_destroy(c->follow_timer);
    c->follow_timer = NULL;
}
