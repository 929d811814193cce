/* sim_timers.c - what is due in a simulation, as a binary heap by time. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/run/sim_world.h"

static bool is_before(const struct sim_timer *a, const struct sim_timer *b)
{
    if (a->t_s < b->t_s || a->t_s > b->t_s)
        return a->t_s < b->t_s;
    return a->serial < b->serial;
}

static int grow(struct sim_world *w, struct error *err)
{
    size_t cap = w->cap_heap ? 2 * w->cap_heap : 256;
    struct sim_timer *p = calloc(cap, sizeof(*p));

    if (!p)
        return error_set(err, ERR_NOMEM, "%zu timers", cap);
    if (w->n_heap > 0)
        memcpy(p, w->heap, w->n_heap * sizeof(*p));
    free(w->heap);
    w->heap = p;
    w->cap_heap = cap;
    return 0;
}

int sim_timer_add(struct sim_world *w, double t_s, enum sim_due due, int32_t i,
                  int32_t attempt, struct error *err)
{
    if (w->n_heap == w->cap_heap && grow(w, err) < 0)
        return -1;
    size_t at = w->n_heap++;
    struct sim_timer t = {t_s, w->serial++, due, i, attempt};
    while (at > 0 && is_before(&t, &w->heap[(at - 1) / 2])) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = t;
    return 0;
}

const struct sim_timer *sim_timer_first(const struct sim_world *w)
{
    return w->n_heap > 0 ? &w->heap[0] : NULL;
}

struct sim_timer sim_timer_take(struct sim_world *w)
{
    struct sim_timer first = w->heap[0], last = w->heap[--w->n_heap];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= w->n_heap)
            break;
        if (child + 1 < w->n_heap &&
            is_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (!is_before(&w->heap[child], &last))
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return first;
}
