/* engine.h - the controller without its process: jobs in, decisions out.
 *
 * mgpu-ctld drives it with a real clock, an allocator and SQLite; mgpu-sim
 * drives the same object code with a virtual clock, the fake allocator and a
 * store in memory. It never sleeps, forks, logs or reads a file.
 *
 * One step, in this order, so that a crash at any point is survivable:
 *   1. collect notes from the allocator
 *   2. append the resulting events, and those staged by the requests below,
 *      to the store in one batch                    (durable from here)
 *   3. fold them into the jobs
 *   4. ask the policy for a plan and check it
 *   5. carry the plan out through the allocator    (every call idempotent)
 * Starting a job takes two batches: INTENT becomes durable before the allocator
 * is asked, its answer is appended after. On creation the engine replays the
 * store and asks the allocator again for every live attempt.
 *
 * The engine checks and stages a request (submit, cancel, claim, ...) at once,
 * but the request counts only when it is durable. The caller holds the reply
 * back until engine_durable() has reached the engine_staged() that it read
 * after the call. When a step fails in (2), the engine undoes everything staged
 * since the last good batch, and engine_rolled_back() grows. The caller then
 * answers those requests with the error of the step.
 */
#ifndef MGPU_SCHEDULER_ENGINE_H
#define MGPU_SCHEDULER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/event_store.h"
#include "jobs/base/clock.h"
#include "scheduler/engine/job.h"
#include "scheduler/policy/policy.h"
#include "slurm/alloc.h"

/* Limits of one user or account; 0: no limit. */
struct engine_limits {
    int32_t gpus_per_user, gpus_per_account;
    int32_t running_per_user, running_per_account; /* jobs with an
                                                      allocation, or pending
                                                      for one */
};

/* A node that an administrator has drained, and the reason. */
struct engine_drained {
    char node[ALLOC_NODE_NAME_CAP], why[96];
};

struct engine_conf { /* borrowed strings outlive the engine */
    const char *cluster;
    const char *jobs_dir; /* absolute; attempts live in <jobs_dir>/<id>/<k> */
    /* Directories of new jobs; "%u" is the user's name. Each job keeps its
     * directory. NULL: jobs_dir, which may be moved with all that is in it. */
    const char *user_jobs_dir;
    const char *worker;             /* mgpu-worker, absolute */
    const char *url;                /* where workers report: "unix:/run/..." */
    double heartbeat_s, run_lost_s; /* of the workers; of runs, see run.h */
    double node_lost_s; /* no beat for this long: the attempt is STALLED */
    /* An attempt is STALLED as well after this multiple of its step time, and
     * at least stall_min_s, without an iteration. factor 0: never. Defaults for
     * specs. */
    double stall_factor, stall_min_s;
    double reconcile_s;  /* UNKNOWN for this long: ask the allocator again */
    double kill_grace_s; /* SIGTERM to SIGKILL, unless the spec says */
    /* Defaults for specs, also of queued jobs; `exclusive` adds to theirs. */
    struct alloc_where where;
    int64_t memory_per_gpu_bytes; /* 0: where.memory_bytes applies */
    /* GPU memory by type, "h100" to "80G", if nodes do not report it; NULL */
    const struct spec_map *gpu_memory;
    int32_t max_jobs_per_user; /* queued or live; 0: no limit */
    int32_t max_ended;         /* ended jobs in memory; 0: all */
    int32_t submit_ahead;  /* jobs per node set, see submit_ahead.c; 0: none */
    double limit_margin_s; /* the cluster's limit is so much longer */
    double resize_patience_s; /* see resize_patience.c; 0: never */
    struct engine_limits limits;
    struct policy_preempt preempt; /* grace_s: upper bound for each job */
    struct policy_goodput goodput;
    const struct conf_fair_share *fair_share; /* borrowed; NULL: none */
    /* [n_drained] nodes on which no new attempt may start. */
    const struct engine_drained *drained;
    size_t n_drained;
    const int64_t *admins; /* uids [n_admins], besides 0: engine_may() */
    size_t n_admins;
    bool serves_one; /* every client is root or the owner of all jobs */
};

/* Values that are derived from a secret instead of stored. An answer is always
 * the same, also after a restart, and nobody else can compute it. */
enum engine_secret {
    SECRET_TOKEN, /* of an attempt: whoever presents it is its worker */
    SECRET_MARK,  /* its first 16 digits end an attempt's tag */
};
enum { ENGINE_SECRET_CAP = 65 }; /* hexadecimal digits and a NUL */

struct job;
struct engine_parts { /* all borrowed, all outlive the engine */
    const struct clock *clock;
    const struct policy *policy;
    struct alloc *alloc;
    struct store *store;
    const struct engine_conf *conf;
    int (*secret_of)(void *arg, enum engine_secret what, uint64_t job,
                     int32_t attempt, char ret[ENGINE_SECRET_CAP],
                     struct error *err);
    void *secret_arg;
    /* engine_create() calls it for each event that it replays, as it did the
     * callback of engine_on_event() before; NULL: no call. */
    void (*replayed)(void *arg, const struct store_event *event,
                     const struct job *job);
    void *replayed_arg;
    /* Whether the ended job may be archived: all work on its events is done.
     * NULL: always. */
    bool (*may_leave)(void *arg, const struct job *job);
    void *leave_arg;
    /* Names the straggler of an attempt without progress, as a text to append;
     * "" if there is none. NULL: unknown. */
    void (*lags)(void *arg, const struct job *job, char *ret, size_t cap);
    void *lags_arg;
};

struct engine;

/* Replays the store. The caller owns *ret and ends it with engine_destroy(),
 * which does not end any attempt. */
int engine_create(const struct engine_parts *parts, struct engine **ret,
                  struct error *err) MUST_CHECK;
void engine_destroy(struct engine *e); /* NULL is fine */

/* err  from the store: everything staged was undone, the tickets say so; from
 *      the allocator or the policy: returned after the rest of the step was
 *      done */
int engine_step(struct engine *e, struct error *err) MUST_CHECK;

/* The step in parts, for a caller that does other work while the disk writes.
 * Call begin; for each batch that comes out, have the store append it and call
 * end with the outcome.
 *
 * The batch belongs to the store, possibly on another thread, until its end.
 * Meanwhile requests and reads are allowed, but no other step. New requests see
 * the changes of the batch in progress and gather for the next one; if the
 * batch fails, they are undone with it. A job may contain changes that are not
 * durable yet. They count for further requests; a caller that reports facts
 * uses engine_settled(). For an undone job, the engine calls the callback of
 * engine_on_wait(). The allocator is never asked for anything that is not
 * durable.
 *
 * in   why  NULL: the batch is durable; else why it is not
 * out  ret_batch  NULL: the step is over, as it is after an error
 * err  as engine_step() */
int engine_step_begin(struct engine *e, struct store_batch **ret_batch,
                      struct error *err) MUST_CHECK;
int engine_step_end(struct engine *e, const struct error *why,
                    struct store_batch **ret_batch,
                    struct error *err) MUST_CHECK;

/* When step() next has work, in seconds on the engine's clock; INFINITY if only
 * an outside event can cause work. */
double engine_next_s(const struct engine *e);

uint64_t engine_staged(const struct engine *e);
uint64_t engine_durable(const struct engine *e);
/* Tickets up to this that are not durable were rolled back. */
uint64_t engine_rolled_back(const struct engine *e);

/* Sequence number of the last event that engine_create() replayed. */
uint64_t engine_last_seq(const struct engine *e);
/* Id of the last job; 0: there was none. */
uint64_t engine_last_id(const struct engine *e);
/* The next job gets this id, or a later one. */
void engine_skip_to(struct engine *e, uint64_t id);
/* How many jobs engine_create() has set apart, HELD_CORRUPT or ended, because
 * it could not read some of their events.
 * out  ret_stray  events that belong to no possible job */
size_t engine_corrupt(const struct engine *e, size_t *ret_stray);
/* Whether the job's submit is durable. */
bool engine_is_durable(const struct engine *e, const struct job *job);
/* The job as its durable events have made it; NULL while its submit is not
 * durable. For callers that report its state as a fact. Valid until the next
 * step. */
const struct job *engine_settled(const struct engine *e, const struct job *job);

/* The process did not run until now, stopped or without a core. The engine
 * resets the heartbeat deadlines, as at a start. */
void engine_was_away(struct engine *e);
/* Keeps running attempts alive but starts no new ones, and gives pending jobs
 * `why` as their reason. NULL: resumes starts. */
void engine_drain(struct engine *e, const char *why);
/* engine_conf.drained has changed. If a node was added, the engine cancels the
 * attempts that are pending in the allocator: they could start there. */
void engine_drained_changed(struct engine *e, bool is_more);
/* Uses the failed GPUs of the node (alloc_node.gpus_drained) again, until they
 * fail again. False: there are none. */
bool engine_mend(struct engine *e, const char *node);
int engine_set_policy(struct engine *e, const struct policy *p,
                      struct error *err) MUST_CHECK;

/* ---- requests -------------------------------------------------------------
 */
/* A parsed specification: most of the work of a submit, without the state of
 * the engine, so any thread may do it beforehand.
 *
 * in   spec  resolved JSON, as spec_dump() writes it
 * err  ERR_INVAL the spec is not valid
 * own  *ret: engine_read_destroy(), NULL is fine */
struct engine_read;
int engine_read(const char *spec, const char *owner, struct engine_read **ret,
                struct error *err) MUST_CHECK;
void engine_read_destroy(struct engine_read *r);

struct engine_submit;
struct engine_sweep;
/* Writes the submit events of parsed specs, as far as they can be known in
 * advance. Any thread may do this; otherwise the submit does it. With these
 * drafts, a submit costs the engine some microseconds per job.
 *
 * in   req, sweep  as in the submit, all with a `read`; sweep NULL: one job
 *      kill_grace_s  that of engine_conf
 *      wall_s  now, for begin times that are relative
 * err  ERR_INVAL the user or the key is not valid UTF-8; ERR_NOMEM. The parsed
 *      specs can then not be submitted any more */
int engine_draft(const struct engine_submit *req,
                 const struct engine_sweep *sweep, double kill_grace_s,
                 double wall_s, struct error *err) MUST_CHECK;

/* These archived jobs are about to be removed from the store: until the next
 * call, recalling one fails with ERR_BUSY. ids[n] is borrowed; none is in
 * memory. */
void engine_bar(struct engine *e, const uint64_t *ids, size_t n);
/* They were removed: their number by state. */
void engine_removed(struct engine *e, const uint64_t n[JOB_STATE_N]);

struct engine_submit {
    int64_t uid;
    const char *user;
    const char *key;          /* idempotency key, 1..64 characters */
    const char *digest;       /* of the request, at most 32 characters; NULL:
                                 not compared */
    const char *spec;         /* resolved JSON; ignored with a `read` */
    struct engine_read *read; /* or NULL; emptied, still the caller's */
    bool hold;
    const struct error *closed; /* why no job is accepted; NULL: one is */
};

/* out  ret_id  the new job, or the one that this uid submitted with this key
 *      ret_again  true in the latter case; may be NULL
 * err  ERR_INVAL the spec is not valid, ERR_LIMIT max_jobs_per_user, ERR_STATE
 *      the key is that of a job with another digest, ERR_INVAL "can never fit"
 *      if no node can ever hold the job and its spec does not force it
 *      (policy.force_queue), or the user's name cannot be part of a path, or a
 *      dependency does not exist or is not visible to the user; as `closed`,
 *      unless the key is known */
int engine_submit(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, bool *ret_again,
                  struct error *err) MUST_CHECK;

/* A sweep: n jobs as one request with one key. The engine accepts all of them
 * or none. Their ids are consecutive from *ret_id, which is also the id of the
 * sweep.
 *
 * in   req  its spec is ignored
 * err  as engine_submit(), and says which task; ERR_INVAL n < 1 */
struct engine_task {
    const char *spec;         /* resolved JSON; or NULL with a `read` */
    const char *vary;         /* a JSON object with string values */
    struct engine_read *read; /* or NULL; as in struct engine_submit */
};
struct engine_sweep {
    const struct engine_task *tasks;
    size_t n;
    int32_t max_parallel; /* 0: unlimited */
    bool stop_on_fail;    /* cancel the pending tasks when one has failed */
};
int engine_submit_sweep(struct engine *e, const struct engine_submit *req,
                        const struct engine_sweep *sweep, uint64_t *ret_id,
                        bool *ret_again, struct error *err) MUST_CHECK;

/* Result of a dry run. */
struct engine_trial {
    const struct job *first; /* the job, or the first task of the sweep */
    const struct job *waits; /* the first that would not start; NULL: all
                                would */
    size_t n, n_tried;       /* jobs, and the first of them that were
                                planned: the others were only checked */
    size_t n_start;          /* of n_tried, would start at once */
    size_t n_never;          /* no node can ever hold them; they stay pending */
    /* Where the first job that starts would run: so many GPUs on each of the
     * nodes at[], as in engine_node(). Unset if n_start is 0. */
    int32_t nodes, gpus_per_node;
    const int32_t *at;    /* [nodes] */
    const char *gpu_type; /* that would be requested; "": the spec's, or any */
    uint64_t alike; /* newest job of the user with the same speed on the same
                       devices; 0: none in the last 10000 */
};
/* A dry run. Checks what a submit checks, plans with the jobs in the queue,
 * reports the result, and leaves no trace. The jobs can be read during tell().
 *
 * in   req    its key and digest are ignored
 *      sweep  NULL: one job
 * err  as engine_submit(), except for its key; from tell() */
int engine_dry_run(struct engine *e, const struct engine_submit *req,
                   const struct engine_sweep *sweep,
                   int (*tell)(void *arg, const struct engine_trial *t,
                               struct error *err),
                   void *arg, struct error *err) MUST_CHECK;

/* The state of a dependency. A sweep has ended when all of its tasks have, and
 * has COMPLETED when all of them have.
 *
 * out  ret  the job that decides: of a sweep, the first task that failed or has
 *      not ended; NULL: it does not exist */
enum depend_fate engine_depend_fate(const struct engine *e,
                                    const struct depend *d,
                                    const struct job **ret);
/* The task of the sweep with this display number; NULL: there is none. */
const struct job *engine_task(const struct engine *e, uint64_t sweep,
                              uint64_t number);
/* The first task of a sweep, whose id is that of the sweep; NULL: no such
 * sweep. */
const struct job *engine_sweep(const struct engine *e, uint64_t sweep);

/* Whether uid may read all of the job and change it: its owner and
 * administrators may. */
bool engine_may(const struct engine *e, const struct job *job, int64_t uid);

/* Idempotent: a job may be cancelled twice.
 * err  ERR_NOTFOUND no such job; ERR_DENIED another user's; ERR_STATE it has
 *      ended */
int engine_cancel(struct engine *e, uint64_t id, int64_t uid,
                  struct error *err) MUST_CHECK;
/* Releasing a job whose dependency can never be satisfied lets it start without
 * it, and jobs that are held with it are pending again. Releasing a job whose
 * start was refused tries the start again.
 * err  as cancel; ERR_DENIED also if the user releases a job that an
 *      administrator holds */
int engine_hold(struct engine *e, uint64_t id, int64_t uid, bool hold,
                struct error *err) MUST_CHECK;
/* Tells the live attempt to stop, with its grace time for a checkpoint, and
 * queues the job again without counting a retry. Idempotent.
 * err  ERR_STATE it has ended, is about to, is being cancelled, or is held */
int engine_requeue(struct engine *e, uint64_t id, int64_t uid,
                   struct error *err) MUST_CHECK;
/* A user may set -50..50 for own jobs, an administrator -1000..1000 for any.
 * err  ERR_INVAL out of range, ERR_STATE it has ended */
int engine_prioritise(struct engine *e, uint64_t id, int64_t uid,
                      int32_t priority, struct error *err) MUST_CHECK;
/* Moves the job before all other queued jobs; for administrators only. */
int engine_top(struct engine *e, uint64_t id, int64_t uid,
               struct error *err) MUST_CHECK;
bool engine_is_admin(const struct engine *e, int64_t uid);
/* Sends a signal to every rank of a live job; records nothing. */
int engine_signal(struct engine *e, uint64_t id, int64_t uid, int signo,
                  struct error *err) MUST_CHECK;

/* The same for each task of a sweep to which the action applies. If one task
 * refuses, the engine still handles the others.
 * err  ERR_STATE it applies to no task, ERR_NOTFOUND no such sweep; else the
 *      error of the first refusal, with the tasks that refused in the
 *      message */
int engine_cancel_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        struct error *err) MUST_CHECK;
int engine_hold_sweep(struct engine *e, uint64_t sweep, int64_t uid, bool hold,
                      struct error *err) MUST_CHECK;
int engine_signal_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        int signo, struct error *err) MUST_CHECK;

/* The first request of a worker. A repeated claim by the same holder is
 * granted. Here and below, ERR_UNAVAIL replaces ERR_FENCED while the reason is
 * not durable yet: the worker has to ask again.
 * in   native_id  the allocation, as the worker reports it; "": unknown. Once
 *      the claim is durable, the allocator is informed
 * err  ERR_DENIED wrong token, ERR_FENCED another holder has claimed, the
 *      attempt is over, or is unknown though the token is right,
 *      ERR_NOTFOUND */
int engine_claim(struct engine *e, uint64_t id, int32_t attempt,
                 const char *token, const char *holder, const char *native_id,
                 struct error *err) MUST_CHECK;

/* Whether the token is that of the attempt, and the attempt is not over.
 * Compares in constant time. err ERR_DENIED, ERR_FENCED, ERR_NOTFOUND */
int engine_check_token(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err) MUST_CHECK;
/* The same, and whether the attempt was claimed: ERR_FENCED */
int engine_check_lease(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err) MUST_CHECK;

struct engine_beat { /* 0 or less, and NAN: not reported */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_loss, eval_accuracy, tokenised;
    int64_t work; /* changes whenever the worker did something */
    bool saves;   /* it is writing a checkpoint */
    struct engine_failures failures; /* of checkpoints */
    double lease_s; /* since the claim, on the worker's monotonic clock; NAN
                       or 0: not reported */
};
/* The caller has checked the lease. The first heartbeat with iteration > 0
 * stages RUN; for a command, the first heartbeat does. */
int engine_beat(struct engine *e, uint64_t id, int32_t attempt,
                const struct engine_beat *told, struct error *err) MUST_CHECK;

/* Progress that the metric rows of an ending attempt report but no heartbeat
 * has delivered. Ignored if a heartbeat reported more. */
void engine_last_figures(struct engine *e, uint64_t id, int32_t attempt,
                         const struct engine_beat *last);

/* The worker's final report, before it exits: its exit code and one line.
 * in   fault_node  the node on which a device failed, if the worker reports
 *      that as the cause; NULL, "": not reported
 *      extra       NULL: not reported */
int engine_report(struct engine *e, uint64_t id, int32_t attempt,
                  int32_t exit_code, const char *why, const char *fault_node,
                  const struct engine_report_extra *extra,
                  struct error *err) MUST_CHECK;

/* ---- reading ----------------------------------------------------------------
 */
/* Ended jobs leave memory when there are more than engine_conf.max_ended; the
 * archive in the store keeps them. engine_recall() reloads a job, with all of
 * its sweep, for a while: then it is in memory if such a job exists. The next
 * step may evict it again; until then what engine_job() has returned is valid.
 * err  from the store; ERR_IO its events cannot be read
 * cost 100 us for a job that has to be read */
int engine_recall(struct engine *e, uint64_t id, struct error *err) MUST_CHECK;
/* Whether the store has archived jobs. */
bool engine_has_past(const struct engine *e);
/* NULL: no such job in memory. Valid until the next call that changes e, except
 * engine_recall(). */
const struct job *engine_job(const struct engine *e, uint64_t id);
/* Iterates over the jobs in memory by id: the first above `after`, or NULL. */
const struct job *engine_next_job(const struct engine *e, uint64_t after);
/* The same, but skips most jobs that ended before since_s, seconds since 1970;
 * INFINITY: that are neither live nor pending. cost 8 bytes to read for each */
const struct job *engine_next_since(const struct engine *e, uint64_t after,
                                    double since_s);
/* The live ones alone, which are few. */
const struct job *engine_next_live(const struct engine *e, uint64_t after);
/* The number of jobs in each state. */
void engine_count(const struct engine *e, uint64_t ret[JOB_STATE_N]);
/* Position among the queued jobs that could start and those pending in the
 * allocator, from 1; 0: none, as behind a dependency. */
int32_t engine_queue_position(struct engine *e, uint64_t id);
/* The i-th node of the last inventory; NULL past its end. Valid until the next
 * call that changes e. */
const struct alloc_node *engine_node(const struct engine *e, size_t i);
/* The last inventory. Valid until the next step; out  *ret_n */
const struct alloc_node *engine_nodes(const struct engine *e, size_t *ret_n);
/* Whether the job may use the i-th of them; in now honour reservations. */
bool engine_node_fits(const struct engine *e, const struct job *job, size_t i,
                      bool now);
/* The allocation request of the job, now or when it starts. Valid as long as
 * the job. */
struct alloc_where engine_where(const struct engine *e, const struct job *job);
/* Whether the GPUs of the i-th node have the memory per GPU that the job
 * requests, as far as that is known. */
bool engine_memory_fits(const struct engine *e, const struct job *job,
                        size_t i);
const char *engine_policy_name(const struct engine *e);
const struct policy *engine_policy(const struct engine *e);

/* What the policy would do with a job now. */
struct engine_decision {
    const struct job *job;
    int32_t gpus, nodes; /* QUEUED, > 0 nodes: it would start with these */
    double start_s; /* QUEUED: estimated start, on the engine's clock; NAN */
    bool is_shown;  /* the policy considers it; other jobs do not wait for
                       devices */
    const char *reason; /* "" if it would start */
};
/* Makes a plan without carrying it out, also while draining. Calls each() for
 * the live jobs, the queued jobs in the order of the plan, then those that the
 * policy does not see.
 * err  ERR_UNAVAIL there is no inventory; from the policy */
int engine_explain(struct engine *e,
                   void (*each)(void *arg, const struct engine_decision *w),
                   void *arg, struct error *err) MUST_CHECK;
/* Start estimates of the first pending jobs, on the engine's clock: the worst
 * case, if each job runs to its time limit and no later job overtakes; and the
 * expected start, if running jobs keep their speed and a job whose user ran
 * others of its name takes as long as those. Changes nothing and does not ask
 * the allocator.
 * out  ret    [ENGINE_FORECASTS], by id; a job that is missing has no estimate,
 *      or is too far back in the queue
 * err  ERR_NOMEM
 * cost some milliseconds at most */
enum { ENGINE_FORECASTS = 64 };
struct engine_start {
    uint64_t id;
    double start_s;    /* NAN: unknown, behind a job without a limit */
    double expected_s; /* NAN: unknown, or no sooner than by limits */
};
int engine_forecast(struct engine *e, struct engine_start *ret, size_t *ret_n,
                    struct error *err) MUST_CHECK;
/* The number of plans so far, for callers that cache results of a plan. */
uint64_t engine_plans(const struct engine *e);
/* Usage of the job's user and account against their limits; account NULL:
 * none. */
struct engine_use {
    const char *account;
    int32_t user_gpus, user_running, account_gpus, account_running;
};
int engine_use(const struct engine *e, const struct job *job,
               struct engine_use *ret, struct error *err) MUST_CHECK;
/* Why the last inventory request failed; NULL: it succeeded. out ret_since_s
 * seconds since 1970 */
const char *engine_unavailable(const struct engine *e, double *ret_since_s);

/* Called after each batch for every event in it, once the event is durable and
 * folded. The daemon feeds watchers from it and learns that an attempt
 * ended. */
void engine_on_event(struct engine *e,
                     void (*fn)(void *arg, const struct store_event *event,
                                const struct job *job),
                     void *arg);

/* Called when the reason of an attempt that is pending in the allocator
 * changes, and when the change of a job is undone. Neither is an event, so
 * watchers learn it only from this callback. */
void engine_on_wait(struct engine *e,
                    void (*fn)(void *arg, const struct job *job), void *arg);

/* Called when the end of an attempt is known, before it is staged. The daemon
 * reads the rest of the spool, so that a COMPLETED job has all its rows. A
 * failure postpones the end to the next step. The callback may call
 * engine_report() with the final report in the spool. */
void engine_on_exit(struct engine *e,
                    int (*fn)(void *arg, const struct job *job,
                              struct error *err),
                    void *arg);

#endif
