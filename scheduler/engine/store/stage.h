/* stage.h - staged events, and the batch that goes to the store. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_STAGE_H
#define MGPU_SCHEDULER_ENGINE_STORE_STAGE_H

#include "scheduler/engine/table/job_record.h"

struct engine;

struct saved {
    struct job_record *record;
    struct job_record *copy; /* owned; NULL: the record is new in this batch */
};

/* A batch in progress; another thread may be reading it. */
struct engine_batch {
    bool is_sent;
    struct store_batch rows;
    struct saved *saved; /* owned, like all here; as engine.saved */
    size_t n_saved;
    struct job_record *copies; /* the jobs at the time of the handover; texts of
                                  the rows */
    struct store_job *jobs;
    struct store_attempt *attempts;
    struct store_archived *archived;
    uint64_t ticket; /* of the last event of the batch */
};

/* The commit of a step that is in progress, or comes next. */
enum eng_phase { PHASE_OVER, PHASE_EVENTS, PHASE_INTENTS };

/* in   d  NULL: no detail
 * err  as eng_fold(), ERR_NOMEM; nothing is staged */
int eng_stage(struct engine *e, struct job_record *rec, enum job_event ev,
              int64_t uid, const struct detail *d,
              struct error *err) MUST_CHECK;
/* Stages the submit of a new record; the record says what the text says. own
 * takes text */
int eng_stage_submit(struct engine *e, struct job_record *rec, char *text,
                     struct error *err) MUST_CHECK;
/* Undoes what was staged since engine.n_events was n: new jobs and their
 * events, nothing else. */
void eng_stage_undo(struct engine *e, size_t n);

/* Moves the staged events to e->batch, for the store. err ERR_NOMEM;
 * everything staged is undone */
int eng_commit_send(struct engine *e, struct error *err) MUST_CHECK;
/* The batch is durable; without a batch there was nothing to store. */
void eng_commit_land(struct engine *e);
/* The batch failed: undoes it, and everything staged since. */
void eng_commit_roll_back(struct engine *e);
void eng_commit_clear(struct engine *e);

#endif
