/* fair_share.c - tell the engine which jobs belong to users who have used much;
 * see fair_share.h.
 *
 * The uses come from events, so a restart knows them again, as far as the jobs
 * are not archived. The factors change slowly: they are told at intervals.
 */
#include "scheduler/ctld/maintenance/fair_share.h"

#include <math.h>
#include <stdlib.h>

#include "jobs/base/log.h"
#include "jobs/conf/conf_goodput.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/engine/teach.h"

struct fair_share {
    struct uses_log uses;
    struct past_use past;
    struct shares told; /* the factors that the engine knows */
    struct loop_source *timer;
    bool is_told; /* factors other than 1 may be with the engine */
};

static bool is_open(const struct job *job)
{
    return !job_state_is_final(job->state);
}

static int gather(struct ctld *c, const struct conf_fair_share *conf,
                  struct shares *ret, struct error *err)
{
    const struct uses_log *u = &c->fair_share->uses;
    struct past_use *p = &c->fair_share->past;
    double now_s = c->parts.clock->wall_s(c->parts.clock);
    int rc = past_use_update(p, u, conf, now_s, err);

    for (size_t i = 0; rc == 0 && i < p->sums.n; i++)
        rc = uses_shares_add(ret, conf, p->sums.v[i].name, p->sums.v[i].used,
                             err);
    for (size_t i = 0; rc == 0 && i < u->n_live; i++)
        rc = uses_shares_add(ret, conf, u->live[i].name,
                             use_decayed(&u->live[i], now_s, conf->half_life_s),
                             err);
    for (const struct job *job = engine_next_since(c->engine, 0, INFINITY);
         rc == 0 && job; job = engine_next_since(c->engine, job->id, INFINITY))
        if (is_open(job)) {
            char name[SHARE_NAME_CAP];
            uses_fair_share_name(job, name);
            rc = uses_shares_add(ret, conf, name, 0, err);
        }
    return rc;
}

/* in   s  NULL: all jobs alike */
static void tell(struct ctld *c, const struct shares *s)
{
    for (const struct job *job = engine_next_since(c->engine, 0, INFINITY); job;
         job = engine_next_since(c->engine, job->id, INFINITY)) {
        char name[SHARE_NAME_CAP];
        if (!is_open(job))
            continue;
        uses_fair_share_name(job, name);
        engine_teach_share(c->engine, job->id,
                           s ? uses_shares_factor(s, name) : 1);
    }
}

static void look(void *arg)
{
    struct ctld *c = arg;
    struct fair_share *f = c->fair_share;
    const struct conf_fair_share *conf = c->conf.fair_share;
    struct shares shares = {.v = NULL};
    struct error err = ERROR_INIT;

    if (c->stopping)
        return;
    if (!conf || !(conf->half_life_s > 0)) {
        if (f->is_told)
            tell(c, NULL);
        f->is_told = false;
        uses_shares_clear(&f->told);
        return;
    }
    if (gather(c, conf, &shares, &err) < 0)
        log_warn("ctld", "fair shares stay as they were why=\"%s\"", err.msg);
    else
        tell(c, &shares);
    f->is_told = true;
    uses_shares_clear(&f->told);
    f->told = shares;
    loop_timer_set(f->timer, fmax(c->conf.goodput.interval_s, 1));
}

void fair_share_note(struct ctld *c, const struct store_event *ev,
                     const struct job *job)
{
    const struct conf_fair_share *conf = c->conf.fair_share;

    uses_log_note(&c->fair_share->uses, ev, job);
    if (ev->ev != EV_SUBMIT || !c->engine || !conf ||
        !(conf->half_life_s > 0) || c->stopping)
        return;
    /* The others wait for the timer: a new job changes their shares little. A
     * name without a share has used nothing. */
    char name[SHARE_NAME_CAP];
    uses_fair_share_name(job, name);
    engine_teach_share(c->engine, job->id,
                       uses_shares_factor(&c->fair_share->told, name));
    if (!c->fair_share->is_told)
        loop_timer_set(c->fair_share->timer, 0.01);
}

void fair_share_restart(struct ctld *c)
{
    if (c->fair_share && c->engine && !c->stopping)
        loop_timer_set(c->fair_share->timer, 0.01);
}

int fair_share_init(struct ctld *c, struct error *err)
{
    struct fair_share *f = c->fair_share = calloc(1, sizeof(*f));

    if (!f)
        return error_set(err, ERR_NOMEM, "fair share");
    if (loop_timer_create(c->loop, look, c, &f->timer, err) < 0)
        return -1;
    loop_source_name(f->timer, "fair share timer");
    return 0;
}

void fair_share_clear(struct ctld *c)
{
    if (!c->fair_share)
        return;
    loop_source_destroy(c->fair_share->timer);
    uses_log_clear(&c->fair_share->uses);
    past_use_clear(&c->fair_share->past);
    uses_shares_clear(&c->fair_share->told);
    free(c->fair_share);
    c->fair_share = NULL;
}
