/* engine_loop.c - when the engine runs, and replies that wait for the disk.
 *
 * A request that changes something is checked and staged at once, and its
 * reply held with the engine's ticket. The step that follows makes all that
 * was staged in this turn of the loop durable in one commit, on a thread of
 * its own: the loop turns on, and what is asked meanwhile gathers for the
 * next one. So under load a commit carries many requests (group commit),
 * alone a request waits for nobody. Then the replies go out, or, when the
 * commit failed and the engine undid what was staged, its error goes to all
 * of them.
 */
#include <math.h>
#include <stdlib.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/malloc_trim.h"
#include "scheduler/ctld/maintenance/metrics_damage.h"

/* One each of a step and of job_retention.c. */
enum { COMMITS_MAX = 2 };
/* After a failed step (a full disk, most likely): often enough to be back
 * soon, seldom enough to be no load. */
static const double RETRY_S = 0.5, COMPLAIN_EVERY_S = 10;
/* The engine may ask for "now"; a pause this short is not felt and keeps a
 * mistake from taking a whole core. */
static const double MIN_PAUSE_S = 0.002;
/* Where an allocator has no descriptor to wake us with. */
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
    if (c->step_failed && now_s - c->step_complained_s < COMPLAIN_EVERY_S)
        return;
    c->step_complained_s = now_s;
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
    if (c->step_failed)
        pause_s = RETRY_S;
    pause_s = fmin(pause_s, c->wake ? c->parts.conf->interval_s : POLL_S);
    if (isfinite(pause_s))
        loop_timer_set(c->step_timer, pause_s);
}

static void step_is_over(struct ctld *c, int rc, const struct error *err)
{
    const struct clock *clock = c->parts.clock;
    double now_s = clock->now_s(clock);

    count(&c->stats.steps, now_s - c->commit->began_s);
    if (rc < 0)
        complain(c, now_s, err);
    else if (c->step_failed)
        log_notice("engine", "steps work again");
    c->step_failed = rc < 0;
    if (c->stopping) {
        if (c->held && c->last_steps > 0)
            ctld_last_step(c);
        else
            c->on_last_step(c);
        return;
    }
    set_timer(c, now_s);
    if (c->step_again)
        loop_timer_soon(c->step_soon);
    c->step_again = false;
}

/* On the thread of the commits. */
static void append(struct task *t)
{
    struct commit *m = (struct commit *)t;
    double began_s = clock_real.now_s(&clock_real);
    m->rc = m->store->ops->append(m->store, m->batch, &m->why);
    m->took_s = clock_real.now_s(&clock_real) - began_s;
}

/* The batch that is due goes to the store; without one the step is over. */
static void go_on(struct ctld *c, int rc, struct store_batch *batch,
                  struct error *err)
{
    while (rc == 0 && batch) {
        struct error why = ERROR_INIT;
        c->commit->batch = batch;
        c->commit->why = (struct error)ERROR_INIT;
        if (thread_post(c->commits, &c->commit->task, &why) == 0)
            return;
        rc = engine_step_end(c->engine, &why, &batch, err);
    }
    c->commit->batch = NULL;
    ctld_held_settle(c, err);
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
    if (c->wake)
        loop_fd_go_on(c->wake);
    int rc =
        engine_step_end(c->engine, m->rc < 0 ? &m->why : NULL, &batch, &err);
    malloc_trim_archived(c, n_left);
    ctld_held_settle(c, &err);
    go_on(c, rc, batch, &err);
}

/* ---- standing still -------------------------------------------------------
 * A process that was stopped (SIGSTOP, a frozen control group, a machine that
 * pages) finds its timers due before it has read what workers said meanwhile.
 * Two looks in each heartbeat tell: who was away for less cannot have missed
 * two beats, and node_lost_s is not shorter than that.
 */
static void beat_pulse(struct ctld *c, double now_s)
{
    double period_s = c->parts.conf->heartbeat_s / 2;
    if (now_s - c->pulse_due_s > period_s) {
        log_notice("ctld", "stood still, and listens anew s=%.1f",
                   now_s - c->pulse_due_s);
        engine_was_away(c->engine);
    }
    c->pulse_due_s = now_s + period_s;
    loop_timer_set(c->pulse, period_s);
}

static void on_pulse(void *arg)
{
    struct ctld *c = arg;
    if (c->stopping)
        return;
    beat_pulse(c, c->parts.clock->now_s(c->parts.clock));
    (void)metrics_damage_look(c);
}

/* Timers that are due come in their own order, and the step may be first. The
 * period may have changed. */
static void look_at_pulse(struct ctld *c)
{
    double now_s = c->parts.clock->now_s(c->parts.clock);
    double left_s = c->pulse_due_s - now_s; /* NAN at first */
    if (!(left_s >= 0) || left_s > c->parts.conf->heartbeat_s)
        beat_pulse(c, now_s);
}

static void step(struct ctld *c)
{
    struct error err = ERROR_INIT;
    struct store_batch *batch;

    look_at_pulse(c);
    if (c->commit->batch) {
        c->step_again = true;
        return;
    }
    ctld_sealed_hold(c);
    c->commit->began_s = c->parts.clock->now_s(c->parts.clock);
    int rc = engine_step_begin(c->engine, &batch, &err);
    go_on(c, rc, batch, &err);
}

static void on_step(void *arg)
{
    struct ctld *c = arg;
    if (!c->stopping)
        step(c);
}

void ctld_last_step(struct ctld *c)
{
    c->last_steps--;
    if (!c->commit->batch)
        step(c);
}

/* The descriptor stays readable until a step has polled, and none begins
 * before the batch under way has ended. */
static void on_wake(void *arg)
{
    struct ctld *c = arg;
    if (c->commit->batch)
        loop_fd_pause(c->wake);
    ctld_want_step(c);
}

int ctld_step_init(struct ctld *c, void (*on_last_step)(void *ctld),
                   struct error *err)
{
    int fd = c->parts.alloc->ops->wake_fd(c->parts.alloc);
    c->on_last_step = on_last_step;
    c->commit = calloc(1, sizeof(*c->commit));
    if (!c->commit)
        return error_set(err, ERR_NOMEM, "step");
    c->commit->task = (struct task){.run = append, .done = appended};
    c->commit->c = c;
    c->commit->store = c->parts.store;
    if (thread_create(c->loop, "commits", COMMITS_MAX, &c->commits, err) < 0)
        return -1;
    if (loop_timer_create(c->loop, on_step, c, &c->step_timer, err) < 0 ||
        loop_timer_create(c->loop, on_step, c, &c->step_soon, err) < 0)
        return -1;
    c->pulse_due_s = NAN;
    if (loop_timer_create(c->loop, on_pulse, c, &c->pulse, err) < 0)
        return -1;
    loop_source_name(c->pulse, "pulse");
    loop_source_name(c->step_timer, "step");
    loop_source_name(c->step_soon, "step");
    if (fd >= 0 && loop_fd_create(c->loop, fd, on_wake, c, &c->wake, err) < 0)
        return -1;
    return 0;
}

void ctld_step_clear(struct ctld *c)
{
    free(c->commit);
    loop_source_destroy(c->step_timer);
    loop_source_destroy(c->step_soon);
    loop_source_destroy(c->pulse);
    loop_source_destroy(c->wake);
}
