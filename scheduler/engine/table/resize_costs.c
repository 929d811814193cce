/* resize_costs.c - see resize_costs.h. A replay notes the same costs, from the
 * stored times. */
#include "scheduler/engine/table/resize_costs.h"

#include <math.h>

#include "scheduler/engine/engine_internal.h"

static uint64_t hash_of(const struct job_record *rec)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (const char *p = rec->own.class; p && *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return h ? h : 1;
}

void eng_costs_note(struct engine *e, const struct job_record *rec,
                    const struct store_event *ev)
{
    const struct job_resize *r = &rec->job.resize;
    double cost_s = r->checkpoint_s + r->allocator_s + r->start_s;
    uint64_t h = hash_of(rec);
    struct eng_costs *c = &e->costs[h % COSTS_N];

    bool is_first = ev->ev == EV_RUN && ev->attempt == rec->job.attempt &&
                    ev->at_s == rec->job.run_s;

    if (!is_first || !rec->own.class || isnan(cost_s))
        return;
    if (c->class_hash != h)
        *c = (struct eng_costs){.class_hash = h};
    c->last_s[c->n++ % COSTS_LAST] = (float)cost_s;
}

double eng_costs_mean_s(const struct engine *e, const struct job_record *rec)
{
    uint64_t h = hash_of(rec);
    const struct eng_costs *c = &e->costs[h % COSTS_N];
    uint32_t n = c->n < COSTS_LAST ? c->n : COSTS_LAST;
    double sum_s = 0;

    if (c->class_hash != h || n == 0)
        return NAN;
    for (uint32_t i = 0; i < n; i++)
        sum_s += (double)c->last_s[i];
    return sum_s / n;
}
