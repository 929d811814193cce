/* run.h - jobs of kind run: their program runs outside of mgpu.
 *
 * A script on a login node, or a notebook, has curves like a job: it opens a
 * run, sends its values, and finishes it. A run is RUNNING from its submit on
 * and has no devices, no place in the queue and no worker, so no policy, limit
 * of devices, retry or accounting looks at it. It counts among the jobs of its
 * user (limits.max_jobs_per_user).
 *
 * It ends when its program says so, when a cancel ends it, or when its program
 * is silent for engine_conf.run_lost_s (0: for ever). A restart of
 * the daemon keeps it, and begins that time anew.
 */
#ifndef MGPU_SCHEDULER_ENGINE_RUN_H
#define MGPU_SCHEDULER_ENGINE_RUN_H

#include "scheduler/engine/engine.h"

/* The kind of such jobs; that of others is an enum spec_kind. */
extern const char job_kind_run[];

struct engine_run {
    int64_t uid;
    const char *user;
    const char *key;    /* as engine_submit has them */
    const char *digest; /* likewise */
    const char *name;   /* a name as jobs have */
    const char *spec;   /* a JSON object; compact */
    const char *holder; /* where its program runs: "host pid"; not empty */
    const struct error *closed; /* as in engine_submit */
};

/* Opens a run.
 *
 * out  ret_id     the new job, or the one that this uid opened with this key
 *      ret_again  true in the latter case
 * err  ERR_INVAL a name, a key or a user that no job can have; ERR_LIMIT, and
 *      ERR_STATE for the key, as engine_submit() */
int engine_run_open(struct engine *e, const struct engine_run *run,
                    uint64_t *ret_id, bool *ret_again,
                    struct error *err) MUST_CHECK;

/* Whether uid may send values of the run now, or finish it.
 *
 * err  ERR_NOTFOUND, ERR_DENIED as engine_cancel(), but an administrator has no
 *      more rights than others; ERR_STATE it is no run, or has ended, or is
 *      being cancelled */
int engine_run_check(const struct engine *e, uint64_t id, int64_t uid,
                     struct error *err) MUST_CHECK;

/* The program of the run gave a sign of life, and its progress: values below 0
 * and NAN are not known, and change nothing. Not durable, as a heartbeat. Does
 * nothing for a run that has ended. */
void engine_run_beat(struct engine *e, uint64_t id,
                     const struct engine_beat *beat);

/* The program has ended: COMPLETED for exit code 0, else FAILED with that code.
 * Idempotent: a run that has ended so with this code is no error.
 *
 * in   why  what its program says of a failure; "" or NULL: nothing
 * err  ERR_INVAL exit_code is not 0..255; else as engine_run_check() */
int engine_run_finish(struct engine *e, uint64_t id, int64_t uid,
                      int32_t exit_code, const char *why,
                      struct error *err) MUST_CHECK;

#endif
