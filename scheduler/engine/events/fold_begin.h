/* fold_begin.h - events with which an attempt begins; for fold.c alone. */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_BEGIN_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_BEGIN_H

#include "db/event_store.h"
#include "scheduler/engine/events/event_codec.h"

struct job_record;

/* An INTENT: the allocator is about to be asked. */
void fold_begin_intent(struct job_record *rec, const struct store_event *ev,
                       const struct detail *d);
/* An OPEN: the program of a run has begun by itself, wherever it is. */
void fold_begin_open(struct job_record *rec, const struct store_event *ev,
                     const struct detail *d);

#endif
