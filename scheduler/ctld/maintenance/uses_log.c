/* uses_log.c - the GPU seconds of each name, from the events of grants and of
 * ends; see fair_share.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/conf/conf_goodput.h"
#include "jobs/text/scalar.h"
#include "scheduler/ctld/maintenance/fair_share.h"
#include "scheduler/engine/job.h"

void uses_log_clear(struct uses_log *u)
{
    free(u->past);
    free(u->live);
    *u = (struct uses_log){.past = NULL};
}

void uses_fair_share_name(const struct job *job, char ret[SHARE_NAME_CAP])
{
    const char *named = job->where.account;
    (void)snprintf(ret, SHARE_NAME_CAP, "%s",
                   named && named[0] ? named
                   : job->account[0] ? job->account
                                     : job->user);
}

static struct use_interval *grow(struct use_interval **v, size_t n, size_t *cap)
{
    if (n == *cap) {
        size_t more = *cap ? 2 * *cap : 64;
        struct use_interval *p = realloc(*v, more * sizeof(*p));
        if (!p)
            return NULL;
        *v = p;
        *cap = more;
    }
    return &(*v)[n];
}

static void keep_past(struct uses_log *u, const struct use_interval *i)
{
    struct use_interval *at;

    u->n_ended++;
    if (u->n_past == USES_MAX) {
        u->past[u->next++ % USES_MAX] = *i;
    } else if ((at = grow(&u->past, u->n_past, &u->cap_past)) != NULL) {
        *at = *i;
        u->n_past++;
    }
}

static void end(struct uses_log *u, uint64_t job, double at_s)
{
    for (size_t i = 0; i < u->n_live; i++) {
        if (u->live[i].job != job)
            continue;
        struct use_interval over = u->live[i];
        over.job = 0;
        over.to_s = fmax(at_s, over.from_s);
        keep_past(u, &over);
        u->live[i] = u->live[--u->n_live];
        return;
    }
}

static void begin(struct uses_log *u, const struct job *job, double at_s)
{
    struct use_interval *at = grow(&u->live, u->n_live, &u->cap_live);

    if (!at)
        return;
    *at = (struct use_interval){
        .job = job->id, .gpus = job->gpus, .from_s = at_s, .to_s = NAN};
    uses_fair_share_name(job, at->name);
    u->n_live++;
}

void uses_log_note(struct uses_log *u, const struct store_event *ev,
                   const struct job *job)
{
    bool is_granted =
        ev->ev == EV_GRANT && job->native_id[0] != '\0' && job->gpus > 0;

    if (is_granted || ev->ev == EV_GRANT || ev->ev == EV_REQUEUE ||
        job_state_is_final(job->state))
        end(u, job->id, ev->at_s);
    if (is_granted)
        begin(u, job, ev->at_s);
}

/* The integral of 2^(-age / half life) over the interval. */
double use_decayed(const struct use_interval *i, double now_s,
                   double half_life_s)
{
    double to_s = isnan(i->to_s) ? fmax(now_s, i->from_s) : i->to_s;
    double unit_s = half_life_s / log(2);

    return i->gpus * unit_s *
           (exp2((to_s - now_s) / half_life_s) -
            exp2((i->from_s - now_s) / half_life_s));
}

/* ---- shares ----------------------------------------------------------------
 */
void uses_shares_clear(struct shares *s)
{
    free(s->v);
    *s = (struct shares){.v = NULL};
}

static struct share *find(const struct shares *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, name) == 0)
            return &s->v[i];
    return NULL;
}

static double weight_of(const struct conf_fair_share *conf, const char *name)
{
    double w = 1;
    for (size_t i = 0; i < conf->weights.n; i++)
        if (strcmp(conf->weights.pairs[i].key, name) == 0 &&
            scalar_float(conf->weights.pairs[i].value, &w) < 0)
            w = 1;
    return w;
}

int uses_shares_add(struct shares *s, const struct conf_fair_share *conf,
                    const char *name, double used, struct error *err)
{
    struct share *at = find(s, name);

    if (!at && s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct share *p = realloc(s->v, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "fair shares");
        s->v = p;
        s->cap = cap;
    }
    if (!at) {
        at = &s->v[s->n++];
        *at = (struct share){.weight = weight_of(conf, name)};
        (void)snprintf(at->name, sizeof(at->name), "%s", name);
        s->weight += at->weight;
    }
    at->used += used;
    s->used += used;
    return 0;
}

double uses_shares_factor(const struct shares *s, const char *name)
{
    const struct share *at = find(s, name);

    if (!at || !(s->used > 0))
        return 1;
    return fmax(exp2(-(at->used / s->used) / (at->weight / s->weight)),
                1.0 / 8);
}

/* ---- what is over ---------------------------------------------------------
 */
void past_use_clear(struct past_use *p)
{
    uses_shares_clear(&p->sums);
    *p = (struct past_use){.n_ended = 0};
}

/* The k-th of those that the log has, the oldest first. */
static const struct use_interval *past_at(const struct uses_log *u, size_t k)
{
    return &u->past[u->n_past < USES_MAX ? k : (u->next + k) % USES_MAX];
}

int past_use_update(struct past_use *p, const struct uses_log *u,
                    const struct conf_fair_share *conf, double now_s,
                    struct error *err)
{
    bool is_same = p->half_life_s >= conf->half_life_s &&
                   p->half_life_s <= conf->half_life_s &&
                   p->n_ended <= u->n_ended;

    if (!is_same)
        past_use_clear(p);
    double decay = exp2((p->at_s - now_s) / conf->half_life_s);
    for (size_t i = 0; i < p->sums.n; i++)
        p->sums.v[i].used *= decay;
    p->at_s = now_s;
    p->half_life_s = conf->half_life_s;
    uint64_t n_new = u->n_ended - p->n_ended;
    size_t first = n_new < u->n_past ? u->n_past - (size_t)n_new : 0;
    for (size_t k = first; k < u->n_past; k++) {
        const struct use_interval *i = past_at(u, k);
        double used = use_decayed(i, now_s, conf->half_life_s);
        if (uses_shares_add(&p->sums, conf, i->name, used, err) < 0) {
            past_use_clear(p);
            return -1;
        }
    }
    p->n_ended = u->n_ended;
    return 0;
}
