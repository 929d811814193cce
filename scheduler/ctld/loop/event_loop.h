/* event_loop.h - the daemon's event loop; the only door to libevent but the
 * HTTP server's. All callbacks run on the thread that runs the loop.
 */
#ifndef MGPU_SCHEDULER_CTLD_LOOP_EVENT_LOOP_H
#define MGPU_SCHEDULER_CTLD_LOOP_EVENT_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct event_base; /* libevent */
struct loop;
struct loop_source; /* a timer, a descriptor or a signal */

typedef void (*loop_f)(void *arg);

int loop_create(struct loop **ret, struct error *err) MUST_CHECK;
void loop_destroy(struct loop *l); /* NULL is fine; after its sources */
struct event_base *loop_base(struct loop *l);

/* How long callbacks took. Nothing else happens meanwhile, so the longest is
 * what a heartbeat or a tool may have had to wait. Part of that time the
 * thread may have been ready to run and had no core: that is the machine's
 * doing, the rest is ours. Of that rest it may have slept: for a disk, a lock
 * or a child that begins. */
enum { LOOP_BUCKETS = 9 };
extern const double loop_bounds_s[LOOP_BUCKETS - 1];
struct loop_times {
    uint64_t n;
    double sum_s, longest_s;
    double waited_s;      /* of sum_s, for a core; 0 where no kernel tells */
    double longest_own_s; /* the longest without such waiting */
    double slept_s, longest_slept_s;
    uint64_t buckets[LOOP_BUCKETS]; /* not cumulative; the last is all above
                                       the bounds */
};
const struct loop_times *loop_times(const struct loop *l);
/* Around a callback that is not a source's: the HTTP server's. One within
 * another is part of it. in  what  static, for the log */
void loop_enter(struct loop *l);
void loop_leave(struct loop *l, const char *what);
struct loop_turn {
    double s;        /* that one callback took */
    double waited_s; /* of s, for a core */
    double slept_s;  /* of s, for anything else */
};
/* The clocks, read at one moment. */
struct loop_clocks {
    double s;
    double ran_s, waited_s; /* the thread, on a core and for one */
    uint64_t n_runs;        /* how often it was given one */
};
struct loop_turn loop_turn_between(const struct loop_clocks *from,
                                   const struct loop_clocks *to);
/* Too long a one is logged, one in ten seconds. */
void loop_took(struct loop *l, const char *what, const struct loop_turn *turn);

/* Runs until loop_stop(). */
int loop_run(struct loop *l, struct error *err) MUST_CHECK;
void loop_stop(struct loop *l);

/* Fires once per loop_timer_set(), which replaces an earlier setting. */
int loop_timer_create(struct loop *l, loop_f fn, void *arg,
                      struct loop_source **ret, struct error *err) MUST_CHECK;
void loop_timer_set(struct loop_source *s, double after_s);
/* In this turn of the loop, after what is ready now. Asking twice is once. */
void loop_timer_soon(struct loop_source *s);
bool loop_timer_is_set(const struct loop_source *s);

/* Each time fd is readable; borrowed until the source is destroyed. */
int loop_fd_create(struct loop *l, int fd, loop_f fn, void *arg,
                   struct loop_source **ret, struct error *err) MUST_CHECK;
/* Does not look at fd until it is to go on; both may be said twice. */
void loop_fd_pause(struct loop_source *s);
void loop_fd_go_on(struct loop_source *s);
int loop_signal_create(struct loop *l, int signo, loop_f fn, void *arg,
                       struct loop_source **ret, struct error *err) MUST_CHECK;

/* What the log calls it. in  what  static */
void loop_source_name(struct loop_source *s, const char *what);
void loop_source_destroy(struct loop_source *s); /* NULL is fine */

#endif
