/* stage.h - what is staged, and leaves for the store as one batch. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_STAGE_H
#define MGPU_SCHEDULER_ENGINE_STORE_STAGE_H

#include "scheduler/engine/table/entry.h"

struct engine;

struct saved {
    struct entry *entry;
    struct entry *copy; /* owned; NULL: the entry came with this batch */
};

/* A batch on its way to the store, another thread perhaps reading it. */
struct flight {
    bool is_up;
    struct store_batch batch;
    struct saved *saved; /* owned, as all here; as engine.saved */
    size_t n_saved;
    struct entry *copies; /* as they were handed over; the rows' texts */
    struct store_job *jobs;
    struct store_attempt *attempts;
    struct store_archived *archived;
    uint64_t ticket; /* of its last event */
};

/* Which commit of a step is under way, or to come. */
enum eng_phase { PHASE_OVER, PHASE_EVENTS, PHASE_INTENTS };

/* in   d  NULL: no detail
 * err  as eng_fold, ERR_NOMEM; nothing is staged */
int eng_stage(struct engine *e, struct entry *en, enum job_event ev,
              int64_t uid, const struct detail *d,
              struct error *err) MUST_CHECK;
/* The submit of a new entry, which says what the text does. own  takes text */
int eng_stage_submit(struct engine *e, struct entry *en, char *text,
                     struct error *err) MUST_CHECK;
/* Takes back what was staged since engine.n_events was n: new jobs and their
 * events, nothing else. */
void eng_unstage(struct engine *e, size_t n);

/* What is staged is in e->flight, for the store. err ERR_NOMEM; all that was
 * staged is undone */
int eng_depart(struct engine *e, struct error *err) MUST_CHECK;
/* It is durable; when nothing had left, there was nothing to be stored. */
void eng_arrive(struct engine *e);
/* It is not, and as little is what was staged since: as if neither had been
 * asked for. */
void eng_undo(struct engine *e);
void eng_commit_clear(struct engine *e);

#endif
