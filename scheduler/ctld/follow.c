/* follow.c - GET /v1/jobs/:id/logs: what an attempt printed, as it grows.
 *
 * The log is read in pieces, and only while its reader keeps up: `less` may
 * stand still for an hour. Following goes on through a job's later attempts
 * and ends when the job has ended and all of it was sent.
 */
#include <stdlib.h>

#include "jobs/joblog.h"
#include "scheduler/ctld/private.h"

enum { PIECE_BYTES = 65536, BEHIND_MAX = 4 * PIECE_BYTES };
/* Between two looks at a log that may grow, and between two tries to send
 * to a reader that is behind. */
static const double LOOK_S = 0.2, RESEND_S = 0.02;

struct follower {
    struct follower *next;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job, offset;
    int32_t attempt;
    bool follow, behind;
};

static void unlink_follower(struct follower *f)
{
    for (struct follower **p = &f->c->followers; *p; p = &(*p)->next) {
        if (*p == f) {
            *p = f->next;
            break;
        }
    }
    free(f);
}

static void on_closed(void *arg)
{
    unlink_follower(arg);
}

/* Sends what there is. Returns false when the stream has come to its end. */
static bool pump(struct follower *f)
{
    static char piece[PIECE_BYTES]; /* the loop's thread only */
    char dir[1024], marker[JOBLOG_MARKER_CAP];
    /* Asked before the reading: what was printed before the end is read. */
    const struct job *job = engine_job(f->c->engine, f->job);
    bool over = !job || !f->follow || job_state_is_final(job->state) ||
                job->attempt > f->attempt;
    f->behind = false;
    for (;;) {
        size_t n = 0;
        uint64_t dropped = 0;
        if (http_stream_behind(f->x) > BEHIND_MAX) {
            f->behind = true;
            return true;
        }
        (void)snprintf(dir, sizeof(dir), "%s/%llu/%d", f->c->jobs_dir,
                       (unsigned long long)f->job, f->attempt);
        if (joblog_read(dir, &f->offset, piece, sizeof(piece), &n, &dropped,
                        NULL) < 0)
            n = 0; /* none yet */
        if (dropped > 0)
            http_stream_send(f->x, marker, joblog_marker(dropped, marker));
        if (n > 0)
            http_stream_send(f->x, piece, n);
        else if (!over)
            return true;
        else if (!f->follow || !job || job->attempt <= f->attempt)
            return false;
        else {
            f->attempt++;
            f->offset = 0;
            over = job_state_is_final(job->state) || job->attempt > f->attempt;
        }
    }
}

static void on_look(void *arg)
{
    struct ctld *c = arg;
    double pause_s = LOOK_S;
    for (struct follower *f = c->followers, *next; f; f = next) {
        next = f->next;
        if (!pump(f)) {
            http_stream_end(f->x);
            unlink_follower(f);
        } else if (f->behind)
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
        free(f);
    }
    c->followers = NULL;
    loop_source_destroy(c->follow_timer);
    c->follow_timer = NULL;
}
