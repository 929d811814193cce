/* engine_view.h - a plan from the kept queue against one from a new queue.
 *
 * The engine keeps what a plan needs of each queued job, and changes it with
 * the job (pending_queue.c). Nobody must see a difference.
 */
#ifndef MGPU_TESTS_ENGINE_VIEW_H
#define MGPU_TESTS_ENGINE_VIEW_H

#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"

struct view_plan {
    struct policy_decision *w; /* owned */
    size_t n;
    int rc;
};

static inline struct view_plan view_plan_now(struct engine *e)
{
    struct view_plan p = {.w = calloc(e->n_active + 1, sizeof(*p.w))};
    struct eng_view t;
    bool *was_ahead = NULL;

    p.rc = p.w ? eng_ahead_save(e, &was_ahead, NULL) : -1;
    if (p.rc < 0)
        return p;
    p.rc = eng_view_build(e, &t, NULL);
    if (p.rc == 0 && t.v.n_jobs > 0)
        p.rc = e->policy->plan(&t.v, p.w, e->n_active, &p.n, NULL);
    eng_view_clear(&t);
    eng_ahead_restore(e, was_ahead);
    return p;
}

/* With another queue in the place of the kept one, which is back then. */
static inline struct view_plan view_plan_anew(struct engine *e)
{
    struct waiting **kept_at = calloc(e->n_active + 1, sizeof(*kept_at));
    struct queue kept = e->lists.queue;
    struct view_plan p = {.rc = -1};

    if (!kept_at)
        return p;
    e->lists.queue = (struct queue){.n = 0};
    for (size_t i = 0; i < e->n_active; i++) {
        kept_at[i] = e->active[i]->places.waits;
        e->active[i]->places.waits = NULL;
    }
    if (eng_queue_reserve(&e->lists.queue, e->n_active, NULL) == 0) {
        eng_queue_fill(e);
        p = view_plan_now(e);
    }
    eng_queue_clear(&e->lists.queue);
    e->lists.queue = kept;
    for (size_t i = 0; i < e->n_active; i++)
        e->active[i]->places.waits = kept_at[i];
    free(kept_at);
    return p;
}

static inline bool view_same_decision(const struct policy_decision *a,
                                      const struct policy_decision *b)
{
    return a->act == b->act && a->id == b->id && a->nodes == b->nodes &&
           a->gpus_per_node == b->gpus_per_node && a->classes == b->classes &&
           memcmp(&a->start_s, &b->start_s, sizeof(double)) == 0 &&
           a->lacks == b->lacks && a->has_reservation == b->has_reservation &&
           a->for_id == b->for_id && strcmp(a->reason, b->reason) == 0;
}

/* NULL: both plans are the same. A refusal of memory writes a reason each time,
 * so such a world is left out. */
static inline const char *view_check(struct engine *e)
{
    struct view_plan a = {.w = NULL}, b = {.w = NULL};
    const char *why = NULL;

    if (e->refusals.n > 0 || e->n_nodes == 0)
        return NULL;
    a = view_plan_now(e);
    b = view_plan_anew(e);
    if (a.rc != b.rc || a.n != b.n)
        why = "a plan from the kept queue has other jobs";
    for (size_t i = 0; i < a.n && !why; i++)
        if (!view_same_decision(&a.w[i], &b.w[i]))
            why = "a plan from the kept queue decides otherwise";
    free(a.w);
    free(b.w);
    return why;
}

#endif
