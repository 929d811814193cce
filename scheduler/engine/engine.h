/* engine.h - the controller without its process: jobs in, wishes carried out.
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
 * Starting a job takes two batches: INTENT becomes durable before the
 * allocator is asked, its answer is appended after. On creation the engine
 * replays the store and asks the allocator again for every live attempt.
 *
 * Requests (submit, cancel, claim, ...) are checked and staged at once, and
 * answered for good only when they are durable: the caller keeps the reply
 * back until engine_durable() has reached the engine_staged() that it read
 * after the call. When a step fails in (2), everything staged since the last
 * good batch is undone in memory, as if never asked, and engine_undone()
 * grows: the caller answers those requests with the step's error.
 */
#ifndef MGPU_SCHEDULER_ENGINE_H
#define MGPU_SCHEDULER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/store.h"
#include "jobs/base/clock.h"
#include "scheduler/engine/job.h"
#include "scheduler/policy/policy.h"
#include "slurm/alloc.h"

/* What one may have at once; 0: as much as there is. */
struct engine_limits {
    int32_t gpus_per_user, gpus_per_account;
    int32_t running_per_user, running_per_account; /* jobs that hold devices,
                                                      or wait for them in the
                                                      allocator */
};

/* What somebody took out of use, and the words for it. */
struct engine_drained {
    char node[ALLOC_NODE_NAME_CAP], why[96];
};

struct engine_conf { /* borrowed strings outlive the engine */
    const char *cluster;
    const char *jobs_dir; /* absolute; attempts live in <jobs_dir>/<id>/<k> */
    /* Where the jobs live that are submitted from now on, "%u" being their
     * user's name; kept with each, whatever this will be. NULL: jobs_dir,
     * which may move with all that is in it. */
    const char *user_jobs_dir;
    const char *worker; /* mgpu-worker, absolute */
    const char *url;    /* where workers report: "unix:/run/..." */
    double heartbeat_s; /* workers are told to beat this often */
    double node_lost_s; /* no beat for this long: the attempt is STALLED */
    /* So many times what an iteration takes without one, and at least so long:
     * the attempt is STALLED, too. factor 0: never. For specs that leave it
     * open. */
    double stall_factor, stall_min_s;
    double reconcile_s;  /* UNKNOWN for this long: ask the allocator again */
    double kill_grace_s; /* SIGTERM to SIGKILL, when the spec has no own */
    /* For what a spec leaves open. Read when an attempt is planned and asked
     * for, so queued jobs follow a change; `exclusive` adds to the spec's. */
    struct alloc_where where;
    int64_t memory_per_gpu_bytes; /* 0: as where.memory_bytes says */
    /* Of each GPU of a type, "h100" to "80G"; for nodes that do not say it
     * themselves. NULL: none. Borrowed. */
    const struct spec_map *gpu_memory;
    int32_t max_jobs_per_user; /* queued or live; 0: no limit */
    int32_t
        max_ended; /* jobs that stay in memory; 0: all. See engine_recall() */
    /* So many jobs that wait for the same nodes may be asked for before they
     * fit, see submit_ahead.c; 0: none. For an allocator that has others'
     * jobs, too. */
    int32_t submit_ahead;
    struct engine_limits limits;
    struct policy_preempt preempt; /* its grace: the most that a job gets */
    /* Nodes [n_drained] on which nothing new is to start. */
    const struct engine_drained *drained;
    size_t n_drained;
    const int64_t *admins; /* uids [n_admins], besides 0: engine_may() */
    size_t n_admins;
    bool serves_one; /* whoever speaks to it is root or the one whose it is */
};

/* What is derived from a secret instead of stored. The same question always
 * has the same answer, in later lives of the daemon too, and nobody else can
 * tell it. */
enum engine_secret {
    SECRET_TOKEN, /* an attempt's: who shows it is its worker */
    SECRET_MARK,  /* its first 16 digits end the tag of an attempt */
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
    /* Called by engine_create() for each event of a job as it is replayed, as
     * engine_on_event()'s callback was once; NULL: nobody asks. */
    void (*replayed)(void *arg, const struct store_event *event,
                     const struct job *job);
    void *replayed_arg;
    /* Whether the job, which has ended, may be archived: nothing is to be done
     * about its events any more. NULL: it may. */
    bool (*may_leave)(void *arg, const struct job *job);
    void *leave_arg;
    /* Of an attempt that makes no progress the rank that is behind, in words
     * that follow others; "" when none is. NULL: nobody knows. */
    void (*lags)(void *arg, const struct job *job, char *ret, size_t cap);
    void *lags_arg;
};

struct engine;

/* Replays the store. The caller owns *ret and ends it with engine_destroy,
 * which ends no attempt. */
int engine_create(const struct engine_parts *parts, struct engine **ret,
                  struct error *err) MUST_CHECK;
void engine_destroy(struct engine *e); /* NULL is fine */

/* err  of the store: everything staged was undone, the tickets say so; of
 *      the allocator or the policy: told after all else was done */
int engine_step(struct engine *e, struct error *err) MUST_CHECK;

/* The step in parts, for a caller that does other things while the disk
 * works: begin; as long as there is a batch, have the store append it, and end
 * with the outcome.
 *
 * A batch belongs to the store until the end, which another thread may serve.
 * Meanwhile everything may be asked and read, and no other step begins. What
 * is asked sees what the batch under way says and gathers for the next one;
 * if the batch fails, it is undone with it. Of what is read, a job may have
 * changes that are not durable yet: who asks next is measured by them, and
 * who asks what is so goes by engine_settled(). When they are undone,
 * engine_on_wait()'s callback is told of the job. The allocator is asked for
 * nothing that is not durable.
 *
 * in   why  NULL: the batch is durable; else why it is not
 * out  ret_batch  NULL: the step is over, as it is after an error
 * err  as engine_step() */
int engine_step_begin(struct engine *e, struct store_batch **ret_batch,
                      struct error *err) MUST_CHECK;
int engine_step_end(struct engine *e, const struct error *why,
                    struct store_batch **ret_batch,
                    struct error *err) MUST_CHECK;

/* When step() next has something to do, seconds on the engine's clock;
 * INFINITY if only an outside event can wake it. */
double engine_next_s(const struct engine *e);

uint64_t engine_staged(const struct engine *e);
uint64_t engine_durable(const struct engine *e);
uint64_t engine_undone(const struct engine *e); /* tickets up to this, not
                                                   durable, were undone */

/* Of the last event that engine_create() replayed. */
uint64_t engine_last_seq(const struct engine *e);
/* Of the last job; 0: there was none. */
uint64_t engine_last_id(const struct engine *e);
/* The next job gets this id, or a later one. */
void engine_skip_to(struct engine *e, uint64_t id);
/* How many jobs engine_create() has set apart, HELD_CORRUPT or ended, because
 * events of theirs cannot be read.
 * out  ret_stray  events of no job that there could be */
size_t engine_corrupt(const struct engine *e, size_t *ret_stray);
/* Whether the job's submit is durable. */
bool engine_is_durable(const struct engine *e, const struct job *job);
/* The job as durable events have made it, for whoever may take its state for
 * a fact; NULL while its submit is not durable. Good until the next step. */
const struct job *engine_settled(const struct engine *e, const struct job *job);

/* The process stood still until now, stopped or without a core, and heard
 * nobody meanwhile: silence is counted anew, as at a start. */
void engine_was_away(struct engine *e);
/* Lets running attempts live on but starts nothing new, and tells those who
 * wait why; NULL: it starts jobs again. */
void engine_drain(struct engine *e, const char *why);
/* engine_conf.drained has changed. What waits in the allocator for devices is
 * taken back when a node was added: it could be started there. */
void engine_drained_changed(struct engine *e, bool is_more);
/* GPUs of the node that have failed (alloc_node.gpus_drained) are used again,
 * until they fail again. False: there are none. */
bool engine_mend(struct engine *e, const char *node);
int engine_set_policy(struct engine *e, const struct policy *p,
                      struct error *err) MUST_CHECK;

/* ---- requests -------------------------------------------------------------
 */
/* A specification that was read: most of the work of a submit, and no business
 * of the engine's state, so any thread may do it beforehand.
 *
 * in   spec  resolved JSON, as spec_dump() writes it
 * err  ERR_INVAL the spec is not valid
 * own  *ret: engine_read_destroy(), NULL is fine */
struct engine_read;
int engine_read(const char *spec, struct engine_read **ret,
                struct error *err) MUST_CHECK;
void engine_read_destroy(struct engine_read *r);

struct engine_submit;
struct engine_sweep;
/* Writes the events with which the readings of a submit will be entered, as
 * far as they can be known: the other work that any thread may do beforehand,
 * and else the submit does. A submit with these drafts costs the engine some
 * microseconds for each job.
 *
 * in   req, sweep  as of the submit, which has to say the same, all with a
 *      `read`; sweep NULL: it is one job
 *      kill_grace_s  as engine_conf's
 *      wall_s  now, for what is to begin after a while
 * err  ERR_INVAL the user or the key is not valid UTF-8; ERR_NOMEM. What was
 *      read is good for a submit no more */
int engine_draft(const struct engine_submit *req,
                 const struct engine_sweep *sweep, double kill_grace_s,
                 double wall_s, struct error *err) MUST_CHECK;

/* These archived jobs are about to be removed from the store: until the next
 * call nobody recalls them (ERR_BUSY). ids[n] is borrowed that long; none of
 * them is in memory. */
void engine_bar(struct engine *e, const uint64_t *ids, size_t n);
/* They were: so many, by state. */
void engine_removed(struct engine *e, const uint64_t n[JOB_STATE_N]);

struct engine_submit {
    int64_t uid;
    const char *user;
    const char *key;          /* idempotency key, 1..64 characters */
    const char *digest;       /* of what was asked for under the key, at most 32
                                 characters; NULL: it is not compared */
    const char *spec;         /* resolved JSON; not looked at with a `read` */
    struct engine_read *read; /* or NULL; good for one submit, which empties
                                 it, and still the caller's to destroy */
    bool hold;
    const struct error *closed; /* why no new job is taken; NULL: it is */
};

/* out  ret_id  the new job, or the one that this uid submitted with this key
 *      ret_again  true in the latter case; may be NULL
 * err  ERR_INVAL the spec is not valid, ERR_LIMIT max_jobs_per_user,
 *      ERR_STATE the key is that of a job with another digest,
 *      ERR_INVAL "can never fit" when no node shape can ever hold it and its
 *      spec does not force it (policy.force_queue), or
 *      the user's name cannot stand in a path; it is to wait for a job that
 *      is not there, or that its user may not see; as `closed`, unless the key
 *      is known */
int engine_submit(struct engine *e, const struct engine_submit *req,
                  uint64_t *ret_id, bool *ret_again,
                  struct error *err) MUST_CHECK;

/* A sweep: n jobs, as one request with one key. All of them or none; their
 * ids are in a row from *ret_id, which is the sweep's as well.
 *
 * in   req  its spec is not read
 * err  as engine_submit(), and says which task; ERR_INVAL n < 1 */
struct engine_task {
    const char *spec;         /* resolved JSON; or NULL with a `read` */
    const char *vary;         /* a JSON object of texts */
    struct engine_read *read; /* or NULL; as in struct engine_submit */
};
struct engine_sweep {
    const struct engine_task *tasks;
    size_t n;
    int32_t max_parallel; /* 0: any number */
    bool stop_on_fail;    /* cancel those that wait when one has failed */
};
int engine_submit_sweep(struct engine *e, const struct engine_submit *req,
                        const struct engine_sweep *sweep, uint64_t *ret_id,
                        bool *ret_again, struct error *err) MUST_CHECK;

/* What would come of a submit. */
struct engine_trial {
    const struct job *first; /* the job, or the first task of the sweep */
    const struct job *waits; /* the first that would not start; NULL: none */
    size_t n, n_tried;       /* jobs, and of these the first, which were tried:
                                the others were only checked */
    size_t n_start;          /* of n_tried, that would start at once */
    size_t n_never;          /* that nothing there can hold; they wait */
    /* Where the first of these would: so many GPUs on each of the nodes at[],
     * which engine_node() has; n_start 0: nothing of it. */
    int32_t nodes, gpus_per_node;
    const int32_t *at;    /* [nodes] */
    const char *gpu_type; /* that would be asked for; "": its spec's, or any */
    uint64_t alike; /* the newest job of its user's that is as fast on the same
                       devices; 0: there is none among the last ten thousand */
};
/* Checks what a submit checks, plans with the jobs in the queue, tells what
 * comes of it, and is as if nothing had been asked. During tell() the jobs are
 * there to be read as if they had been submitted, and in no other way.
 *
 * in   req    its key and digest are not read
 *      sweep  NULL: one job
 * err  as engine_submit(), but for its key; of tell() */
int engine_try(struct engine *e, const struct engine_submit *req,
               const struct engine_sweep *sweep,
               int (*tell)(void *arg, const struct engine_trial *t,
                           struct error *err),
               void *arg, struct error *err) MUST_CHECK;

/* How it stands with what a job waits for. A sweep is over when all of its
 * tasks are, and has COMPLETED when all of them have.
 *
 * out  ret  the job that decides it: of a sweep the first task that failed or
 *           has not ended; NULL: it is not there
 */
enum depend_fate engine_depend_fate(const struct engine *e,
                                    const struct depend *d,
                                    const struct job **ret);
/* The job that people call task `number` of the sweep; NULL: there is none. */
const struct job *engine_task(const struct engine *e, uint64_t sweep,
                              uint64_t number);
/* The first of a sweep, whose id is its own; NULL: there is no such sweep. */
const struct job *engine_sweep(const struct engine *e, uint64_t sweep);

/* Whether uid may see all of the job and change it: it is its own, or that of
 * an administrator. */
bool engine_may(const struct engine *e, const struct job *job, int64_t uid);

/* Idempotent: cancelling a job twice is fine.
 * err  ERR_NOTFOUND no such job; ERR_DENIED another user's; ERR_STATE over */
int engine_cancel(struct engine *e, uint64_t id, int64_t uid,
                  struct error *err) MUST_CHECK;
/* Releasing lets a job start without what can never come, and lets jobs held
 * for want of its success wait again; a refused start is tried again.
 * err  as cancel; ERR_DENIED its user releases what an administrator holds */
int engine_hold(struct engine *e, uint64_t id, int64_t uid, bool hold,
                struct error *err) MUST_CHECK;
/* Holds the job as refused if it is queued, else does nothing. */
int engine_refuse(struct engine *e, uint64_t id, const char *why,
                  struct error *err) MUST_CHECK;
/* The attempt that lives is told to stop, has its grace for a checkpoint, and
 * the job is queued again, at no cost to its retries. Idempotent.
 * err  ERR_STATE it has ended, is about to, is being cancelled, or is held */
int engine_requeue(struct engine *e, uint64_t id, int64_t uid,
                   struct error *err) MUST_CHECK;
/* A user's own jobs -50..50, an administrator's any -1000..1000.
 * err  ERR_INVAL out of range, ERR_STATE it has ended */
int engine_prioritise(struct engine *e, uint64_t id, int64_t uid,
                      int32_t priority, struct error *err) MUST_CHECK;
/* Before all others that are queued; an administrator's alone. */
int engine_top(struct engine *e, uint64_t id, int64_t uid,
               struct error *err) MUST_CHECK;
bool engine_is_admin(const struct engine *e, int64_t uid);
/* A signal for every rank of a live job; nothing is recorded. */
int engine_signal(struct engine *e, uint64_t id, int64_t uid, int signo,
                  struct error *err) MUST_CHECK;

/* The same for each task of a sweep for which it means something; where one
 * refuses, the others are done nevertheless.
 * err  ERR_STATE for none, ERR_NOTFOUND no such sweep; the first refusal's,
 *      which the message explains and says for which tasks */
int engine_cancel_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        struct error *err) MUST_CHECK;
int engine_hold_sweep(struct engine *e, uint64_t sweep, int64_t uid, bool hold,
                      struct error *err) MUST_CHECK;
int engine_signal_sweep(struct engine *e, uint64_t sweep, int64_t uid,
                        int signo, struct error *err) MUST_CHECK;

/* A worker's first act. A repeated claim by the same holder is granted.
 * ERR_UNAVAIL, here and below, is where the answer would be ERR_FENCED on
 * account of something that is not durable yet: to be asked again.
 * in   native_id  of the allocation that it runs in, by its own account; "":
 *      not known. When the claim is durable, the allocator hears of it
 * err  ERR_DENIED wrong token, ERR_FENCED another holder has claimed, the
 *      attempt is over, or is not known though the token is right,
 *      ERR_NOTFOUND */
int engine_claim(struct engine *e, uint64_t id, int32_t attempt,
                 const char *token, const char *holder, const char *native_id,
                 struct error *err) MUST_CHECK;

/* Whether the token is that of the attempt, and the attempt not over. Compares
 * in constant time. err ERR_DENIED, ERR_FENCED, ERR_NOTFOUND */
int engine_check_token(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err) MUST_CHECK;
/* The same, and whether it was claimed: ERR_FENCED */
int engine_check_lease(const struct engine *e, uint64_t id, int32_t attempt,
                       const char *token, struct error *err) MUST_CHECK;

struct engine_beat { /* 0 or less, and NAN: it does not tell */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_accuracy;
    int64_t work;   /* anything but the last: something was done since then, an
                       iteration or not */
    bool saves;     /* it is in the middle of a checkpoint */
    double lease_s; /* since the claim, by the worker's own monotonic clock;
                       NAN or 0: it does not say */
};
/* The lease was checked. The first beat with iteration > 0 stages RUN; of a
 * command, which may report no iterations, the first beat at all. */
int engine_beat(struct engine *e, uint64_t id, int32_t attempt,
                const struct engine_beat *told, struct error *err) MUST_CHECK;

/* What the rows of an attempt say that is about to end: beats that nobody has
 * heard. Nothing of it is taken when a beat said more. */
void engine_last_figures(struct engine *e, uint64_t id, int32_t attempt,
                         const struct engine_beat *last);

/* Of all ranks; -1: not known. */
struct engine_report_extra {
    int64_t cpu_ms;   /* time that cores worked for the job */
    int64_t cores_ms; /* and that of all cores which it might use */
    int32_t stopped;  /* 1: a rank was told to stop before its work ended; 0:
                         none was */
};

/* The worker's final word, before it exits: its exit code and one line.
 * in   fault_node  a device of that node has failed, by its account, which is
 *                  why it does; NULL, "": it does not say
 *      extra       NULL: it does not say */
int engine_report(struct engine *e, uint64_t id, int32_t attempt,
                  int32_t exit_code, const char *why, const char *fault_node,
                  const struct engine_report_extra *extra,
                  struct error *err) MUST_CHECK;

/* ---- reading ----------------------------------------------------------------
 */
/* Jobs that ended leave memory when there are more than engine_conf.max_ended;
 * the store's archive has them. One that is asked for by its number comes back
 * for a while, and all of its sweep: afterwards it is in memory if there is
 * such a job at all. It may leave again with the next step, no sooner: what
 * engine_job() has returned stays valid until then.
 * err  of the store; ERR_IO its events cannot be read
 * cost 100 us for a job that has to be read */
int engine_recall(struct engine *e, uint64_t id, struct error *err) MUST_CHECK;
/* Whether the store has archived jobs. */
bool engine_has_past(const struct engine *e);
/* NULL when there is none in memory. Valid until the next call that changes e,
 * but for engine_recall(). */
const struct job *engine_job(const struct engine *e, uint64_t id);
/* Jobs by id, of those in memory: the first with an id > `after`, or NULL. */
const struct job *engine_next_job(const struct engine *e, uint64_t after);
/* The same without most of those that ended before since_s, seconds since
 * 1970; with INFINITY those that live or wait, and few others.
 * cost  8 bytes of memory to look at for each that is left out */
const struct job *engine_next_since(const struct engine *e, uint64_t after,
                                    double since_s);
/* How many jobs are in each state. */
void engine_count(const struct engine *e, uint64_t ret[JOB_STATE_N]);
/* Place among the queued jobs that could start, from 1; 0 when it is none of
 * them: not queued, or waiting for another job. */
int32_t engine_position(struct engine *e, uint64_t id);
/* The i-th node of the last inventory; NULL past its end. Valid until the
 * next call that changes e. */
const struct alloc_node *engine_node(const struct engine *e, size_t i);
/* The last inventory. Valid until the next step; out  *ret_n */
const struct alloc_node *engine_nodes(const struct engine *e, size_t *ret_n);
/* Whether the job may use the i-th of them; in  now  reservations count. */
bool engine_node_fits(const struct engine *e, const struct job *job, size_t i,
                      bool now);
/* What it is, or would be, asked for with. Valid as the job is. */
struct alloc_where engine_where(const struct engine *e, const struct job *job);
/* Whether the i-th node's GPUs have the memory that it asks for each, as far as
 * that is known. */
bool engine_memory_fits(const struct engine *e, const struct job *job,
                        size_t i);
const char *engine_policy_name(const struct engine *e);
const struct policy *engine_policy(const struct engine *e);

/* What the policy would do with a job now. */
struct engine_wish {
    const struct job *job;
    int32_t gpus, nodes; /* QUEUED, > 0 nodes: it would start with these */
    double start_s; /* QUEUED: when it may start, on the engine's clock; NAN */
    bool is_shown;  /* to the policy; others wait for no devices */
    const char *reason; /* "" for who would start */
};
/* Plans without doing anything about it, and whether or not the engine is
 * draining: each() is called for those that live, then for those that are
 * queued in the order of the plan, then for those that the policy is not shown.
 * err  ERR_UNAVAIL there is no inventory; of the policy */
int engine_explain(struct engine *e,
                   void (*each)(void *arg, const struct engine_wish *w),
                   void *arg, struct error *err) MUST_CHECK;
/* One change of a job's request. */
struct engine_change {
    int32_t gpus, nodes; /* it would start with these; nodes 0: it would not */
    double limit_s;      /* of the change of the time limit */
    char partition[64];  /* of that of the partition */
};
struct engine_suppose {
    /* The most GPUs below its least, the longest shorter limit, another
     * partition, each alone. */
    struct engine_change gpus, limit, partition;
    /* When it may start if those that run go on as they do, on the engine's
     * clock; NAN not known, or no sooner than by their limits. The middle
     * between the fastest and the slowest that is known of each
     * (runtime_history.h); that far from both, NAN while there is but one
     * figure. */
    double expected_s, within_s;
    int32_t n_running, n_measured; /* that run; that have told their speed and
                                      end before their limits by it */
};
/* With which change the policy would start a queued job at once, were it
 * cancelled and submitted again with it, behind all others of its priority.
 * Nothing for a job that waits for no devices. Changes nothing and asks no
 * allocator: the nodes are those of the last inventory.
 * err  ERR_NOMEM */
int engine_suppose(struct engine *e, const struct job *job,
                   struct engine_suppose *ret, struct error *err) MUST_CHECK;
/* When the first of those that wait may start if each job ends at its time
 * limit, no sooner and no later, and nobody comes before them; on the engine's
 * clock. And when they are expected to: what runs goes on as fast as it does,
 * and a job whose user had others of its name takes as long as these. Changes
 * nothing, and asks no allocator.
 * out  ret    [ENGINE_FORECASTS], by number; who is not there: not known, or
 *             further back than is looked
 * err  ERR_NOMEM
 * cost some milliseconds at most */
enum { ENGINE_FORECASTS = 64 };
struct engine_start {
    uint64_t id;
    double start_s;    /* NAN: not known, behind one without a limit */
    double expected_s; /* NAN: not known, or no sooner than by limits */
};
int engine_forecast(struct engine *e, struct engine_start *ret, size_t *ret_n,
                    struct error *err) MUST_CHECK;
/* How many plans were made: who has taken something down from one learns that
 * there is a newer one. */
uint64_t engine_plans(const struct engine *e);
/* What the job's user and account have of their limits; account NULL: none. */
struct engine_use {
    const char *account;
    int32_t user_gpus, user_running, account_gpus, account_running;
};
int engine_use(const struct engine *e, const struct job *job,
               struct engine_use *ret, struct error *err) MUST_CHECK;
/* Why the allocator does not tell what there is, when last asked; NULL: it
 * does. out  ret_since_s  seconds since 1970 */
const char *engine_unavailable(const struct engine *e, double *ret_since_s);

/* Called after each batch for every event in it, durable and folded: this is
 * how watchers are fed and how the daemon learns that an attempt ended. */
void engine_on_event(struct engine *e,
                     void (*fn)(void *arg, const struct store_event *event,
                                const struct job *job),
                     void *arg);

/* Called when an attempt that waits inside the allocator does so for another
 * reason, and when what changed a job is undone. That is no event: watchers
 * learn of it in no other way. */
void engine_on_wait(struct engine *e,
                    void (*fn)(void *arg, const struct job *job), void *arg);

/* Called when an attempt's end is known and before that end is staged: the
 * daemon reads the rest of its spool, so that a job that is seen COMPLETED
 * has all its rows. A failure postpones the end to the next step. It may
 * call engine_report() with the last words that it finds there. */
void engine_on_exit(struct engine *e,
                    int (*fn)(void *arg, const struct job *job,
                              struct error *err),
                    void *arg);

#endif
