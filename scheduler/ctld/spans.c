/* spans.c - what this daemon lives through, by the wall clock; span_age.h says
 * what for.
 *
 * A daemon goes on with the last span of the store when the clock is where it
 * may be after that, and begins one of its own otherwise; also when the clock
 * is set while it runs, or the machine slept. How far it came is written each
 * hour, and when a span begins.
 */
#include <math.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/private.h"
#include "scheduler/ctld/span_age.h"

static const double WRITE_S = 3600;

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

static void put_run(struct task *t)
{
    struct ctld_spans *p = (struct ctld_spans *)t;
    p->rc = p->store->ops->put_span(p->store, &p->written, &p->why);
}

static void put_done(struct task *t)
{
    struct ctld_spans *p = (struct ctld_spans *)t;
    p->is_busy = false;
    if (p->rc < 0)
        log_warn("store", "how far the clock came is not written why=\"%s\"",
                 p->why.msg);
}

static void put(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    if (p->is_busy || c->stopping)
        return;
    p->task = (struct task){.run = put_run, .done = put_done};
    p->store = c->parts.store;
    p->written = p->at[p->n - 1];
    p->why = (struct error)ERROR_INIT;
    p->is_busy = thread_post(c->commits, &p->task, NULL) == 0;
}

/* ---- the clock ------------------------------------------------------------
 */

static void begin(struct ctld *c, double at_s)
{
    struct ctld_spans *p = &c->spans;
    uint64_t id = p->n > 0 ? p->at[p->n - 1].id + 1 : 1;
    if (p->n == STORE_SPANS_MAX)
        memmove(p->at, p->at + 1, --p->n * sizeof(*p->at));
    p->at[p->n++] =
        (struct store_span){.id = id, .begin_s = at_s, .end_s = at_s};
}

/* What is said of the clock holds from now on. */
static void anchor(struct ctld *c, double at_s)
{
    c->spans.anchor_s = now_s(c);
    c->spans.anchor_wall_s = at_s;
}

static void look(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    struct store_span *last = &p->at[p->n - 1];
    double at_s = wall_s(c);
    double due_s = p->anchor_wall_s + (now_s(c) - p->anchor_s);
    if (fabs(at_s - due_s) > span_slack_s) {
        log_warn("store", "the clock was set, or this machine slept by_s=%.0f",
                 at_s - due_s);
        last->end_s = fmax(last->end_s, due_s);
        begin(c, at_s);
        anchor(c, at_s);
        last = &p->at[p->n - 1];
        loop_timer_set(p->timer, 0);
    }
    last->end_s = fmax(last->end_s, at_s);
    last->is_synced =
        last->is_synced || (c->parts.clock->is_synced &&
                            c->parts.clock->is_synced(c->parts.clock));
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    look(c);
    put(c);
    loop_timer_set(c->spans.timer, WRITE_S);
}

double ctld_spans_before(struct ctld *c, double age_s)
{
    look(c);
    return span_age_before(c->spans.at, c->spans.n, age_s);
}

static void go_on(struct ctld *c)
{
    struct ctld_spans *p = &c->spans;
    double at_s = wall_s(c);
    double away_s = p->n > 0 ? at_s - p->at[p->n - 1].end_s : INFINITY;
    if (p->n > 0 && fabs(away_s) > span_slack_s)
        log_warn("store",
                 "the clock was set, or no daemon was here for long "
                 "by_s=%.0f",
                 away_s);
    if (fabs(away_s) > span_slack_s)
        begin(c, at_s);
    anchor(c, at_s);
    look(c);
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
