/* update.h - a request to change what a job asked for. */
#ifndef MGPU_SCHEDULER_ENGINE_UPDATE_H
#define MGPU_SCHEDULER_ENGINE_UPDATE_H

#include "scheduler/engine/engine.h"

/* The most that a user gives, and an administrator; the least is as far below
 * 0. */
enum { PRIORITY_USER = 50, PRIORITY_MAX = 1000 };

struct engine_update {
    bool has_limit;
    double limit_s;                  /* INFINITY: none */
    const char *partition, *account; /* NULL: as before */
    bool has_priority;
    int32_t priority;
    bool has_parallel;    /* of the sweep, whichever of its tasks is named */
    int32_t max_parallel; /* 0: any number */
};

/* Checks all changes before it makes the first one. A pending job may change
 * all of it; one that has its devices the time limit, the priority and
 * max_parallel. An attempt that is pending in the allocator is taken back, and
 * requested anew with what changed. A user may change own jobs, within what a
 * submit allows, and may only shorten the limit of an attempt that has begun;
 * an administrator any job.
 *
 * err  ERR_INVAL a value, or no node could ever hold the job then; ERR_STATE
 *      the state does not allow it; ERR_LIMIT a limit of the account alone
 *      would keep it; ERR_DENIED, ERR_NOTFOUND as engine_cancel() */
int engine_update(struct engine *e, uint64_t id, int64_t uid,
                  const struct engine_update *to, struct error *err) MUST_CHECK;
/* The same for each task of a sweep that has not ended. If one task refuses,
 * the others are still changed. err ERR_NOTFOUND no such sweep; ERR_STATE all
 * have ended; else that of the first refusal */
int engine_update_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        const struct engine_update *to,
                        struct error *err) MUST_CHECK;

#endif
