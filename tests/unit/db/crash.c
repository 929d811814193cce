/* crash.c - the store's process is killed, at every call and at any moment;
 * what was acknowledged is there, and no batch is there by half.
 *
 * The child appends batch after batch and, after each acknowledgement, sends
 * the batch's number through a pipe. All rounds share one directory, so each
 * child also recovers from its predecessor's end. */
#include <signal.h>
#include <sys/wait.h>

#include "db/metric_store.h"
#include "db/store_faulty.h"
#include "jobs/base/rng.h"
#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

/* Batch b: b % 4 + 1 events that name it, the job's row, and one iteration
 * row with the batch's number. */
static int put_batch(struct store *s, int64_t b, struct error *err)
{
    struct store_event events[4];
    struct store_job job = {
        .id = 1, .name = "n", .priority = (int32_t)b, .submit_s = 1};
    struct store_batch batch = {.events = events, .jobs = &job, .n_jobs = 1};
    struct metric_row row = {.kind = METRIC_ITERATION,
                             .iteration = {.iteration = b, .t_iter = 1}};

    for (int64_t i = 0; i <= b % 4; i++)
        events[batch.n_events++] = (struct store_event){
            .job = (uint64_t)b, .ev = EV_STALL, .at_s = (double)i};
    if (s->ops->append(s, &batch, err) < 0)
        return -1;
    return s->metrics->rows(s, 1, 1, &row, 1, NULL, err);
}

/* Never returns; exit status 1 is an error that a kill is not. */
static void child(const struct tmp *t, const struct store_fault *fault,
                  int64_t from, int64_t n, int ack)
{
    struct error err = ERROR_INIT;
    struct store *inner = NULL, *s = NULL;

    if (store_sqlite_open(t->dir, &inner, &err) < 0 ||
        store_faulty_create(inner, fault, &s, &err) < 0)
        _exit(1);
    for (int64_t b = from; b < from + n; b++)
        if (put_batch(s, b, &err) < 0 ||
            write(ack, &b, sizeof(b)) != (ssize_t)sizeof(b))
            _exit(1);
    (void)kill(getpid(), SIGKILL); /* leaves the WAL as it is */
    _exit(1);
}

struct seen {
    int64_t batch, events; /* the last batch and its events so far */
    int64_t broken;        /* batches out of order or by half */
};

static int see_event(void *arg, const struct store_event *e, struct error *err)
{
    struct seen *s = arg;

    (void)err;
    if ((int64_t)e->job != s->batch) {
        s->broken += (int64_t)e->job != s->batch + 1 ||
                     (s->batch > 0 && s->events != s->batch % 4 + 1);
        s->batch = (int64_t)e->job;
        s->events = 0;
    }
    s->events++;
    return 0;
}

static int see_int(void *arg, const struct store_cell *c, size_t n,
                   struct error *err)
{
    (void)err;
    for (size_t i = 0; i < n; i++)
        if (strcmp(c[i].name, "priority") == 0 ||
            strcmp(c[i].name, "iteration") == 0)
            *(int64_t *)arg = c[i].i;
    return 0;
}

static int count_row(void *arg, const struct store_cell *c, size_t n,
                     struct error *err)
{
    (void)c;
    (void)n;
    (void)err;
    ++*(int64_t *)arg;
    return 0;
}

/* Opening runs quick_check. Returns the number of the last batch. */
static int64_t verify(struct tmp *t, int64_t acked, const char *what)
{
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    struct seen seen = {.batch = 0};
    struct store_query jobs = {.view = VIEW_JOB};
    struct store_query rows = {.view = VIEW_ITERATION, .rank = -1};
    int64_t in_job = 0, n_rows = 0;

    if (store_sqlite_open(t->dir, &s, &err) < 0 ||
        s->ops->load(s, see_event, &seen, &err) < 0 ||
        s->metrics->query(s, &jobs, see_int, &in_job, &err) < 0 ||
        s->metrics->query(s, &rows, count_row, &n_rows, &err) < 0) {
        ok(false, "%s: %s", what, err.msg);
        exit(1);
    }
    s->ops->destroy(s);
    bool whole = seen.broken == 0 &&
                 (seen.batch == 0 || seen.events == seen.batch % 4 + 1);
    /* One batch may be done and not acknowledged; its rows come last. */
    bool there = seen.batch >= acked && seen.batch <= acked + 1;
    bool rows_there = n_rows >= acked && n_rows <= seen.batch;
    if (!ok(whole && there && rows_there && in_job == seen.batch,
            "%s: %lld acknowledged", what, (long long)acked))
        tap_diag("batch %lld, %lld broken, %lld rows, job says %lld",
                 (long long)seen.batch, (long long)seen.broken,
                 (long long)n_rows, (long long)in_job);
    return seen.batch;
}

/* One child, killed by its fault or after `kill_after` acknowledgements. */
static int64_t round_of(struct tmp *t, const struct store_fault *fault,
                        int64_t last, int64_t n, int64_t kill_after,
                        const char *what)
{
    int pipe_fds[2], status = 0;
    int64_t acked = last, b, seen = 0;

    fflush(stdout);
    if (pipe(pipe_fds) < 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        close(pipe_fds[0]);
        child(t, fault, last + 1, n, pipe_fds[1]);
    }
    close(pipe_fds[1]);
    while (read(pipe_fds[0], &b, sizeof(b)) == (ssize_t)sizeof(b)) {
        acked = b;
        if (++seen == kill_after)
            (void)kill(pid, SIGKILL);
    }
    close(pipe_fds[0]);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) ||
        WTERMSIG(status) != SIGKILL)
        ok(false, "%s: the child ended otherwise, %x", what, (unsigned)status);
    int64_t now = verify(t, acked, what);
    /* Bring the rows level with the batches, as the spool would. */
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    struct metric_row row = {.kind = METRIC_ITERATION,
                             .iteration = {.iteration = now, .t_iter = 1}};
    if (store_sqlite_open(t->dir, &s, &err) < 0 ||
        (now > 0 && s->metrics->rows(s, 1, 1, &row, 1, NULL, &err) < 0))
        exit(1);
    s->ops->destroy(s);
    return now;
}

int main(void)
{
    struct tmp t;
    struct rng rng;
    char what[64];
    int64_t last = 0;

    tmp_begin(&t);
    for (int32_t after = 0; after <= 1; after++)
        for (int64_t n = 1; n <= 8; n++) {
            struct store_fault f = {.n = n, .after = after, .kill = 1};
            (void)snprintf(what, sizeof(what), "killed %s call %lld",
                           after ? "after" : "before", (long long)n);
            last = round_of(&t, &f, last, 100, -1, what);
        }
    rng_seed(&rng, 1);
    for (int i = 0; i < 20; i++) {
        struct store_fault none = {.n = 0};
        int64_t k = 1 + rng_u32(&rng) % 200;
        (void)snprintf(what, sizeof(what), "killed at any moment, %d", i);
        last = round_of(&t, &none, last, 100000, k, what);
    }
    ok(last > 500, "%lld batches in all", (long long)last);
    tmp_end(&t);
    return tap_done();
}
