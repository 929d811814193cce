/* event_loop.c - see event_loop.h. */
#include "scheduler/ctld/loop/event_loop.h"

#include <event2/event.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"

/* A timer further away than this (a month) is set to it; it then fires for
 * nothing once, which every user of a timer must bear anyway. */
static const double TIMER_MAX_S = 2592000;

/* 50 ms is what the daemon promises; the finer ones show who comes near. */
const double loop_bounds_s[LOOP_BUCKETS - 1] = {0.001, 0.005, 0.01, 0.025,
                                                0.05,  0.1,   0.25, 1};
static const double TOO_LONG_S = 0.05, LOG_EVERY_S = 10;

struct loop {
    struct event_base *base;
    struct loop_times times;
    int schedstat_fd; /* of the thread that runs the loop; -1: not told */
    int depth;        /* of loop_enter() */
    struct loop_clocks entered;
    double logged_s; /* when a turn was last called too long */
};

struct loop_source {
    struct loop *loop;
    struct event *ev;
    loop_f fn;
    void *arg;
    const char *name;
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
    l->schedstat_fd = -1;
    l->logged_s = -INFINITY;
    *ret = l;
    return 0;
}

void loop_destroy(struct loop *l)
{
    if (!l)
        return;
    event_base_free(l->base);
    if (l->schedstat_fd >= 0)
        (void)close(l->schedstat_fd);
    free(l);
}

struct event_base *loop_base(struct loop *l)
{
    return l->base;
}

int loop_run(struct loop *l, struct error *err)
{
    if (l->schedstat_fd < 0)
        l->schedstat_fd =
            open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
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

/* For how long this thread has stood in line for a core so far, and how often
 * it was given one: the second number, in nanoseconds, and the third. The read
 * costs 0.7 us. */
static void read_schedstat(const struct loop *l, struct loop_clocks *ret)
{
    char text[96];
    ssize_t n = l->schedstat_fd >= 0
                    ? pread(l->schedstat_fd, text, sizeof(text) - 1, 0)
                    : -1;
    if (n <= 0)
        return;
    text[n] = '\0';
    char *at = text;
    (void)strtoull(at, &at, 10);
    ret->waited_s = (double)strtoull(at, &at, 10) * 1e-9;
    ret->n_runs = strtoull(at, NULL, 10);
}

static double ran_s(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void complain(struct loop *l, const char *what,
                     const struct loop_turn *turn)
{
    double now_s = clock_real.now_s(&clock_real);
    if (now_s - l->logged_s < LOG_EVERY_S)
        return;
    l->logged_s = now_s;
    log_notice("loop",
               "a callback delayed the event loop what=\"%s\" ms=%.1f "
               "without_a_core_ms=%.1f asleep_ms=%.1f",
               what, turn->s * 1e3, turn->waited_s * 1e3, turn->slept_s * 1e3);
}

void loop_took(struct loop *l, const char *what, const struct loop_turn *turn)
{
    struct loop_times *t = &l->times;
    size_t i = 0;

    while (i < LOOP_BUCKETS - 1 && turn->s > loop_bounds_s[i])
        i++;
    t->buckets[i]++;
    t->n++;
    t->sum_s += turn->s;
    t->waited_s += turn->waited_s;
    t->slept_s += turn->slept_s;
    t->longest_s = fmax(t->longest_s, turn->s);
    t->longest_own_s = fmax(t->longest_own_s, turn->s - turn->waited_s);
    t->longest_slept_s = fmax(t->longest_slept_s, turn->slept_s);
    if (turn->s > TOO_LONG_S)
        complain(l, what, turn);
}

void loop_enter(struct loop *l)
{
    if (l->depth++ > 0)
        return;
    l->entered = (struct loop_clocks){.ran_s = ran_s()};
    read_schedstat(l, &l->entered);
    l->entered.s = clock_real.now_s(&clock_real);
}

/* A thread that did not sleep, had no core, and did not wait for one either is
 * on a virtual machine that had no core itself. On a kernel without schedstat
 * that looks like sleep. */
struct loop_turn loop_turn_between(const struct loop_clocks *from,
                                   const struct loop_clocks *to)
{
    double s = to->s - from->s;
    double waited_s = fmin(to->waited_s - from->waited_s, s);
    double rest_s = fmax(0, s - waited_s - (to->ran_s - from->ran_s));
    if (from->n_runs > 0 && to->n_runs == from->n_runs)
        return (struct loop_turn){.s = s, .waited_s = waited_s + rest_s};
    return (struct loop_turn){.s = s, .waited_s = waited_s, .slept_s = rest_s};
}

void loop_leave(struct loop *l, const char *what)
{
    if (--l->depth > 0)
        return;
    struct loop_clocks now = {.s = clock_real.now_s(&clock_real),
                              .ran_s = ran_s()};
    read_schedstat(l, &now);
    struct loop_turn turn = loop_turn_between(&l->entered, &now);
    loop_took(l, what, &turn);
}

/* The source may be gone after its callback. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct loop_source *s = arg;
    struct loop *l = s->loop;
    const char *name = s->name;
    (void)fd;
    (void)what;
    loop_enter(l);
    s->fn(s->arg);
    loop_leave(l, name);
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
    s->name = "event";
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

void loop_fd_pause(struct loop_source *s)
{
    (void)event_del(s->ev);
}

void loop_fd_go_on(struct loop_source *s)
{
    (void)event_add(s->ev, NULL);
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

void loop_source_name(struct loop_source *s, const char *what)
{
    s->name = what;
}

void loop_source_destroy(struct loop_source *s)
{
    if (!s)
        return;
    if (s->ev)
        event_free(s->ev);
    free(s);
}
