/* job_lists.h - jobs found by what is to be done about them; see job_lists.c.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_JOB_LISTS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_JOB_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"
#include "scheduler/engine/table/pending_queue.h"

struct engine;
struct entry;

struct entry_list {
    struct entry **at; /* owned */
    size_t n, cap;
};

/* Where an entry is filed: no part of the job, and put back by no undo. */
struct filed {
    enum job_state state; /* under which it is counted; JOB_NEW: it is not */
    bool is_moving, is_over, has_depends, is_early, avoids, went, is_dirty;
    bool is_owed;          /* within one view: others are gone, or go, for it */
    struct waiting *waits; /* in the queue; NULL: it is not there */
    size_t later_at;       /* in `later`, from 1; 0: it is not there */
    double later_s;
    struct entry *dirty_prev, *dirty_next;
};

struct jobs_of_user {
    int64_t uid;
    int32_t n; /* that have not ended */
};

/* Of those that are active. */
struct files {
    bool are_kept;             /* from eng_file_all() on */
    struct entry_list moving;  /* by id: live, or with an attempt that the
                                  allocator has still to drop */
    struct entry_list over;    /* by id: have ended, and linger */
    struct entry_list depends; /* by id: were to wait for others */
    /* by id: whose time has not come, see begin_time.c */
    struct entry_list early;
    struct entry_list avoiding; /* by id: keep away from nodes */
    struct entry_list went;     /* by id: whose devices others are still owed,
                                   and some that were: see preemption.c */
    struct entry_list owed;     /* by id: that are owed some, in one view */
    struct queue queue;         /* QUEUED, and neither early nor for the end of
                                   another */
    struct entry_list later;    /* QUEUED and not before a time: a heap by it */
    struct jobs_of_user *users; /* owned; by uid */
    size_t n_users, cap_users;
    uint64_t n_state[JOB_STATE_N];
    /* Rows of which the reason is old, the oldest first. */
    struct entry *dirty_first, *dirty_last;
};

/* Room for so many more in each list.  err  ERR_NOMEM */
int eng_files_reserve(struct engine *e, size_t more,
                      struct error *err) MUST_CHECK;
/* Puts an active entry where it belongs, whatever of it has changed. */
void eng_file(struct engine *e, struct entry *en);
/* The same for all, of which none is filed: a replay files nothing.
 * err  ERR_NOMEM */
int eng_file_all(struct engine *e, struct error *err) MUST_CHECK;
void eng_unfile(struct engine *e, struct entry *en);
void eng_files_clear(struct engine *e);

/* Where the first with an id >= this is, among the first n. */
size_t eng_at_id(struct entry *const *list, size_t n, uint64_t id);
/* The first that moves with an id > `after`, or NULL: for who changes what is
 * filed as he goes. */
struct entry *eng_next_moving(const struct engine *e, uint64_t after);
/* The time of the first of `later`; INFINITY: there is none. */
double eng_later_s(const struct engine *e);
/* Within one view. */
void eng_set_owed(struct engine *e, struct entry *en, bool is_owed);
int32_t eng_jobs_of(const struct engine *e, int64_t uid);

/* Its row in the store is to be written with one of the next batches. */
void eng_mark_dirty(struct engine *e, struct entry *en);
void eng_clear_dirty(struct engine *e, struct entry *en);

#endif
