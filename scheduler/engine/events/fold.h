/* fold.h - apply an event to a job. */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_FOLD_H

#include "db/event_store.h"
#include "jobs/base/error.h"

struct job_record;

/* err  ERR_STATE the table has no such transition, ERR_INVAL a bad detail; the
 *      record is unchanged */
int eng_fold(struct job_record *rec, const struct store_event *ev,
             struct error *err) MUST_CHECK;
/* Sets the fields that the text of a submit event contains: all but the user
 * and the time, which are fields of the event itself. err as eng_fold() */
int eng_take_submit(struct job_record *rec, const char *text,
                    struct error *err) MUST_CHECK;
/* As eng_fold() of a submit, after eng_take_submit(). */
int eng_fold_taken(struct job_record *rec, const struct store_event *ev,
                   struct error *err) MUST_CHECK;

#endif
