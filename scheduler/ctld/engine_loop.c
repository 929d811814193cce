/* engine_loop.c - when the engine makes a step, and how the step is committed.
 *
 * A handler that changes something checks and stages the change at once, and
 * holds its reply with the engine's ticket. The step that follows makes all
 * changes that this turn of the loop has staged durable in one commit, on a
 * thread of its own. The loop turns on, and the requests that arrive meanwhile
 * gather for the next step. So under load a commit carries many requests (group
 * commit), and a lone request waits for no other. Then the held replies are
 * sent. If the commit fails, the engine undoes what was staged, and all of them
 * get its error.
 */
#include "scheduler/ctld/engine_loop.h"

#include <math.h>
#include <stdlib.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "scheduler/ctld/api/held_replies.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/loop/step_request.h"
#include "scheduler/ctld/maintenance/malloc_trim.h"
#include "scheduler/ctld/maintenance/metrics_damage.h"

enum {
    COMMITS_MAX = 2, /* one each of a step and of job_retention.c */
    /* While stopping: one for requests that arrived during the step under way,
     * and one for what that step leaves to be done. */
    LAST_STEPS = 2
};
/* Time to a retry after a failed step (of a full disk, most likely). */
static const double RETRY_S = 0.5, COMPLAIN_EVERY_S = 10;
/* The engine may ask for a step now. Nobody notices a pause this short, and it
 * keeps a mistake from using a whole core. */
static const double MIN_PAUSE_S = 0.002;
/* For an allocator without a descriptor that wakes the loop. */
static const double POLL_S = 0.2;

/* One batch at a time is with the store. The task belongs to the thread until
 * it is done; the outcome is read after that. */
struct commit {
    struct task task;
    struct ctld *c;
    struct store *store;
    struct store_batch *batch; /* NULL: none is under way */
    double began_s;            /* the step */
    double took_s;             /* the store */
    int rc;
    struct error why;
};

struct engine_loop {
    struct loop_source *timer, *pulse;
    struct loop_source *wake; /* the allocator's; NULL: it has none */
    double pulse_due_s;       /* on the clock; NAN: not set */
    double complained_s;
    struct commit commit; /* of the step that is under way */
    bool is_wanted_again; /* a step, as soon as that one is over */
    int n_last;           /* while stopping: so many more may begin */
    void (*on_stopped)(void *ctld);
};

static void count(struct ctld_durations *d, double s)
{
    size_t i = 0;
    while (i < CTLD_STEP_BUCKETS - 1 && s > ctld_step_bounds_s[i])
        i++;
    d->buckets[i]++;
    d->sum_s += s;
    d->n++;
}

static void complain(struct ctld *c, double now_s, const struct error *err)
{
    c->stats.steps_failed++;
    if (step_request_has_failed(c) &&
        now_s - c->engine_loop->complained_s < COMPLAIN_EVERY_S)
        return;
    c->engine_loop->complained_s = now_s;
    log_err("engine",
            "a step failed; nothing was changed, trying again "
            "why=\"%s\"",
            err->msg);
}

/* ---- the step ------------------------------------------------------------
 */
static void set_timer(struct ctld *c, double now_s)
{
    double pause_s = fmax(engine_next_s(c->engine) - now_s, MIN_PAUSE_S);
    if (step_request_has_failed(c))
        pause_s = RETRY_S;
    pause_s = fmin(pause_s,
                   c->engine_loop->wake ? c->parts.conf->interval_s : POLL_S);
    if (isfinite(pause_s))
        loop_timer_set(c->engine_loop->timer, pause_s);
}

static void last_step(struct ctld *c);

static void step_is_over(struct ctld *c, int rc, const struct error *err)
{
    const struct clock *clock = c->parts.clock;
    double now_s = clock->now_s(clock);

    count(&c->stats.steps, now_s - c->engine_loop->commit.began_s);
    if (rc < 0)
        complain(c, now_s, err);
    else if (step_request_has_failed(c))
        log_notice("engine", "steps work again");
    step_request_set_failed(c, rc < 0);
    if (c->stopping) {
        if (held_replies_any(c) && c->engine_loop->n_last > 0)
            last_step(c);
        else
            c->engine_loop->on_stopped(c);
        return;
    }
    set_timer(c, now_s);
    if (c->engine_loop->is_wanted_again)
        ctld_step_want(c);
    c->engine_loop->is_wanted_again = false;
}

/* On the thread of the commits. */
static void append(struct task *t)
{
    struct commit *m = (struct commit *)t;
    double began_s = clock_real.now_s(&clock_real);
    m->rc = m->store->ops->append(m->store, m->batch, &m->why);
    m->took_s = clock_real.now_s(&clock_real) - began_s;
}

/* Sends the batch to the store; without one the step is over. */
static void go_on(struct ctld *c, int rc, struct store_batch *batch,
                  struct error *err)
{
    while (rc == 0 && batch) {
        struct error why = ERROR_INIT;
        c->engine_loop->commit.batch = batch;
        c->engine_loop->commit.why = (struct error)ERROR_INIT;
        if (work_queue_post(c->commits, &c->engine_loop->commit.task, &why) ==
            0)
            return;
        rc = engine_step_end(c->engine, &why, &batch, err);
    }
    c->engine_loop->commit.batch = NULL;
    held_replies_settle(c, err);
    step_is_over(c, rc, err);
}

static void appended(struct task *t)
{
    struct commit *m = (struct commit *)t;
    struct ctld *c = m->c;
    struct error err = ERROR_INIT;
    struct store_batch *batch;
    size_t n_left = m->rc < 0 ? 0 : m->batch->n_archived;

    count(&c->stats.commits, m->took_s);
    m->batch = NULL;
    if (c->engine_loop->wake)
        loop_fd_go_on(c->engine_loop->wake);
    int rc =
        engine_step_end(c->engine, m->rc < 0 ? &m->why : NULL, &batch, &err);
    malloc_trim_archived(c, n_left);
    held_replies_settle(c, &err);
    go_on(c, rc, batch, &err);
}

/* ---- stalls ---------------------------------------------------------------
 * A process that was stopped (SIGSTOP, a frozen control group, a machine that
 * pages) finds its timers due before it has read what the workers sent
 * meanwhile. The daemon looks at the clock twice in each heartbeat. A stall
 * that this does not find is too short to miss two beats, and node_lost_s is
 * not shorter than two.
 */
static void beat_pulse(struct ctld *c, double now_s)
{
    double period_s = c->parts.conf->heartbeat_s / 2;
    if (now_s - c->engine_loop->pulse_due_s > period_s) {
        log_notice("ctld",
                   "the daemon was stopped and runs again, worker deadlines "
                   "start anew s=%.1f",
                   now_s - c->engine_loop->pulse_due_s);
        engine_was_away(c->engine);
    }
    c->engine_loop->pulse_due_s = now_s + period_s;
    loop_timer_set(c->engine_loop->pulse, period_s);
}

static void on_pulse(void *arg)
{
    struct ctld *c = arg;
    if (c->stopping)
        return;
    beat_pulse(c, c->parts.clock->now_s(c->parts.clock));
    (void)metrics_damage_look(c);
}

/* Timers that are due run in any order, and the step may be first. The period
 * may have changed. */
static void look_at_pulse(struct ctld *c)
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    double left_s = c->engine_loop->pulse_due_s - now_s; /* NAN at first */
    if (!(left_s >= 0) || left_s > c->parts.conf->heartbeat_s)
        beat_pulse(c, now_s);
}

static void step(struct ctld *c)
{
    struct error err = ERROR_INIT;
    struct store_batch *batch;

    look_at_pulse(c);
    if (c->engine_loop->commit.batch) {
        c->engine_loop->is_wanted_again = true;
        return;
    }
    c->engine_loop->commit.began_s = c->parts.clock->now_s(c->parts.clock);
    int rc = engine_step_begin(c->engine, &batch, &err);
    go_on(c, rc, batch, &err);
}

static void on_step(void *arg)
{
    struct ctld *c = arg;
    if (!c->stopping)
        step(c);
}

static void last_step(struct ctld *c)
{
    c->engine_loop->n_last--;
    if (!c->engine_loop->commit.batch)
        step(c);
}

/* The descriptor stays readable until a step has polled, and no step begins
 * before the batch under way has ended. */
static void on_wake(void *arg)
{
    struct ctld *c = arg;
    if (c->engine_loop->commit.batch)
        loop_fd_pause(c->engine_loop->wake);
    ctld_step_want(c);
}

void engine_loop_stop(struct ctld *c)
{
    c->engine_loop->n_last = LAST_STEPS;
    last_step(c);
}

static int create_sources(struct ctld *c, struct engine_loop *l,
                          struct error *err)
{
    int fd = c->parts.alloc->ops->wake_fd(c->parts.alloc);
    if (loop_timer_create(c->loop, on_step, c, &l->timer, err) < 0 ||
        step_request_init(c, on_step, err) < 0 ||
        loop_timer_create(c->loop, on_pulse, c, &l->pulse, err) < 0)
        return -1;
    loop_source_name(l->pulse, "pulse");
    loop_source_name(l->timer, "step");
    return fd < 0 ? 0 : loop_fd_create(c->loop, fd, on_wake, c, &l->wake, err);
}

int engine_loop_init(struct ctld *c, void (*on_stopped)(void *ctld),
                     struct error *err)
{
    struct engine_loop *l = c->engine_loop = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "step");
    l->on_stopped = on_stopped;
    l->pulse_due_s = NAN;
    l->commit.task = (struct task){.run = append, .done = appended};
    l->commit.c = c;
    l->commit.store = c->parts.store;
    if (work_queue_create(c->loop, "commits", COMMITS_MAX, &c->commits, err) <
        0)
        return -1;
    return create_sources(c, l, err);
}

void engine_loop_clear(struct ctld *c)
{
    struct engine_loop *l = c->engine_loop;
    if (!l)
        return;
    loop_source_destroy(l->timer);
    step_request_clear(c);
    loop_source_destroy(l->pulse);
    loop_source_destroy(l->wake);
    free(l);
    c->engine_loop = NULL;
}
