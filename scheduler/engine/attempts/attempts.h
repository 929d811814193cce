/* attempts.h - an attempt from its dispatch to its end.
 *
 * dispatch.c requests and releases attempts, allocator_notes.c handles the
 * allocator's answers, worker_lease.c the worker's requests, timers.c and
 * stall_detect.c the deadlines, attempt_end.c the end.
 */
#ifndef MGPU_SCHEDULER_ENGINE_ATTEMPTS_ATTEMPTS_H
#define MGPU_SCHEDULER_ENGINE_ATTEMPTS_ATTEMPTS_H

#include "scheduler/engine/table/job_record.h"

struct engine;

int eng_notes_poll(struct engine *e, struct error *err);
void eng_notes_take(struct engine *e);
/* The end of an attempt, as the allocator or the engine itself saw it. */
struct ending {
    enum alloc_note_kind kind; /* EXITED, LOST or REFUSED */
    int32_t exit_code, signal;
    enum alloc_ended_by by;   /* EXITED, LOST */
    bool is_forgotten;        /* LOST */
    int64_t cpu_ms, cores_ms; /* EXITED, from the note */
    int64_t ended_ms;         /* likewise; 0: just now, as far as is known */
    const char *why;          /* LOST, REFUSED; EXITED by other */
};
/* err  of the exit hook, or ERR_NOMEM: the caller tries again */
int eng_end(struct engine *e, struct job_record *rec, const struct ending *end,
            struct error *err) MUST_CHECK;
/* How long ago it ended while no daemon listened; 0: just now, or unknown, or
 * the engine had told it to end. */
double eng_ended_ago_s(const struct engine *e, const struct job_record *rec,
                       const struct ending *end);
/* What the attempt, which is over, has left of its time limit for one that
 * continues it with another size; at least a second. -1: no resize, or no
 * limit. */
int64_t eng_limit_left_ms(const struct engine *e, const struct job_record *rec,
                          const struct ending *end);

void eng_timers(struct engine *e);
/* job_record.give_up of an attempt that had reported by then, and of one that
 * was STALLED without progress: eng_stall_why() has the details. */
extern const char eng_was_done[], eng_was_stuck[];
double eng_timers_next(const struct engine *e, const struct job_record *rec);

/* Compares the heartbeat with the job, before the job takes its values; true if
 * it reports any progress. */
bool eng_stall_note_progress(struct job_record *rec,
                             const struct engine_beat *beat, double now_s);
/* Restarts the progress clock, if it runs. */
void eng_stall_moved(struct job_record *rec, double now_s);
/* When the attempt counts as stalled without further progress; INFINITY:
 * unknown. */
double eng_stall_at(const struct engine *e, const struct job_record *rec);
void eng_stall_why(const struct engine *e, const struct job_record *rec,
                   double now_s, char *ret, size_t cap);

void eng_dispatch(struct engine *e);
/* Cancels every attempt that is pending in the allocator, without counting a
 * retry. */
int eng_take_all_back(struct engine *e, const char *why,
                      struct error *err) MUST_CHECK;
/* Holds or releases a job that has not ended.
 * err  ERR_DENIED an administrator holds it; ERR_STATE it is not queued */
int eng_hold_one(struct engine *e, struct job_record *rec, int64_t uid,
                 bool hold, struct error *err) MUST_CHECK;

#endif
