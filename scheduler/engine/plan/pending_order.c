/* pending_order.c - which jobs are in a policy's view, in the policy's order.
 *
 * The queue is in that order already (pending_queue.c). Live jobs, and queued
 * jobs with a preemption reservation, are few: they are sorted and merged in.
 */
#include <stdlib.h>

#include "scheduler/engine/plan/pending_order.h"
#include "scheduler/engine/plan/plan.h"

/* Whether the queued job is in the view. */
static bool in_view(const struct waiting *w, double now_s)
{
    return !w->is_dropping && w->not_before_s <= now_s;
}

static int compare(const struct eng_order *a, const struct eng_order *b)
{
    if (a->has_reservation != b->has_reservation)
        return a->has_reservation ? -1 : 1;
    if (a->is_back != b->is_back)
        return a->is_back ? -1 : 1;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->submit_s < b->submit_s || a->submit_s > b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int by_order(const void *a, const void *b)
{
    return compare(a, b);
}

static struct eng_order of_live(const struct engine *e, struct job_record *rec,
                                double now_s, double wall_s)
{
    return (struct eng_order){
        .record = rec,
        .id = rec->job.id,
        .submit_s = now_s - (wall_s - rec->job.submit_s),
        .priority = rec->job.priority,
        .rank = rec->charge.user ? rec->charge.user->rank : 0,
        .has_reservation = eng_has_reservation(e, rec),
        .is_back = rec->job.resize.is_back,
    };
}

static struct eng_order of_waiting(const struct waiting *w, double now_s,
                                   double wall_s, bool has_reservation)
{
    return (struct eng_order){
        .record = w->record,
        .waits = w,
        .id = w->id,
        .submit_s = now_s - (wall_s - w->submit_s),
        .priority = w->priority,
        .rank = w->user ? w->user->rank : 0,
        .has_reservation = has_reservation,
        .is_back = w->is_back,
    };
}

/* Live jobs, and queued jobs that go before all others. */
static size_t few_of(const struct engine *e, double now_s, double wall_s,
                     struct eng_order *ret)
{
    const struct record_list *live = &e->lists.moving;
    const struct record_list *reserved = &e->lists.reserved;
    bool has_reserved = e->parts.conf->preempt.is_on;
    size_t n = 0;

    for (size_t i = 0; i < live->n; i++)
        if (job_state_is_live(live->at[i]->job.state))
            ret[n++] = of_live(e, live->at[i], now_s, wall_s);
    for (size_t i = 0; has_reserved && i < reserved->n; i++) {
        const struct waiting *w = reserved->at[i]->places.waits;
        if (w && in_view(w, now_s))
            ret[n++] = of_waiting(w, now_s, wall_s, true);
    }
    qsort(ret, n, sizeof(*ret), by_order);
    return n;
}

int eng_order_begin(struct engine *e, double now_s, double wall_s,
                    struct eng_ordering *ret, struct error *err)
{
    eng_fair_update(e);
    eng_find_reserved(e);
    size_t cap = e->lists.moving.n + e->lists.reserved.n;
    *ret = (struct eng_ordering){.e = e,
                                 .now_s = now_s,
                                 .wall_s = wall_s,
                                 .few = malloc((cap + 1) * sizeof(*ret->few))};
    if (!ret->few)
        return error_set(err, ERR_NOMEM, "out of memory");
    ret->n_few = few_of(e, now_s, wall_s, ret->few);
    return 0;
}

bool eng_order_next(struct eng_ordering *o, struct eng_order *ret)
{
    const struct queue *q = &o->e->lists.queue;
    bool has_reserved = o->e->parts.conf->preempt.is_on;

    while (o->next < q->n) {
        const struct waiting *w = q->at[o->next];
        if (in_view(w, o->now_s) && !(has_reserved && w->has_reservation))
            break;
        o->next++;
    }
    if (o->next < q->n) {
        *ret = of_waiting(q->at[o->next], o->now_s, o->wall_s, false);
        if (o->next_few == o->n_few ||
            compare(&o->few[o->next_few], ret) >= 0) {
            o->next++;
            return true;
        }
    }
    if (o->next_few == o->n_few)
        return false;
    *ret = o->few[o->next_few++];
    return true;
}

void eng_order_end(struct eng_ordering *o)
{
    free(o->few);
}
