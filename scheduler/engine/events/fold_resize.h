/* fold_resize.h - what the events of a resize change in struct job_resize; for
 * fold.c. */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_RESIZE_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_RESIZE_H

#include "scheduler/engine/events/event_codec.h"

/* A PREEMPT with a size. in is_live whether an attempt is told to stop */
void resize_asked(struct job *job, double at_s, const struct detail *d,
                  bool is_live);
/* The INTENT of the attempt that has the size that was asked for. */
void resize_planned(struct job_resize *r);
/* The end of an attempt after which there is another. */
void resize_requeued(struct job *job, double ended_s);
/* The first RUN of an attempt; job->run_s is set. */
void resize_ran(struct job *job);
/* The end of the job. */
void resize_over(struct job_resize *r);

#endif
