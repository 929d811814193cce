/* fair_share.h - how much each user or account has used lately, and what that
 * makes of the weight of its jobs. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_FAIR_SHARE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_FAIR_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "db/event_store.h"
#include "jobs/base/error.h"

struct conf_fair_share;
struct ctld;
struct job;

enum { SHARE_NAME_CAP = 64 };
/* GPUs that a name had for a while; seconds since 1970. */
struct use_interval {
    char name[SHARE_NAME_CAP];
    uint64_t job; /* live: whose it is; 0: it is over */
    int32_t gpus;
    double from_s, to_s;
};

/* The newest USES_MAX intervals that are over, and all that are live. */
enum { USES_MAX = 65536 };
struct uses_log {
    struct use_interval *past; /* owned; [n_past], a ring from USES_MAX on */
    size_t n_past, cap_past, next;
    uint64_t n_ended; /* so many were noted, also those that the ring lost */
    struct use_interval *live; /* owned; [n_live] */
    size_t n_live, cap_live;
};
void uses_log_clear(struct uses_log *u);
/* Notes a grant, and the end of an attempt. Without memory it notes nothing. */
void uses_log_note(struct uses_log *u, const struct store_event *ev,
                   const struct job *job);
/* The name that a job is charged to: the account of its spec, or else the
 * cluster's default account that its events have, or else its user. */
void uses_fair_share_name(const struct job *job, char ret[SHARE_NAME_CAP]);
/* GPU seconds; those half_life_s ago count half. */
double use_decayed(const struct use_interval *i, double now_s,
                   double half_life_s);

/* The shares of all names that have used GPUs or have a job. */
struct share {
    char name[SHARE_NAME_CAP];
    double used, weight;
};
struct shares {
    struct share *v; /* owned */
    size_t n, cap;
    double used, weight; /* sums */
};
void uses_shares_clear(struct shares *s);
/* err  ERR_NOMEM */
int uses_shares_add(struct shares *s, const struct conf_fair_share *conf,
                    const char *name, double used,
                    struct error *err) MUST_CHECK;
/* 2^(-share of the use / own share), 1/8..1; 1 for an unknown name. */
double uses_shares_factor(const struct shares *s, const char *name);

/* The decayed use of all intervals that are over, by name, at one moment. It
 * decays as a whole, so only the intervals that ended since are looked at, and
 * those that the ring has lost still count. All zero: empty. */
struct past_use {
    struct shares sums;
    double at_s, half_life_s;
    uint64_t n_ended; /* of the log, so many are in the sums */
};
void past_use_clear(struct past_use *p);
/* Brings the sums to now. err ERR_NOMEM; the next call starts anew */
int past_use_update(struct past_use *p, const struct uses_log *u,
                    const struct conf_fair_share *conf, double now_s,
                    struct error *err) MUST_CHECK;

int fair_share_init(struct ctld *c, struct error *err) MUST_CHECK;
void fair_share_clear(struct ctld *c);
/* Called for each event, also while the engine replays them. */
void fair_share_note(struct ctld *c, const struct store_event *ev,
                     const struct job *job);
/* Tells the engine the factor of each job, and again after a while. */
void fair_share_restart(struct ctld *c);

#endif
