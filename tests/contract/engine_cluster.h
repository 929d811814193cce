/* engine_cluster.h - an allocator with a scheduler of its own behind it, for
 * the tests of the engine: the fake, of which a test changes what it says. */
#ifndef MGPU_TESTS_ENGINE_CLUSTER_H
#define MGPU_TESTS_ENGINE_CLUSTER_H

#include "tests/contract/engine_play.h"

typedef int cluster_poll_f(struct alloc *a, struct alloc_note *notes,
                           size_t cap, size_t *ret_n, struct error *err);

/* The fake's own, for what stands in its place. */
static const struct alloc_ops *there;
static cluster_poll_f *cluster_poll;

static inline struct alloc *cluster_wrap(struct alloc *a)
{
    static struct alloc_ops ops;
    there = a->ops;
    ops = *there;
    ops.poll = cluster_poll;
    a->ops = &ops;
    return a;
}

static inline struct world_script one(struct world_attempt first)
{
    struct world_script s = {.nodes = 1, .gpus_per_node = 4, .n_acts = 1};
    s.jobs[0] = (struct world_job){.gpus = 1, .attempts = {first}};
    return s;
}

/* A job a second, each with all GPUs of a node. */
static inline struct world_script several(int n)
{
    struct world_script s = {
        .nodes = 1, .gpus_per_node = 4, .policy = &policy_backfill};
    for (int i = 0; i < n; i++) {
        s.jobs[i].gpus = 4;
        s.acts[s.n_acts++] = (struct world_act){.at_s = i, .job = i};
    }
    return s;
}

static inline void begin(const struct world_script *s, const char *what)
{
    world_init(&w, s);
    ok(world_start(&w), "---- %s", what);
}

/* in  poll  asks there->poll() and changes what it says */
static inline void begin_polled(const struct world_script *s,
                                cluster_poll_f *poll, const char *what)
{
    world_init(&w, s);
    cluster_poll = poll;
    w.wrap = cluster_wrap;
    ok(world_start(&w), "---- %s", what);
}

/* How all jobs end, and why the first does. */
static inline void finish(const char *want, const char *reason)
{
    play(INFINITY);
    const struct job *job = engine_job(w.engine, 1);
    is_str(job ? job->reason : "none", reason, "  the first says why it ended");
    play_out(want);
}

#endif
