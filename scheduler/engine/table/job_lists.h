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
struct job_record;

struct record_list {
    struct job_record **at; /* owned */
    size_t n, cap;
};

/* The place of a record in the lists: not part of the job, and not restored by
 * an undo. */
struct list_places {
    enum job_state state; /* state under which it is counted; JOB_NEW: it is
                             not */
    bool is_moving, is_open, is_over, has_depends, is_early, avoids, went,
        is_dirty;
    bool is_in_line;
    bool has_reservation;  /* within one view: jobs were preempted for it */
    struct waiting *waits; /* its row in the queue; NULL: none */
    size_t later_at;       /* position in `later`, from 1; 0: none */
    double later_s;
    struct job_record *dirty_prev, *dirty_next;
};

struct jobs_of_user {
    int64_t uid;
    int32_t n; /* of the user's jobs that have not ended */
};

/* Indexes of the active jobs. */
struct job_lists {
    bool are_kept;              /* from eng_lists_build() on */
    struct record_list moving;  /* by id: live, or with an attempt that the
                                   allocator must still release */
    struct record_list line;    /* by id: pending in the allocator, and not
                                   held there */
    struct record_list runs;    /* by id: runs (run.h) that are RUNNING; in
                                   none of the lists of devices */
    struct record_list over;    /* by id: ended, until eng_compact() */
    struct record_list depends; /* by id: jobs with dependencies */
    /* by id: jobs whose begin time is to come, see begin_time.c */
    struct record_list early;
    struct record_list avoiding; /* by id: jobs that avoid nodes */
    struct record_list went;     /* by id: preempted jobs whose reservation
                                    lasts, and some expired ones: see
                                    preemption.c */
    struct record_list reserved; /* by id: jobs with a preemption reservation,
                                    in one view */
    struct queue queue;          /* QUEUED, without an open begin time or
                                    dependency */
    struct record_list later;    /* QUEUED and not before a time: a heap
                                    ordered by it */
    struct jobs_of_user *users;  /* owned; by uid */
    size_t n_users, cap_users;
    uint64_t n_state[JOB_STATE_N];
    /* Jobs whose stored reason is outdated, the oldest first. */
    struct job_record *dirty_first, *dirty_last;
};

/* Reserves room for `more` records in each list. err ERR_NOMEM */
int eng_lists_reserve(struct engine *e, size_t more,
                      struct error *err) MUST_CHECK;
/* Puts an active record into its lists, after any change. */
void eng_lists_update(struct engine *e, struct job_record *rec);
/* The same for all records after a replay, which calls no eng_lists_update().
 * err  ERR_NOMEM */
int eng_lists_build(struct engine *e, struct error *err) MUST_CHECK;
void eng_lists_remove(struct engine *e, struct job_record *rec);
void eng_lists_clear(struct engine *e);

/* Index of the first of n records with an id >= this. */
size_t eng_at_id(struct job_record *const *list, size_t n, uint64_t id);
/* The first of `moving` with an id > `after`, or NULL: for loops that change
 * the lists as they go. */
struct job_record *eng_next_moving(const struct engine *e, uint64_t after);
/* The time of the first of `later`; INFINITY: none. */
double eng_later_s(const struct engine *e);
/* Within one view. */
void eng_set_reserved(struct engine *e, struct job_record *rec,
                      bool has_reservation);
int32_t eng_jobs_of(const struct engine *e, int64_t uid);

/* Its row in the store is written with one of the next batches. */
void eng_mark_dirty(struct engine *e, struct job_record *rec);
void eng_clear_dirty(struct engine *e, struct job_record *rec);

#endif
