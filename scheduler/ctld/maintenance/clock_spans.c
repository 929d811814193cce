/* clock_spans.c - what this daemon lives through, by the wall clock;
 * clock_span_age.h says what for.
 *
 * A daemon goes on with the last span of the store when the clock is where it
 * may be after that, and begins one of its own otherwise; also when the clock
 * is set while it runs, or the machine slept. Each step of the engine looks, so
 * nothing ends by a clock of which no span tells. How far it came is written
 * each hour, and when a span begins.
 */
#include <math.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/clock_span_age.h"

static const double WRITE_S = 3600, RETRY_S = 60;

static double now_s(const struct ctld *c)
{
    return c->parts.clock->now_s(c->parts.clock);
}

static double wall_s(const struct ctld *c)
{
    return c->parts.clock->wall_s(c->parts.clock);
}

/* ---- writing --------------------------------------------------------------
 */

static const struct store_span *last_of(const struct ctld_spans *p)
{
    return &p->at[p->n - 1];
}

static void put_run(struct task *t)
{
    struct ctld_spans *p = (struct ctld_spans *)t;
    p->rc = p->store->ops->put_span(p->store, &p->written, &p->why);
}

static void put_done(struct task *t)
{
    struct ctld_spans *p = (struct ctld_spans *)t;
    p->is_busy = false;
    if (p->rc < 0) {
        log_warn("store", "how far the clock came is not written why=\"%s\"",
                 p->why.msg);
        loop_timer_set(p->timer, RETRY_S);
        return;
    }
    p->written_id = p->written.id;
    if (p->written_id != last_of(p)->id)
        loop_timer_set(p->timer, 0);
}

/* The last one, or the first before it that has not been. */
static const struct store_span *to_be_written(const struct ctld_spans *p)
{
    size_t i = p->n - 1;
    while (i > 0 && p->at[i - 1].id > p->written_id)
        i--;
    return &p->at[i];
}

static void put(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    if (p->is_busy || c->stopping)
        return;
    p->task = (struct task){.run = put_run, .done = put_done};
    p->store = c->parts.store;
    p->written = *to_be_written(p);
    p->why = (struct error)ERROR_INIT;
    p->is_busy = thread_post(c->commits, &p->task, NULL) == 0;
    if (!p->is_busy)
        loop_timer_set(p->timer, RETRY_S);
}

/* ---- the clock ------------------------------------------------------------
 */

static void begin(struct ctld *c, double at_s)
{
    struct ctld_spans *p = &c->spans;
    uint64_t id = p->n > 0 ? last_of(p)->id + 1 : 1;
    if (p->n == STORE_SPANS_MAX)
        memmove(p->at, p->at + 1, --p->n * sizeof(*p->at));
    p->at[p->n++] =
        (struct store_span){.id = id, .begin_s = at_s, .end_s = at_s};
}

/* What is said of the clock holds from then on. */
static void anchor(struct ctld *c, double at_s, double mono_s)
{
    c->spans.anchor_s = mono_s;
    c->spans.anchor_wall_s = at_s;
}

void ctld_spans_look(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    double at_s = wall_s(c), mono_s = now_s(c);
    double due_s = p->anchor_wall_s + (mono_s - p->anchor_s);
    if (fabs(at_s - due_s) > span_slack_s) {
        log_warn("store", "the clock was set, or this machine slept by_s=%.0f",
                 at_s - due_s);
        /* It may have been set just after the last look. Two spans, of which
         * one is of a moment and not synced: no clock that makes such a step
         * is to be believed that so much time has passed. */
        begin(c, at_s - (mono_s - p->looked_s));
        begin(c, at_s - (mono_s - p->looked_s));
        anchor(c, at_s, mono_s);
        loop_timer_set(p->timer, 0);
    }
    p->looked_s = mono_s;
    struct store_span *last = &p->at[p->n - 1];
    last->end_s = fmax(last->end_s, at_s);
    last->is_synced =
        last->is_synced || (c->parts.clock->is_synced &&
                            c->parts.clock->is_synced(c->parts.clock));
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    ctld_spans_look(c);
    loop_timer_set(c->spans.timer, WRITE_S);
    put(c);
}

double ctld_spans_before(struct ctld *c, double age_s)
{
    ctld_spans_look(c);
    return span_age_before(c->spans.at, c->spans.n, age_s);
}

static void go_on(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    p->written_id = p->n > 0 ? last_of(p)->id : 0;
    double at_s = c->started_wall_s; /* what has ended since is of this life */
    double away_s = p->n > 0 ? at_s - last_of(p)->end_s : INFINITY;
    if (p->n > 0 && fabs(away_s) > span_slack_s)
        log_warn("store",
                 "the clock was set, or no daemon was here for long "
                 "by_s=%.0f",
                 away_s);
    if (fabs(away_s) > span_slack_s)
        begin(c, at_s);
    anchor(c, at_s, c->started_s);
    p->looked_s = c->started_s;
    ctld_spans_look(c);
}

int ctld_spans_init(struct ctld *c, struct error *err)
{
    struct ctld_spans *p = &c->spans;
    struct store *s = c->parts.store;
    if (s->ops->spans(s, p->at, &p->n, err) < 0 ||
        loop_timer_create(c->loop, on_timer, c, &p->timer, err) < 0)
        return -1;
    go_on(c);
    loop_timer_set(p->timer, 0);
    return 0;
}

void ctld_spans_clear(struct ctld *c)
{
    loop_source_destroy(c->spans.timer);
}
