/* engine_slow.h - a cluster whose ranks take their time to stop, as those do
 * that write a checkpoint: the fake's, with each release held back. */
#ifndef MGPU_TESTS_ENGINE_SLOW_H
#define MGPU_TESTS_ENGINE_SLOW_H

#include "tests/contract/engine_play.h"

enum { SLOW_MAX = 64 };

static struct slow {
    struct alloc base;
    struct alloc *inner;
    double stops_s; /* so long after the release they are gone */
    struct {
        uint64_t job;
        int32_t attempt;
        double at_s; /* 0: free */
    } held[SLOW_MAX];
} slow;

static inline int slow_inventory(struct alloc *a, struct alloc_node *nodes,
                                 size_t cap, size_t *ret_n, struct error *err)
{
    (void)a;
    return slow.inner->ops->inventory(slow.inner, nodes, cap, ret_n, err);
}

static inline int slow_request(struct alloc *a, const struct alloc_req *req,
                               struct error *err)
{
    (void)a;
    return slow.inner->ops->request(slow.inner, req, err);
}

static inline int slow_release(struct alloc *a, uint64_t job, int32_t attempt,
                               double grace_s, struct error *err)
{
    size_t i = 0;

    (void)a;
    if (slow.stops_s > grace_s ||
        !alloc_fake_native_id(w.cluster, job, attempt))
        return slow.inner->ops->release(slow.inner, job, attempt, grace_s, err);
    while (i < SLOW_MAX && slow.held[i].at_s > 0 &&
           (slow.held[i].job != job || slow.held[i].attempt != attempt))
        i++;
    if (i == SLOW_MAX)
        return error_set(err, ERR_LIMIT, "too many are stopping");
    if (slow.held[i].at_s > 0)
        return 0;
    slow.held[i].job = job;
    slow.held[i].attempt = attempt;
    slow.held[i].at_s = w.clock.t_s + slow.stops_s;
    return 0;
}

static inline int slow_claimed(struct alloc *a, uint64_t job, int32_t attempt,
                               const char *native_id, struct error *err)
{
    (void)a;
    return slow.inner->ops->claimed(slow.inner, job, attempt, native_id, err);
}

static inline int slow_signal(struct alloc *a, uint64_t job, int32_t attempt,
                              int signo, struct error *err)
{
    (void)a;
    return slow.inner->ops->signal(slow.inner, job, attempt, signo, err);
}

static inline int slow_poll(struct alloc *a, struct alloc_note *notes,
                            size_t cap, size_t *ret_n, struct error *err)
{
    (void)a;
    for (size_t i = 0; i < SLOW_MAX; i++) {
        if (slow.held[i].at_s <= 0 || slow.held[i].at_s > w.clock.t_s)
            continue;
        slow.held[i].at_s = 0;
        (void)slow.inner->ops->release(slow.inner, slow.held[i].job,
                                       slow.held[i].attempt, 0, NULL);
    }
    return slow.inner->ops->poll(slow.inner, notes, cap, ret_n, err);
}

static inline int slow_wake_fd(struct alloc *a)
{
    (void)a;
    return slow.inner->ops->wake_fd(slow.inner);
}

/* Ranks that were told go on stopping while the daemon is dead. */
static inline void slow_destroy(struct alloc *a)
{
    (void)a;
    slow.inner->ops->destroy(slow.inner);
}

static inline struct alloc *slow_wrap(struct alloc *inner)
{
    static const struct alloc_ops ops = {
        .name = "slow",
        .inventory = slow_inventory,
        .request = slow_request,
        .release = slow_release,
        .claimed = slow_claimed,
        .signal = slow_signal,
        .poll = slow_poll,
        .wake_fd = slow_wake_fd,
        .destroy = slow_destroy,
    };
    slow.base.ops = &ops;
    slow.inner = inner;
    return &slow.base;
}

/* When the next of them is gone. */
static inline double slow_next_s(void)
{
    double t = INFINITY;
    for (size_t i = 0; i < SLOW_MAX; i++)
        if (slow.held[i].at_s > 0)
            t = fmin(t, slow.held[i].at_s);
    return t;
}

static inline void slow_begin(const struct world_script *s, double stops_s)
{
    memset(&slow, 0, sizeof(slow));
    slow.stops_s = stops_s;
    world_init(&w, s);
    w.wrap = slow_wrap;
    w.next_s = slow_next_s;
}

#endif
