/* requests.h - requests of clients: submits, sweeps, holds. */
#ifndef MGPU_SCHEDULER_ENGINE_REQUESTS_REQUESTS_H
#define MGPU_SCHEDULER_ENGINE_REQUESTS_REQUESTS_H

#include "scheduler/engine/table/job_record.h"

struct engine;

struct engine_read {
    struct job_record *rec; /* owned; NULL: the job was entered */
    char *text;             /* owned; text of the submit event, complete except
                               that the id and the sweep are 1, and dir is missing;
                               NULL: no draft yet */
    char *from;      /* owned; train.resume_from as the spec has it; after
                        parent_find() the directory; NULL: none */
    uint64_t parent; /* the job that wrote it; 0: not known */
    char parent_name[JOB_DISPLAY_CAP];
    size_t sweep_at; /* offset of the sweep's id in the text; 0: no sweep */
    bool is_used;
};
struct fit_memo;
/* What the tasks of a sweep have in common. The caller sets fit and zeroes the
 * rest. Valid while the engine takes one request. */
struct prepare_memo {
    struct fit_memo *fit;
    const struct engine_read *from; /* the last one whose parent was found by
                                       its number */
    bool is_best; /* `from` names the parent's best checkpoint */
};
/* Checks whether the parsed spec, or its draft, may be entered for req.
 * in   memo  cache for jobs of the same request; or NULL */
int eng_prepare(struct engine *e, const struct engine_submit *req,
                struct engine_read *io, struct prepare_memo *memo,
                struct error *err) MUST_CHECK;
/* The same for the i-th task. */
int eng_prepare_task(struct engine *e, const struct engine_submit *req,
                     const struct engine_sweep *sweep, size_t i,
                     struct engine_read *io, struct prepare_memo *memo,
                     struct error *err) MUST_CHECK;
/* The job or sweep that train.resume_from names by its number, or in whose
 * directory it lies, if that is where the daemon makes them now; 0: none. A
 * directory with the user's name is found only after the draft, which sets the
 * user. */
uint64_t parent_id_of(const struct engine *e, const struct engine_read *r);
/* Finds the job that train.resume_from names, and its checkpoints.
 * in   memo  NULL: no cache
 * err  ERR_INVAL user uid may not go on from it, and why; those of
 *      engine_recall() */
int parent_find(struct engine *e, int64_t uid, struct engine_read *io,
                struct prepare_memo *memo, struct error *err) MUST_CHECK;
/* Stages the prepared job under the next id, and empties io.
 * in   sweep  id of its sweep; or 0 */
int eng_enter(struct engine *e, const struct engine_submit *req,
              struct engine_read *io, uint64_t sweep, struct job_record **ret,
              struct error *err) MUST_CHECK;

/* Gives a pending job without a time limit, or with that of another partition,
 * the one of its partition, by an event. */
int eng_default_limit(struct engine *e, struct job_record *rec,
                      struct error *err) MUST_CHECK;

/* out  ret_again  *ret_id was submitted with this key before; else there is
 *      room for n more jobs */
int eng_check_submit(struct engine *e, const struct engine_submit *req,
                     size_t n, uint64_t *ret_id, bool *ret_again,
                     struct error *err) MUST_CHECK;
/* Whether the user may have n more jobs. err ERR_LIMIT */
int eng_check_room(const struct engine *e, int64_t uid, size_t n,
                   struct error *err) MUST_CHECK;
/* The rest of a submit after its check: prepares and stages the job, and its
 * hold.
 * out  ret_id  of the job */
int eng_enter_one(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, struct error *err) MUST_CHECK;
/* NULL: there is no such job, or uid may not change it. */
struct job_record *eng_mine(const struct engine *e, uint64_t id, int64_t uid,
                            struct error *err);

/* Ends the runs that were cancelled, and those whose programs were silent for
 * too long. */
void eng_runs_end(struct engine *e);
/* When that has work next, on the engine's clock; INFINITY: never. */
double eng_runs_next_s(const struct engine *e);
/* Whether a request that is for jobs with devices may be carried out.
 * in   verb  "held"
 * err  ERR_STATE the job is a run */
int eng_run_refuse(const struct job *job, const char *verb,
                   struct error *err) MUST_CHECK;

/* Returns -1, with "job 31_1 <fmt>". */
int eng_refuse(const struct job *job, struct error *err, enum err_code code,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* err  ERR_INVAL the user may not give it */
int eng_check_priority(const struct engine *e, int64_t uid, int32_t priority,
                       struct error *err) MUST_CHECK;

/* err  ERR_INVAL the number of tasks is out of range */
int eng_check_sweep(const struct engine_sweep *sweep,
                    struct error *err) MUST_CHECK;
/* As eng_enter_one() for a sweep: all tasks are checked, the first `most` are
 * entered, or none is.
 * out  ret_id  of the first;  ret_never  grows by the number of tasks that were
 *      not entered and can never fit */
int eng_enter_sweep(struct engine *e, const struct engine_submit *req,
                    const struct engine_sweep *sweep, size_t most,
                    uint64_t *ret_id, size_t *ret_never,
                    struct error *err) MUST_CHECK;
/* If a task has failed and its sweep has stop_on_fail, stages the end of the
 * pending tasks. err ERR_NOMEM: the caller tries again */
int eng_stop_sweeps(struct engine *e, struct error *err) MUST_CHECK;

/* Sets the fields of a job that the engine derives from its spec.
 *
 * out  ret's fields from name to where
 * own  ret_own, except its key: the caller frees with texts_clear(). Its spec
 *      is the canonical JSON
 * err  ERR_INVAL the spec is not valid */
int eng_from_spec(const char *spec, const struct engine_conf *conf,
                  struct job *ret, struct texts *ret_own,
                  struct error *err) MUST_CHECK;

#endif
