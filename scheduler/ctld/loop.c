/* loop.c - see loop.h. */
#include "scheduler/ctld/loop.h"

#include <event2/event.h>
#include <math.h>
#include <stdlib.h>

#include "jobs/base/clock.h"

/* A timer further away than this (a month) is set to it; it then fires for
 * nothing once, which every user of a timer must bear anyway. */
static const double TIMER_MAX_S = 2592000;

/* 50 ms is what the daemon promises; the finer ones show who comes near. */
const double loop_bounds_s[LOOP_BUCKETS - 1] = {0.001, 0.005, 0.01, 0.025,
                                                0.05,  0.1,   0.25, 1};

struct loop {
    struct event_base *base;
    struct loop_times times;
};

struct loop_source {
    struct loop *loop;
    struct event *ev;
    loop_f fn;
    void *arg;
};

int loop_create(struct loop **ret, struct error *err)
{
    struct loop *l = calloc(1, sizeof(*l));
    struct event_base *base = l ? event_base_new() : NULL;
    if (!base) {
        free(l);
        return error_set(err, ERR_NOMEM, "event loop");
    }
    l->base = base;
    *ret = l;
    return 0;
}

void loop_destroy(struct loop *l)
{
    if (!l)
        return;
    event_base_free(l->base);
    free(l);
}

struct event_base *loop_base(struct loop *l)
{
    return l->base;
}

int loop_run(struct loop *l, struct error *err)
{
    if (event_base_dispatch(l->base) < 0)
        return error_set(err, ERR_INTERNAL, "the event loop failed");
    return 0;
}

void loop_stop(struct loop *l)
{
    (void)event_base_loopbreak(l->base);
}

const struct loop_times *loop_times(const struct loop *l)
{
    return &l->times;
}

void loop_took(struct loop *l, double s)
{
    struct loop_times *t = &l->times;
    size_t i = 0;

    while (i < LOOP_BUCKETS - 1 && s > loop_bounds_s[i])
        i++;
    t->buckets[i]++;
    t->n++;
    t->sum_s += s;
    t->longest_s = fmax(t->longest_s, s);
}

/* The source may be gone after its callback. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct loop_source *s = arg;
    struct loop *l = s->loop;
    double began_s = clock_real.now_s(&clock_real);
    (void)fd;
    (void)what;
    s->fn(s->arg);
    loop_took(l, clock_real.now_s(&clock_real) - began_s);
}

static int source_create(struct loop *l, int fd, short what, loop_f fn,
                         void *arg, struct loop_source **ret, struct error *err)
{
    struct loop_source *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, ERR_NOMEM, "event");
    s->loop = l;
    s->fn = fn;
    s->arg = arg;
    s->ev = event_new(l->base, fd, what, on_event, s);
    if (!s->ev || ((what & (EV_READ | EV_SIGNAL)) && event_add(s->ev, NULL))) {
        loop_source_destroy(s);
        return error_set(err, ERR_NOMEM, "event");
    }
    *ret = s;
    return 0;
}

int loop_timer_create(struct loop *l, loop_f fn, void *arg,
                      struct loop_source **ret, struct error *err)
{
    return source_create(l, -1, 0, fn, arg, ret, err);
}

int loop_fd_create(struct loop *l, int fd, loop_f fn, void *arg,
                   struct loop_source **ret, struct error *err)
{
    return source_create(l, fd, EV_READ | EV_PERSIST, fn, arg, ret, err);
}

int loop_signal_create(struct loop *l, int signo, loop_f fn, void *arg,
                       struct loop_source **ret, struct error *err)
{
    return source_create(l, signo, EV_SIGNAL | EV_PERSIST, fn, arg, ret, err);
}

void loop_timer_set(struct loop_source *s, double after_s)
{
    double t = fmin(fmax(after_s, 0), TIMER_MAX_S);
    struct timeval tv = {(time_t)t, (suseconds_t)((t - floor(t)) * 1e6)};
    (void)evtimer_add(s->ev, &tv);
}

void loop_timer_soon(struct loop_source *s)
{
    event_active(s->ev, EV_TIMEOUT, 0);
}

bool loop_timer_is_set(const struct loop_source *s)
{
    return evtimer_pending(s->ev, NULL) != 0;
}

void loop_source_destroy(struct loop_source *s)
{
    if (!s)
        return;
    if (s->ev)
        event_free(s->ev);
    free(s);
}
