/* sweep.c - sweeps: several jobs as one request, and requests for all tasks.
 *
 * A task is a job like any other. Its submit event says to which sweep it
 * belongs, with everything that the rules below need, so they hold after a
 * replay and no event of their own is needed. The ids of a sweep are
 * consecutive, and the first one is the id of the sweep.
 *
 * max_parallel is in sweep_cap.c. stop_on_fail looks at states in the step in
 * which a task ends: its end and the ends of the other tasks are one batch.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/requests/requests.h"

/* ---- submit --------------------------------------------------------------
 */
/* Checks all tasks before one is entered: a bad task is found while nothing is
 * staged. */
static int prepare(struct engine *e, const struct engine_submit *req,
                   const struct engine_sweep *sweep, struct engine_read **all,
                   struct error *err)
{
    struct fit_memo fit = {.next = 0};
    struct prepare_memo memo = {.fit = &fit};

    for (size_t i = 0; i < sweep->n; i++) {
        const struct engine_task *t = &sweep->tasks[i];
        all[i] = t->read;
        if ((!all[i] && engine_read(t->spec, NULL, &all[i], err) < 0) ||
            eng_prepare_task(e, req, sweep, i, all[i], &memo, err) < 0)
            return error_wrap(err, "task %" PRId32 " %.120s",
                              eng_task_number(t->vary, (int32_t)i), t->vary);
    }
    return 0;
}

static int enter_all(struct engine *e, const struct engine_submit *req,
                     struct engine_read **all, size_t n, uint64_t *ret_id,
                     struct error *err)
{
    size_t n_events = e->n_events;
    uint64_t first = e->last_id + 1;
    struct job_record *rec;

    for (size_t i = 0; i < n; i++) {
        int rc = eng_enter(e, req, all[i], first, &rec, err);
        if (rc == 0 && req->hold)
            rc = eng_stage(e, rec, EV_HOLD, req->uid, NULL, err);
        if (rc < 0) {
            eng_stage_undo(e, n_events);
            return -1;
        }
    }
    *ret_id = first;
    return 0;
}

int eng_check_sweep(const struct engine_sweep *sweep, struct error *err)
{
    return sweep->n >= 1 && sweep->n <= SPEC_TASKS_MAX
               ? 0
               : error_set(err, ERR_INVAL, "a sweep of %zu jobs; 1..%d",
                           sweep->n, SPEC_TASKS_MAX);
}

int eng_enter_sweep(struct engine *e, const struct engine_submit *req,
                    const struct engine_sweep *sweep, size_t most,
                    uint64_t *ret_id, size_t *ret_never, struct error *err)
{
    size_t n = sweep->n < most ? sweep->n : most;
    struct engine_read **all = calloc(sweep->n, sizeof(struct engine_read *));
    if (!all)
        return error_set(err, ERR_NOMEM, "out of memory");
    int rc = prepare(e, req, sweep, all, err);
    for (size_t i = n; rc == 0 && i < sweep->n; i++)
        *ret_never += all[i]->rec->job.force_queue &&
                      eng_feasibility_check(e, &all[i]->rec->job, NULL) < 0;
    if (rc == 0)
        rc = enter_all(e, req, all, n, ret_id, err);
    for (size_t i = 0; i < sweep->n; i++)
        if (all[i] != sweep->tasks[i].read)
            engine_read_destroy(all[i]);
    free(all);
    return rc;
}

int engine_submit_sweep(struct engine *e, const struct engine_submit *req,
                        const struct engine_sweep *sweep, uint64_t *ret_id,
                        bool *ret_again, struct error *err)
{
    bool again;
    size_t n_never = 0; /* all tasks are entered */

    if (eng_check_sweep(sweep, err) < 0 ||
        eng_check_submit(e, req, sweep->n, ret_id, &again, err) < 0)
        return -1;
    if (ret_again)
        *ret_again = again;
    return again ? 0
                 : eng_enter_sweep(e, req, sweep, sweep->n, ret_id, &n_never,
                                   err);
}

/* ---- all of a sweep --------------------------------------------------------
 */
/* An action on one task: 1 done, 0 nothing to do, -1 failed. */
typedef int act_f(struct engine *e, struct job_record *rec, int64_t uid,
                  int how, struct error *err);

/* Tasks for which the action failed, as "7_3, 7_5". */
struct refused {
    char names[120];
    size_t n;
    struct error first;
};

static void refuse(struct refused *r, uint64_t sweep, int32_t number,
                   const struct error *why)
{
    const size_t len = strlen(r->names);

    if (r->n++ == 0)
        r->first = *why;
    if (len < sizeof(r->names) - 50)
        (void)snprintf(r->names + len, sizeof(r->names) - len,
                       "%s%" PRIu64 "_%" PRId32, len > 0 ? ", " : "", sweep,
                       number);
    else if (r->names[len - 1] != '.')
        (void)snprintf(r->names + len, sizeof(r->names) - len, ", ...");
}

static int32_t number_at(const struct engine *e, uint64_t sweep, int32_t task)
{
    const struct job_record *rec = eng_find(e, sweep + (uint64_t)task);
    return rec ? rec->job.number : task;
}

/* A failure for one task does not stop the others. */
static int for_all(struct engine *e, uint64_t sweep, int64_t uid, act_f *act,
                   int how, const char *what, struct error *err)
{
    const struct job *job = engine_sweep(e, sweep);
    int32_t n = job ? job->n_tasks : 0, did = 0;
    struct refused not = {.n = 0};

    if (!job)
        return error_set(err, ERR_NOTFOUND, "no sweep %" PRIu64, sweep);
    for (int32_t i = 0; i < n; i++) {
        struct error why = ERROR_INIT;
        struct job_record *rec = eng_mine(e, sweep + (uint64_t)i, uid, &why);
        int rc = rec ? act(e, rec, uid, how, &why) : -1;
        if (rc < 0)
            refuse(&not, sweep, number_at(e, sweep, i), &why);
        did += rc > 0;
    }
    if (not .n > 0 && did == 0)
        return error_set(err, not .first.code, "%s", not .first.msg);
    if (not .n > 0)
        return error_set(err, not .first.code,
                         "%" PRId32 " of sweep %" PRIu64
                         " %s, but not %s: %.80s",
                         did, sweep, what, not .names, not .first.msg);
    if (did == 0)
        return error_set(err, ERR_STATE,
                         "sweep %" PRIu64 " has no job that could be %s", sweep,
                         what);
    return 0;
}

static int cancel_one(struct engine *e, struct job_record *rec, int64_t uid,
                      int how, struct error *err)
{
    (void)how;
    if (rec->job.state == JOB_CANCELLED || rec->job.cancel_asked)
        return 1; /* repeated cancels are allowed */
    if (job_state_is_final(rec->job.state))
        return 0;
    return eng_stage(e, rec, EV_CANCEL, uid, NULL, err) < 0 ? -1 : 1;
}

static int hold_one(struct engine *e, struct job_record *rec, int64_t uid,
                    int how, struct error *err)
{
    if (rec->job.state != JOB_QUEUED && rec->job.state != JOB_HELD)
        return 0;
    return eng_hold_one(e, rec, uid, how != 0, err) < 0 ? -1 : 1;
}

static int signal_one(struct engine *e, struct job_record *rec, int64_t uid,
                      int how, struct error *err)
{
    (void)uid;
    if (!job_state_is_live(rec->job.state))
        return 0;
    struct alloc *a = e->parts.alloc;
    return a->ops->signal(a, rec->job.id, rec->job.attempt, how, err) < 0 ? -1
                                                                          : 1;
}

int engine_cancel_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        struct error *err)
{
    return for_all(e, sweep, uid, cancel_one, 0, "cancelled", err);
}

int engine_hold_sweep(struct engine *e, uint64_t sweep, int64_t uid, bool hold,
                      struct error *err)
{
    return for_all(e, sweep, uid, hold_one, hold, hold ? "held" : "released",
                   err);
}

int engine_signal_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        int signo, struct error *err)
{
    return for_all(e, sweep, uid, signal_one, signo, "sent a signal", err);
}

/* ---- stop_on_fail --------------------------------------------------------
 */
/* The display number of the first failed task of a sweep; -1: none. */
static int32_t failed_task(const struct engine *e, const struct job *of)
{
    for (int32_t i = 0; i < of->n_tasks; i++) {
        const struct job_record *rec = eng_find(e, of->sweep + (uint64_t)i);
        enum job_state s = rec ? rec->job.state : JOB_NEW;
        if (s == JOB_FAILED || s == JOB_TIMEOUT || s == JOB_NODE_FAIL)
            return rec->job.number;
    }
    return -1;
}

int eng_stop_sweeps(struct engine *e, struct error *err)
{
    uint64_t sweep = 0; /* tasks are adjacent: remember one sweep */
    int32_t failed = -1;

    for (size_t i = 0; e->wants_stop && i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        struct detail d = DETAIL_INIT;
        bool waits = rec->job.state == JOB_QUEUED || rec->job.state == JOB_HELD;
        if (!rec->job.stop_on_fail || !waits)
            continue;
        if (rec->job.sweep != sweep)
            failed = failed_task(e, &rec->job);
        sweep = rec->job.sweep;
        if (failed < 0)
            continue;
        d.exit_code = EXIT_NEVER_RAN;
        (void)snprintf(d.why, sizeof(d.why),
                       "SweepStopped: job %" PRIu64 "_%" PRId32 " failed",
                       sweep, failed);
        if (eng_stage(e, rec, EV_CANCEL, -1, &d, err) < 0)
            return -1;
    }
    e->wants_stop = false;
    return 0;
}
