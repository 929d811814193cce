/* fold_resize.h - what the events of a resize change in struct job_resize; for
 * fold.c. */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_RESIZE_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_RESIZE_H

#include "scheduler/engine/events/event_codec.h"

/* A PREEMPT with a size. in is_live whether an attempt is told to stop */
void resize_asked(struct job *job, double at_s, const struct detail *d,
                  bool is_live);
/* Whether the allocator did not grant this number of GPUs, or one that is
 * easier to grant; the caller looks at the time. */
bool resize_is_barred(const struct job_resize *r, int32_t gpus);
/* The INTENT of the attempt that has the size that was asked for. */
void resize_planned(struct job_resize *r);
/* The end of an attempt, while job->start_s is that of it: notes its GPU time.
 */
void resize_used(struct job *job, double ended_s);
/* The same of one after which there is another: it begins anew, and the time
 * was for nothing, if the job does not save its work. */
void resize_requeued(struct job *job, double ended_s);
/* The CLAIM of an attempt. */
void resize_claimed(struct job_resize *r);
/* The first RUN of an attempt; job->run_s is set. */
void resize_ran(struct job *job);
/* The end of the job. */
void resize_over(struct job_resize *r);

#endif
