/* watch_past.h - what has changed since a client last looked: by the number of
 * an event, or by the cursor of a stream. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_PAST_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/ctld/job_list/job_seqs.h"

struct watch_past {
    struct job_seqs events;  /* the last event of each job */
    struct job_seqs changes; /* the last change, also of what is no event */
    uint64_t first_seq;      /* the last event before this start */
    uint64_t life; /* of this daemon: a cursor of another is not used */
    uint64_t left; /* the last change of any job out of memory */
};

/* What a client knows; both -1: nothing, it gets the whole list. */
struct watch_known {
    int64_t seq, change;
};

/* A cursor as text, with its end. */
enum { WATCH_CURSOR_CAP = 48 };

void watch_past_clear(struct watch_past *p); /* zeroed is fine */
void watch_past_changed(struct watch_past *p, uint64_t job);
void watch_past_saw_event(struct watch_past *p, uint64_t job, uint64_t seq);
/* The job, which never changes again, leaves the memory. */
void watch_past_leaves(struct watch_past *p, uint64_t job);

/* The last event of the job, or the last before this start. */
uint64_t watch_past_seq_of(const struct watch_past *p, uint64_t job);
/* The number of the last change. */
int64_t watch_past_now(const struct watch_past *p);
void watch_past_cursor(const struct watch_past *p, int64_t change,
                       char ret[WATCH_CURSOR_CAP]);

/* in   seq     the last event that the client knows; -1: none
 *      cursor  "new", or what watch_past_cursor() gave; NULL: none
 * out  ret     nothing, if what it knows is of another daemon's life, is from
 *              before a restore, or is so old that a job has left since
 * err  ERR_INVAL cursor is none */
int watch_past_known(const struct watch_past *p, int64_t seq,
                     const char *cursor, struct watch_known *ret,
                     struct error *err) MUST_CHECK;
/* Whether the client has the job as it is. */
bool watch_past_knows(const struct watch_past *p, struct watch_known known,
                      uint64_t job);

#endif
