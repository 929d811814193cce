/* job_lists.h - secondary indexes of active jobs; see job_lists.c. */
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

/* The place of an entry in the lists: not part of the job, and not restored by
 * an undo. */
struct filed {
    enum job_state state; /* state under which it is counted; JOB_NEW: it is
                             not */
    bool is_moving, is_over, has_depends, is_early, avoids, went, is_dirty;
    bool is_in_line;
    bool is_owed;          /* within one view: jobs were preempted for it */
    struct waiting *waits; /* its row in the queue; NULL: none */
    size_t later_at;       /* position in `later`, from 1; 0: none */
    double later_s;
    struct entry *dirty_prev, *dirty_next;
};

struct jobs_of_user {
    int64_t uid;
    int32_t n; /* of the user's jobs that have not ended */
};

/* Indexes of the active jobs. */
struct files {
    bool are_kept;             /* from eng_file_all() on */
    struct entry_list moving;  /* by id: live, or with an attempt that the
                                  allocator must still release */
    struct entry_list line;    /* by id: pending in the allocator, and not
                                  held there */
    struct entry_list over;    /* by id: ended, until eng_compact() */
    struct entry_list depends; /* by id: jobs with dependencies */
    /* by id: jobs whose begin time is to come, see begin_time.c */
    struct entry_list early;
    struct entry_list avoiding; /* by id: jobs that avoid nodes */
    struct entry_list went;     /* by id: preempted jobs whose reservation
                                   lasts, and some expired ones: see
                                   preemption.c */
    struct entry_list owed;     /* by id: jobs with a preemption reservation,
                                   in one view */
    struct queue queue;         /* QUEUED, without an open begin time or
                                   dependency */
    struct entry_list later;    /* QUEUED and not before a time: a heap
                                   ordered by it */
    struct jobs_of_user *users; /* owned; by uid */
    size_t n_users, cap_users;
    uint64_t n_state[JOB_STATE_N];
    /* Jobs whose stored reason is outdated, the oldest first. */
    struct entry *dirty_first, *dirty_last;
};

/* Reserves room for `more` entries in each list. err ERR_NOMEM */
int eng_files_reserve(struct engine *e, size_t more,
                      struct error *err) MUST_CHECK;
/* Puts an active entry into its lists, after any change. */
void eng_file(struct engine *e, struct entry *en);
/* The same for all entries after a replay, which calls no eng_file().
 * err  ERR_NOMEM */
int eng_file_all(struct engine *e, struct error *err) MUST_CHECK;
void eng_unfile(struct engine *e, struct entry *en);
void eng_files_clear(struct engine *e);

/* Index of the first of n entries with an id >= this. */
size_t eng_at_id(struct entry *const *list, size_t n, uint64_t id);
/* The first of `moving` with an id > `after`, or NULL: for loops that change
 * the lists as they go. */
struct entry *eng_next_moving(const struct engine *e, uint64_t after);
/* The time of the first of `later`; INFINITY: none. */
double eng_later_s(const struct engine *e);
/* Within one view. */
void eng_set_owed(struct engine *e, struct entry *en, bool is_owed);
int32_t eng_jobs_of(const struct engine *e, int64_t uid);

/* Its row in the store is written with one of the next batches. */
void eng_mark_dirty(struct engine *e, struct entry *en);
void eng_clear_dirty(struct engine *e, struct entry *en);

#endif
