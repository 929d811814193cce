/* fair_shares.h - how much each user or account has used lately, and what that
 * makes of the order and the weight of its jobs.
 *
 * The sums are kept by differences: an attempt that gets or returns its GPUs
 * changes one of them, and what is there decays as a whole. Nothing goes
 * through the jobs. The uses come from events, so a restart knows them again,
 * as far as the jobs are not archived. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_FAIR_SHARES_H
#define MGPU_SCHEDULER_ENGINE_TABLE_FAIR_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/conf/conf_goodput.h"

struct engine;
struct job;
struct job_record;
struct store_event;

/* Without fair share uses decay nevertheless, for when it is switched on. */
#define FAIR_HALF_LIFE_S (7 * 86400.0)

enum { FAIR_NAME_CAP = 64 };
struct fair_user {
    char name[FAIR_NAME_CAP];
    int32_t number; /* from 1, as the users came */
    int32_t gpus;   /* that its jobs have since at_s */
    double used_s;  /* GPU seconds until at_s; those a half-life before it count
                       half */
    double at_s, came_s; /* since 1970; came_s: its last job */
    /* As the last fair_shares_update() left them. */
    int32_t rank;  /* 0: it has used least, for its weight. Equal uses have
                      equal ranks */
    double factor; /* of its jobs' weight, 1/8..1 */
    double per_weight_s;
    struct fair_user *next; /* of its bucket */
};

struct fair_shares {
    struct fair_user **at; /* owned, with the users; [n], by rank */
    size_t n, cap;
    struct fair_user **buckets; /* owned; [n_buckets], a power of two */
    size_t n_buckets;
};
void fair_shares_clear(struct fair_shares *s);
/* Adds it, if it is not there. NULL: out of memory */
struct fair_user *fair_shares_user(struct fair_shares *s, const char *name);
/* From at_s on, its jobs have so many GPUs more, or fewer. */
void fair_shares_add(struct fair_user *u, int32_t gpus, double at_s,
                     double half_life_s);
/* Brings all to now. The factor is 2^(-part of all use / own part of the
 * weights), for those with any use or with a job within a half-life. Without a
 * half-life, and alone, all ranks are 0 and all factors 1.
 * ret  a rank has changed */
bool fair_shares_update(struct fair_shares *s,
                        const struct conf_fair_share *conf, double now_s);
/* The name that a job is charged to: the account of its spec, or else the
 * cluster's default account that its events have, or else its user. */
void fair_shares_name(const struct job *job, char ret[FAIR_NAME_CAP]);

/* ---- fair_order.c ----------------------------------------------------------
 */
/* Whom a job is charged to, and the GPUs that it is charged for now. */
struct fair_charge {
    struct fair_user *user; /* borrowed; NULL: not known */
    int32_t gpus;
};
/* Finds the user of an active job, whose account may have changed. */
void eng_fair_name(struct engine *e, struct job_record *rec);
/* An event of the job is durable: a grant, or the end of an attempt. */
void eng_fair_note(struct engine *e, struct job_record *rec,
                   const struct store_event *ev);
bool eng_fair_is_on(const struct engine *e);
/* Before a view: the shares are those of now, and the queue is in their order.
 */
void eng_fair_update(struct engine *e);

#endif
