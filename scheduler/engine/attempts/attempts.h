/* attempts.h - an attempt from its dispatch to its end. */
#ifndef MGPU_SCHEDULER_ENGINE_ATTEMPTS_ATTEMPTS_H
#define MGPU_SCHEDULER_ENGINE_ATTEMPTS_ATTEMPTS_H

#include "scheduler/engine/table/entry.h"

struct engine;

int eng_poll(struct engine *e, struct error *err);
void eng_take_notes(struct engine *e);
/* The end of an attempt, as the allocator or the engine itself saw it. */
struct ending {
    enum alloc_note_kind kind; /* EXITED, LOST or REFUSED */
    int32_t exit_code, signal;
    enum alloc_ended_by by;   /* EXITED */
    bool is_forgotten;        /* LOST */
    int64_t cpu_ms, cores_ms; /* EXITED, as of the note */
    int64_t ended_ms;         /* likewise; 0: now, as far as is known */
    const char *why;          /* LOST, REFUSED; EXITED by other */
};
/* err  of the exit hook, or ERR_NOMEM: to be tried again */
int eng_end(struct engine *e, struct entry *en, const struct ending *end,
            struct error *err) MUST_CHECK;

void eng_timers(struct engine *e);
/* entry.give_up of an attempt that had reported by then, and of one that was
 * STALLED for want of progress: eng_stuck_why() says more. */
extern const char eng_was_done[], eng_was_stuck[];
double eng_timers_next(const struct engine *e, const struct entry *en);

/* Before the beat is the job's; whether it tells of any progress. */
bool eng_note_progress(struct entry *en, const struct engine_beat *beat,
                       double now_s);
/* Its clock begins anew, where it had begun. */
void eng_moved(struct entry *en, double now_s);
/* When it will have made none for too long; INFINITY: not known. */
double eng_stuck_at(const struct engine *e, const struct entry *en);
void eng_stuck_why(const struct engine *e, const struct entry *en, double now_s,
                   char *ret, size_t cap);

void eng_act(struct engine *e);
/* Ends every attempt that is pending in the allocator, at no cost to its job.
 */
int eng_take_all_back(struct engine *e, const char *why,
                      struct error *err) MUST_CHECK;
/* Holds or releases a job that has not ended.
 * err  ERR_DENIED an administrator holds it; ERR_STATE it is not queued */
int eng_hold_one(struct engine *e, struct entry *en, int64_t uid, bool hold,
                 struct error *err) MUST_CHECK;

#endif
