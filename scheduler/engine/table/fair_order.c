/* fair_order.c - the engine's side of fair share: whom its jobs are charged to,
 * what their attempts use, and the order of the queue; see fair_shares.h. */
#include <math.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"

static double half_life_s(const struct engine *e)
{
    const struct conf_fair_share *conf = e->parts.conf->fair_share;
    return conf && conf->half_life_s > 0 ? conf->half_life_s : FAIR_HALF_LIFE_S;
}

void eng_fair_name(struct engine *e, struct job_record *rec)
{
    struct fair_charge *c = &rec->charge;
    char name[FAIR_NAME_CAP];

    fair_shares_name(&rec->job, name);
    /* What it has is charged to whom it was granted. */
    if (c->gpus == 0 && !(c->user && strcmp(c->user->name, name) == 0))
        c->user = fair_shares_user(&e->fair, name);
    if (c->user)
        c->user->came_s = fmax(c->user->came_s, rec->job.submit_s);
}

void eng_fair_note(struct engine *e, struct job_record *rec,
                   const struct store_event *ev)
{
    const struct job *job = &rec->job;
    struct fair_charge *c = &rec->charge;
    bool is_granted =
        ev->ev == EV_GRANT && job->native_id[0] != '\0' && job->gpus > 0;

    if (c->gpus > 0 && (ev->ev == EV_GRANT || ev->ev == EV_REQUEUE ||
                        job_state_is_final(job->state))) {
        fair_shares_add(c->user, -c->gpus, ev->at_s, half_life_s(e));
        c->gpus = 0;
    }
    if (!is_granted)
        return;
    eng_fair_name(e, rec);
    if (!c->user)
        return;
    c->gpus = job->gpus;
    fair_shares_add(c->user, c->gpus, ev->at_s, half_life_s(e));
}

/* Under fifo who comes first goes first. */
bool eng_fair_is_on(const struct engine *e)
{
    const struct conf_fair_share *conf = e->parts.conf->fair_share;
    return conf && conf->half_life_s > 0 && e->policy != &policy_fifo;
}

void eng_fair_update(struct engine *e)
{
    const struct conf_fair_share *conf =
        eng_fair_is_on(e) ? e->parts.conf->fair_share : NULL;

    if (fair_shares_update(&e->fair, conf, eng_wall(e)))
        eng_queue_sort(&e->lists.queue);
}
