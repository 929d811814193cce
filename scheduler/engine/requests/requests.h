/* requests.h - what clients ask for: submits, sweeps, holds. */
#ifndef MGPU_SCHEDULER_ENGINE_REQUESTS_REQUESTS_H
#define MGPU_SCHEDULER_ENGINE_REQUESTS_REQUESTS_H

#include "scheduler/engine/table/entry.h"

struct engine;

struct engine_read {
    struct entry *en; /* owned; NULL: it was entered */
    char *text;       /* owned; of the submit, as en says it but for the id and
                         the sweep, which are 1, and dir; NULL: no draft yet */
    size_t sweep_at;  /* where in it the sweep's id stands; 0: it has none */
    bool is_used;
};
/* Checks what was read, or drafted, for req: whether it may be entered.
 * in  memo  of others of the request; or NULL */
struct fit_memo;
int eng_prepare(struct engine *e, const struct engine_submit *req,
                struct engine_read *io, struct fit_memo *memo,
                struct error *err) MUST_CHECK;
/* The same for the i-th task. */
int eng_prepare_task(struct engine *e, const struct engine_submit *req,
                     const struct engine_sweep *sweep, size_t i,
                     struct engine_read *io, struct fit_memo *memo,
                     struct error *err) MUST_CHECK;
/* Stages what was prepared under the next id, and empties io.
 * in  sweep  of a task; or 0 */
int eng_enter(struct engine *e, const struct engine_submit *req,
              struct engine_read *io, uint64_t sweep, struct entry **ret,
              struct error *err) MUST_CHECK;

/* out  ret_again  *ret_id was submitted with this key before; else there is
 *      room for n jobs more */
int eng_check_submit(struct engine *e, const struct engine_submit *req,
                     size_t n, uint64_t *ret_id, bool *ret_again,
                     struct error *err) MUST_CHECK;
/* Whether there is. err ERR_LIMIT */
int eng_check_room(const struct engine *e, int64_t uid, size_t n,
                   struct error *err) MUST_CHECK;
/* All of a submit that was checked: prepared and staged, and its hold.
 * out  ret_id  of the job */
int eng_enter_one(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, struct error *err) MUST_CHECK;
/* NULL: there is no such job, or it is not theirs. */
struct entry *eng_mine(const struct engine *e, uint64_t id, int64_t uid,
                       struct error *err);

/* err  ERR_INVAL as many tasks as no sweep has */
int eng_check_sweep(const struct engine_sweep *sweep,
                    struct error *err) MUST_CHECK;
/* As eng_enter_one(): all tasks, or none; all are checked, and as many as
 * `most` entered.
 * out  ret_id  of the first;  ret_never  grows by the others never to fit */
int eng_enter_sweep(struct engine *e, const struct engine_submit *req,
                    const struct engine_sweep *sweep, size_t most,
                    uint64_t *ret_id, size_t *ret_never,
                    struct error *err) MUST_CHECK;
/* Where a task has failed and the sweep is to stop, stages the end of those
 * that wait. err ERR_NOMEM: to be called again */
int eng_stop_sweeps(struct engine *e, struct error *err) MUST_CHECK;

/* What the engine needs from a spec.
 *
 * out  ret's fields from name to where
 * own  ret_own, but its key: the caller frees with texts_clear(). Its spec is
 *      the canonical JSON
 * err  ERR_INVAL the spec is not valid */
int eng_from_spec(const char *spec, const struct engine_conf *conf,
                  struct job *ret, struct texts *ret_own,
                  struct error *err) MUST_CHECK;

#endif
