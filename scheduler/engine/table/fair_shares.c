/* fair_shares.c - GPU seconds by user, and the order that follows; see
 * fair_shares.h. */
#include "scheduler/engine/table/fair_shares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "scheduler/engine/job.h"

static const double FACTOR_LEAST = 1.0 / 8;
/* What has decayed to less than this is no use. */
static const double NO_USE_S = 1;

void fair_shares_clear(struct fair_shares *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i]);
    free(s->at);
    free(s->buckets);
    *s = (struct fair_shares){.n = 0};
}

/* ---- users ----------------------------------------------------------------
 */
static struct fair_user **bucket(const struct fair_shares *s, const char *name)
{
    uint32_t h = 2166136261u;

    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return &s->buckets[h & (s->n_buckets - 1)];
}

/* Room for one more. */
static bool grow(struct fair_shares *s)
{
    if (s->n < s->cap)
        return true;
    size_t cap = s->cap ? 2 * s->cap : 16;
    struct fair_user **buckets = calloc(cap, sizeof(struct fair_user *));
    struct fair_user **at =
        buckets ? realloc(s->at, cap * sizeof(struct fair_user *)) : NULL;
    if (at)
        s->at = at;
    if (!at) {
        free(buckets);
        return false;
    }
    free(s->buckets);
    s->cap = s->n_buckets = cap;
    s->buckets = buckets;
    for (size_t i = 0; i < s->n; i++) {
        struct fair_user **of = bucket(s, s->at[i]->name);
        s->at[i]->next = *of;
        *of = s->at[i];
    }
    return true;
}

struct fair_user *fair_shares_user(struct fair_shares *s, const char *name)
{
    struct fair_user *u = s->n_buckets > 0 ? *bucket(s, name) : NULL;

    while (u && strcmp(u->name, name) != 0)
        u = u->next;
    if (u || !grow(s) || !(u = calloc(1, sizeof(*u))))
        return u;
    (void)snprintf(u->name, sizeof(u->name), "%s", name);
    u->factor = 1;
    u->came_s = -INFINITY;
    struct fair_user **of = bucket(s, u->name);
    u->next = *of;
    *of = u;
    s->at[s->n++] = u;
    u->number = (int32_t)s->n;
    return u;
}

/* The integral of gpus x 2^(-age / half life) over the time since at_s, and
 * what was there before. A clock that was set back adds nothing. */
static void settle(struct fair_user *u, double at_s, double half_life_s)
{
    if (!(at_s > u->at_s))
        return;
    double decay = exp2((u->at_s - at_s) / half_life_s);
    u->used_s =
        u->used_s * decay + u->gpus * (half_life_s / log(2)) * (1 - decay);
    u->at_s = at_s;
}

void fair_shares_add(struct fair_user *u, int32_t gpus, double at_s,
                     double half_life_s)
{
    settle(u, at_s, half_life_s);
    u->gpus += gpus;
}

/* ---- shares ---------------------------------------------------------------
 */
static double weight_of(const struct spec_map *weights, const char *name)
{
    double w = 1;

    for (size_t i = 0; i < weights->n; i++)
        if (strcmp(weights->pairs[i].key, name) == 0 &&
            scalar_float(weights->pairs[i].value, &w) < 0)
            w = 1;
    return w;
}

static int by_use(const void *x, const void *y)
{
    const struct fair_user *a = *(struct fair_user *const *)x;
    const struct fair_user *b = *(struct fair_user *const *)y;

    if (a->per_weight_s < b->per_weight_s || a->per_weight_s > b->per_weight_s)
        return a->per_weight_s < b->per_weight_s ? -1 : 1;
    return a->number - b->number;
}

static bool set_ranks(struct fair_shares *s)
{
    bool is_other = false;
    int32_t rank = 0;

    if (s->n > 0)
        qsort(s->at, s->n, sizeof(struct fair_user *), by_use);
    for (size_t i = 0; i < s->n; i++) {
        rank += i > 0 && s->at[i]->per_weight_s > s->at[i - 1]->per_weight_s;
        is_other = is_other || s->at[i]->rank != rank;
        s->at[i]->rank = rank;
    }
    return is_other;
}

bool fair_shares_update(struct fair_shares *s,
                        const struct conf_fair_share *conf, double now_s)
{
    bool is_on = conf && conf->half_life_s > 0;
    double half_life_s = is_on ? conf->half_life_s : FAIR_HALF_LIFE_S;
    double used_s = 0, weights = 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++) {
        struct fair_user *u = s->at[i];
        double weight = is_on ? weight_of(&conf->weights, u->name) : 1;
        settle(u, now_s, half_life_s);
        u->used_s = u->used_s < NO_USE_S && u->gpus == 0 ? 0 : u->used_s;
        u->per_weight_s = is_on ? u->used_s / weight : 0;
        u->factor = 1;
        if (u->used_s > 0 || now_s - u->came_s < half_life_s) {
            used_s += u->used_s;
            weights += weight;
            n++;
        }
    }
    for (size_t i = 0; is_on && n > 1 && used_s > 0 && i < s->n; i++)
        s->at[i]->factor = fmax(
            exp2(-s->at[i]->per_weight_s / used_s * weights), FACTOR_LEAST);
    return set_ranks(s);
}

void fair_shares_name(const struct job *job, char ret[FAIR_NAME_CAP])
{
    const char *named = job->where.account;

    (void)snprintf(ret, FAIR_NAME_CAP, "%s",
                   named && named[0] ? named
                   : job->account[0] ? job->account
                                     : job->user);
}
