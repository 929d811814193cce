/* engine_internal.h - the engine's insides, shared by the files of this folder
 * only.
 *
 * Every change of a job is an event, and every event takes one road:
 * eng_stage() writes its detail, saves a copy of the job when it is the
 * first change since the last batch, and folds the text that will be stored.
 * eng_depart() hands over what is staged for the store to append. When that
 * succeeds eng_arrive() makes it count, else eng_undo() puts the copies back.
 * Replay folds the same texts, so what was decided once and what
 * is read back cannot differ.
 */
#ifndef MGPU_SCHEDULER_ENGINE_ENGINE_INTERNAL_H
#define MGPU_SCHEDULER_ENGINE_ENGINE_INTERNAL_H

#include "jobs/spec/spec.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/table/job_lists.h"
#include "scheduler/engine/table/runtime_history.h"

/* Exit codes that are ours, as mgpu-submit --wait returns them. */
enum {
    EXIT_NOT_NOW = 75,   /* of a worker that could not claim */
    EXIT_FENCED = 76,    /* of one that was told to stop */
    EXIT_NO_SECRET = 78, /* of one that could not have what it names */
    EXIT_TIME_LIMIT = 124,
    EXIT_NEVER_RAN = 125, /* or was lost */
    EXIT_SIGNAL = 128,    /* plus the signal */
    EXIT_CANCELLED = 130,
    EXIT_CANCELLED_BY_ADMIN = 143,
};

/* So many iterations' times are kept. */
enum { ENG_STEPS = 9 };

/* Of a sweep's first task: the fate of the whole sweep; see dependencies.c. */
struct fates {
    uint64_t round; /* of looking; 0: not known */
    enum depend_fate fate[DEPEND_N];
    const struct job *of[DEPEND_N]; /* who decides it; NULL: not known */
};

/* A job with what only the engine needs to know. The times below are on the
 * engine's clock; INFINITY is never, NAN not yet. */
struct entry {
    struct job job;

    /* Of each in a plan, as what stands first in struct job. */
    double not_before_s; /* QUEUED: do not start earlier */
    double preempted_s;  /* when job.preempt_s was; -INFINITY: never */
    uint64_t changed;    /* as ticket, of the last event */
    int32_t dropped; /* not live: an attempt that was taken back, and that the
                        allocator has still to be told of; 0: none */
    int32_t n_live;  /* of a sweep's first task: that have devices, in a plan */
    /* QUEUED, for the end of another job; see dependencies.c */
    bool is_waiting;
    bool is_early;   /* its time has not come; see begin_time.c */
    bool is_planned; /* within one plan: it starts; see user_limits.c */
    bool is_saved;   /* a copy is in engine.saved; not yet to the store */
    bool is_ahead;   /* asked for although it did not fit, see submit_ahead.c */
    bool is_held;    /* the attempt waits, and not for devices */

    struct filed filed; /* see job_lists.h */

    struct texts own; /* fixed from the submit on */
    char *dir;        /* the common place; owned. job.dir is what counts */
    struct entry *next_by_key;

    /* Of the current or last attempt, for its row in the store. */
    enum job_state attempt_state;
    int32_t attempt_exit, attempt_signal; /* exit -1: not ended */
    double attempt_end_s;                 /* seconds since 1970 */
    bool is_taken_back; /* the last attempt stood in the cluster's queue, and
                           the engine wants it out of there */

    /* Volatile: known anew after a restart. */
    double start_now_s;  /* when the attempt got its devices */
    double ask_at_s;     /* ask the allocator for the attempt (again) */
    double release_at_s; /* ask it (again) to end the attempt */
    double stalled_s;    /* since when it is STALLED */
    double granted_s;    /* since when a claim is waited for */
    double tell_at_s;    /* tell the allocator (again) who claimed */
    double warn_at_s;    /* have it (again) send the warning */
    double told_s;       /* since when the attempt is to end */
    double spoke_s;      /* its worker, last; seconds since 1970 */
    /* The first iteration of an attempt that a beat told, and when: what one
     * takes on average, with evaluations and all. pace_of 0: none was told. */
    int32_t pace_of;
    int64_t pace_iteration;
    double pace_s;
    /* What its beats told of its progress. */
    int64_t work;   /* as engine_beat.work */
    bool saves;     /* as engine_beat.saves */
    double moved_s; /* when it last made any; NAN: not told yet */
    double step_s;  /* what an iteration takes, the median of: */
    float steps_s[ENG_STEPS];
    uint32_t n_steps;   /* so far; the newest is [(n_steps - 1) % ENG_STEPS] */
    bool is_stuck;      /* STALLED, though its worker beats */
    bool is_heard;      /* the allocator or a worker spoke of the attempt in
                           this life of the daemon */
    bool is_by_wall;    /* start_now_s is what stored wall clock times say,
                           and no worker has said better */
    bool is_from_claim; /* the limit counts from the claim: between the grant
                           and the claim there was no daemon for a while */
    bool is_suspended;  /* its ranks are stopped, since suspended_s */
    double suspended_s;
    const char *give_up; /* static: why the engine ends this attempt */
    bool asked_before;   /* the allocator may know the attempt already */
    bool is_resumed;     /* by another life, if at all: not yet by this one */
    bool is_unasked;     /* by this life, not even in vain */

    bool is_corrupt;    /* set apart, see corrupt_jobs.c */
    bool has_no_submit; /* not even that could be read */
    bool may_live;      /* is_corrupt: its last attempt may still run */

    uint64_t ticket; /* of the submit; 0: it was there before this life */

    /* Ended; see archive.c. */
    struct entry *next_ended;
    int32_t n_tasks_over; /* of the first task of a sweep: that have ended */
    bool is_listed;       /* it may leave; with all of its sweep */
    bool is_archived;     /* the store's archive has it */
    bool is_told;         /* its last event says how far it came */
    uint32_t awaited;     /* by a job of this round of looking, see archive.c */

    struct fates fates; /* good for one pass */
};

/* Ids in a row. NULL instead of a page that has no job. */
enum { PAGE_IDS = 1024 };
struct page {
    struct entry *jobs[PAGE_IDS];
    /* Of many jobs those that are wanted are found without looking at each of
     * them. INFINITY, or when it ended. */
    double ended_s[PAGE_IDS];
    size_t n;
};

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

/* Notes stay here until what they caused is durable. */
struct inbox {
    struct alloc_note *notes; /* owned */
    bool *handled;            /* owned; staged, not yet durable */
    size_t n, cap;
};

/* Kinds of nodes; see node_classes.c. */
struct node_classes {
    int32_t n;
    size_t first[POLICY_CLASSES]; /* a node of each */
    int32_t *of;                  /* owned; by node */
    bool has_partitions, has_default;

    /* By type of GPU, see mixed_gpu_nodes.c. */
    size_t n_types;
    size_t of_type[POLICY_CLASSES]; /* a node of each */
    uint64_t types[POLICY_CLASSES]; /* the classes of each */
    bool has_parts;
};

/* A view of a long queue takes tens of megabytes. The engine keeps them from
 * one view to the next: the page faults of new ones take half of a plan. */
struct eng_buffers {
    struct policy_job *jobs;    /* owned, as the wishes; [cap] */
    struct policy_wish *wishes; /* [cap] */
    size_t cap;
};

struct engine {
    struct engine_parts parts;
    const struct policy *policy;
    bool is_draining;
    char pause_reason[JOB_REASON_CAP]; /* of all that wait meanwhile */

    struct page **pages; /* owned; [n_pages], by (id - 1) / PAGE_IDS, or NULL */
    size_t n_pages;
    uint64_t n_ended[JOB_STATE_N]; /* that left `active`, by state, be they
                                      archived or not */
    uint64_t last_id;
    struct entry **by_key; /* owned; [n_buckets], a power of two */
    size_t n_buckets, n_keys;
    struct entry **active; /* owned; not final, by id; final ones linger
                              until eng_compact() */
    size_t n_active, cap_active;
    /* Ended, and may leave; who ended first comes first. See archive.c. */
    struct entry *ended_first, *ended_last;
    size_t n_listed, n_listed_archived;
    bool has_archive;       /* the store has archived jobs */
    const uint64_t *barred; /* [n_barred], borrowed; see engine_bar() */
    size_t n_barred;
    uint32_t awaited_round; /* see archive.c */
    double leave_at_s;      /* not before: those that are to leave cannot yet */
    struct store_archived *leaving; /* owned, with their lines: that go
                                       with the next batch */
    size_t n_leaving;
    struct files files; /* of `active`, see job_lists.h */

    struct store_event *events; /* owned, with their details; staged */
    size_t n_events, cap_events;
    struct saved *saved; /* owned */
    size_t n_saved, cap_saved;
    struct flight flight;
    enum eng_phase phase;
    struct error later; /* of the allocator or the policy: told when the rest
                           of the step was done */
    uint64_t staged, durable, undone;
    uint64_t last_seq; /* that was replayed */
    size_t n_corrupt;  /* jobs that were set apart */
    size_t n_stray;    /* events of no job that there could be */

    struct inbox inbox;
    struct alloc_node *nodes; /* owned; the last inventory */
    size_t n_nodes, cap_nodes;
    struct node_classes classes;
    struct error unavailable;   /* ERR_UNAVAIL: why there is no newer one */
    double unavailable_since_s; /* seconds since 1970 */
    double listens_s;           /* since when nothing was missed; likewise */
    bool wants_plan;            /* something changed since the last one */
    uint64_t n_plans;
    struct eng_buffers buffers;   /* that the last view had */
    struct eng_runs runs[RUNS_N]; /* see runtime_history.h */
    bool takes_back;      /* with the next plan: what waits in the allocator */
    bool wants_depends;   /* what jobs wait for may have happened */
    uint64_t fates_round; /* see dependencies.c */
    bool wants_stop;      /* a task that ends its sweep may have failed */
    double begin_at_s;    /* when to look at those that are early; INFINITY:
                             there are none */
    double retry_at_s;    /* something failed: step again at this time */
    double look_at_s;   /* and plan at this one: jobs may be told to go then */
    double plan_from_s; /* not before this one, whoever wants a plan */

    void (*on_event)(void *arg, const struct store_event *event,
                     const struct job *job);
    void *event_arg;
    void (*on_wait)(void *arg, const struct job *job);
    void *wait_arg;
    int (*on_exit)(void *arg, const struct job *job, struct error *err);
    void *exit_arg;
};

/* ---- entry.c, lookup.c, job_table.c ------------------------------------ */
struct entry *eng_find(const struct engine *e, uint64_t id); /* or NULL */
struct entry *eng_find_key(const struct engine *e, int64_t uid,
                           const char *key);
/* The list of the key; there are buckets. */
struct entry **eng_bucket(const struct engine *e, int64_t uid, const char *key);
/* The first with an id > `after` that has ended at since_s or later, or not at
 * all. */
struct entry *eng_next(const struct engine *e, uint64_t after, double since_s);
/* Of a job of which nothing is known but its number. */
void eng_entry_init(struct entry *en, uint64_t id);
/* A new entry with its directory, in no engine; NULL: no memory. */
struct entry *eng_entry_new(const char *jobs_dir, uint64_t id);
/* Its directory is the common one, of its id. */
int eng_set_dir(struct entry *en, const char *jobs_dir,
                struct error *err) MUST_CHECK;
void eng_entry_clear(struct entry *en); /* but for the entry itself */
void eng_entry_free(struct entry *en);  /* NULL is fine */
/* It is found by its id, which is nobody else's.
 * err  ERR_NOMEM; it is still the caller's */
int eng_put(struct engine *e, struct entry *en, struct error *err) MUST_CHECK;
/* A new one in every index but by_key. own  it is the engine's, if that is
 * done */
int eng_add(struct engine *e, struct entry *en, struct error *err) MUST_CHECK;
int eng_add_new(struct engine *e, uint64_t id, struct entry **ret,
                struct error *err) MUST_CHECK;
int eng_add_key(struct engine *e, struct entry *en,
                struct error *err) MUST_CHECK;
void eng_remove(struct engine *e, struct entry *en);
/* One that is not active, nor in the list of ended_list.c. */
void eng_forget(struct engine *e, struct entry *en);
/* It has ended, at job.end_s. */
void eng_set_ended(struct engine *e, const struct entry *en);
/* Those that have ended, durably, are not active any more. */
void eng_compact(struct engine *e);
void eng_compact_all(struct engine *e); /* of a replay: none is filed */
void eng_index_clear(struct engine *e);

/* ---- ended_list.c, archive.c --------------------------------------------- */
/* It is durable that the job has ended. */
void eng_list_ended(struct engine *e, struct entry *en);
void eng_append_ended(struct engine *e, struct entry *en); /* this one alone */
/* Whether eng_leave() has something to do, and when. INFINITY: never */
double eng_leave_s(const struct engine *e);
/* No batch is under way: forgets jobs that ended, or has them archived with
 * the next batch. Those that anybody needs stay. */
void eng_leave(struct engine *e);
/* own  takes `jobs`, which are about to be archived, with their lines */
void eng_leaving_free(struct store_archived *jobs, size_t n);
/* Their batch is durable. */
void eng_archived(struct engine *e, const struct store_archived *jobs,
                  size_t n);
/* What the job waits for is in memory. err of the store */
int eng_recall_depends(struct engine *e, const struct job *job,
                       struct error *err) MUST_CHECK;
/* out  ret  the archived job of this key; unchanged: there is none */
int eng_find_past_key(const struct engine *e, int64_t uid, const char *key,
                      uint64_t *ret, struct error *err) MUST_CHECK;
/* The same; 0: there is none, or the store fails. */
uint64_t eng_past_key(const struct engine *e, int64_t uid, const char *key);
/* The job of this key is in memory, if there is one. err of the store */
int eng_recall_key(struct engine *e, int64_t uid, const char *key,
                   struct error *err) MUST_CHECK;

/* ---- engine.c ------------------------------------------------------------ */
/* The first event of a new entry.  err  it cannot be read; ERR_NOMEM */
int eng_fold_submit(struct engine *e, struct entry *en,
                    const struct store_event *ev, struct error *err) MUST_CHECK;

/* ---- fold.c ------------------------------------------------------------ */
/* err  ERR_STATE the table has no such move, ERR_INVAL a bad detail; the
 *      entry is unchanged */
int eng_fold(struct entry *en, const struct store_event *ev,
             struct error *err) MUST_CHECK;
/* What the text of a submit says, of the job whose id en has: all but whose it
 * is, and when. err as eng_fold() */
int eng_take_submit(struct entry *en, const char *text,
                    struct error *err) MUST_CHECK;
/* As eng_fold() of a submit of which that was done. */
int eng_fold_taken(struct entry *en, const struct store_event *ev,
                   struct error *err) MUST_CHECK;

/* ---- corrupt_jobs.c ---------------------------------------------------- */
/* An event that could not be replayed, or of a job that was set apart.
 * in   why  what is wrong with it
 * err  ERR_NOMEM */
int eng_damaged(struct engine *e, const struct store_event *ev,
                const struct error *why, struct error *err) MUST_CHECK;
/* After the replay: what may still run of it is to be ended. */
void eng_resume_damaged(struct entry *en);
/* err  ERR_STATE it is set apart, and nothing but a cancel is possible */
int eng_check_whole(const struct entry *en, struct error *err) MUST_CHECK;
/* Ids are given one after the other, but for steps after a restore. One from
 * far beyond is damaged itself, and would cost as much memory. */
enum { ENG_ID_STEP_MAX = 1 << 22 };
/* Begins the reason of such a job. */
extern const char eng_held_corrupt[];

/* ---- stage.c ----------------------------------------------------------- */
/* in   d  NULL: no detail
 * err  as eng_fold, ERR_NOMEM; nothing is staged */
int eng_stage(struct engine *e, struct entry *en, enum job_event ev,
              int64_t uid, const struct detail *d,
              struct error *err) MUST_CHECK;
/* The submit of a new entry, which says what the text does. own  takes text */
int eng_stage_submit(struct engine *e, struct entry *en, char *text,
                     struct error *err) MUST_CHECK;
/* Why a job waits is no event: it is told at once, and stored with one of
 * the next batches. True when it is another one. */
bool eng_set_reason(struct engine *e, struct entry *en, const char *reason);
/* Takes back what was staged since engine.n_events was n: new jobs and their
 * events, nothing else. */
void eng_unstage(struct engine *e, size_t n);

/* ---- commit.c ---------------------------------------------------------- */
/* What is staged is in e->flight, for the store. err ERR_NOMEM; all that was
 * staged is undone */
int eng_depart(struct engine *e, struct error *err) MUST_CHECK;
/* It is durable; when nothing had left, there was nothing to be stored. */
void eng_arrive(struct engine *e);
/* It is not, and as little is what was staged since: as if neither had been
 * asked for. */
void eng_undo(struct engine *e);
void eng_commit_clear(struct engine *e);

/* ---- submit_prepare.c --------------------------------------------------- */
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

/* ---- requests.c --------------------------------------------------------- */
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

/* ---- sweep.c ------------------------------------------------------------ */
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
/* Tasks beyond their sweep's max_parallel leave the view, with a reason. In
 * the policy's order; returns how many are left. */
size_t eng_cap_sweeps(struct engine *e, struct policy_job *jobs, size_t n);
/* Where a task has failed and the sweep is to stop, stages the end of those
 * that wait. err ERR_NOMEM: to be called again */
int eng_stop_sweeps(struct engine *e, struct error *err) MUST_CHECK;

/* ---- submit_from_spec.c ------------------------------------------------ */
/* What the engine needs from a spec.
 *
 * out  ret's fields from name to where
 * own  ret_own, but its key: the caller frees with texts_clear(). Its spec is
 *      the canonical JSON
 * err  ERR_INVAL the spec is not valid */
int eng_from_spec(const char *spec, const struct engine_conf *conf,
                  struct job *ret, struct texts *ret_own,
                  struct error *err) MUST_CHECK;
/* What the job's allocation is to be asked for with: its own wishes, and the
 * configuration's where it has none. Texts are borrowed.
 * in   gpus_per_node  for the memory; 0 counts as 1 */
struct alloc_where eng_where(const struct engine_conf *conf,
                             const struct job *job, int32_t gpus_per_node);
static inline bool eng_is_exclusive(const struct engine_conf *conf,
                                    const struct job *job)
{
    return job->where.exclusive || conf->where.exclusive;
}
/* Which jobs run at the same speed on the same devices; see workload_class.c.
 * own  *ret: the caller frees */
int eng_class(const struct job_spec *spec, char **ret,
              struct error *err) MUST_CHECK;

/* ---- allocator_notes.c, attempt_end.c, timers.c, dispatch.c -------------- */
int eng_poll(struct engine *e, struct error *err);
void eng_take_notes(struct engine *e);
/* The end of an attempt, as the allocator or the engine itself saw it. */
struct ending {
    enum alloc_note_kind kind; /* EXITED, LOST or REFUSED */
    int32_t exit_code, signal;
    enum alloc_ended_by by;   /* EXITED */
    bool is_forgotten;        /* LOST */
    int64_t cpu_ms, cores_ms; /* EXITED, as of the note */
    int64_t ended_ms;         /* likewise; 0: now, as far as is known */
    const char *why;          /* LOST, REFUSED; EXITED by other */
};
/* err  of the exit hook, or ERR_NOMEM: to be tried again */
int eng_end(struct engine *e, struct entry *en, const struct ending *end,
            struct error *err) MUST_CHECK;

/* ---- dependencies.c ------------------------------------------------------ */
/* err  ERR_INVAL one of those that the job is to wait for is not there, or
 *      not its user's */
int eng_check_depends(struct engine *e, const struct job *job,
                      struct error *err) MUST_CHECK;
/* Whom each queued job still waits for; holds those that wait in vain. */
void eng_depends(struct engine *e);
/* The same for one, after eng_fates_anew(). err  its hold could not be staged
 */
int eng_depends_one(struct engine *e, struct entry *en,
                    struct error *err) MUST_CHECK;
/* A pass begins: nothing is known of the sweeps that are waited for. */
void eng_fates_anew(struct engine *e);

/* ---- begin_time.c -------------------------------------------------------- */
/* Of a new job, and of one that is there after a restart: whether its time has
 * not come. */
void eng_begin_one(struct engine *e, struct entry *en);
/* Lets those begin whose time has come; the others say when it does. */
void eng_begins(struct engine *e);
/* A QUEUED job is in no line, for others have to end, or its time to come. */
bool eng_waits(const struct entry *en);

void eng_timers(struct engine *e);
/* entry.give_up of an attempt that had reported by then, and of one that was
 * STALLED for want of progress: eng_stuck_why() says more. */
extern const char eng_was_done[], eng_was_stuck[];
double eng_timers_next(const struct engine *e, const struct entry *en);

/* ---- stall_detect.c ------------------------------------------------------ */
/* Before the beat is the job's; whether it tells of any progress. */
bool eng_note_progress(struct entry *en, const struct engine_beat *beat,
                       double now_s);
/* Its clock begins anew, where it had begun. */
void eng_moved(struct entry *en, double now_s);
/* When it has made none for too long; INFINITY: it cannot be told. */
double eng_stuck_at(const struct engine *e, const struct entry *en);
void eng_stuck_why(const struct engine *e, const struct entry *en, double now_s,
                   char *ret, size_t cap);

void eng_act(struct engine *e);
/* Every attempt that waits in the allocator is over, at no cost to its job. */
int eng_take_all_back(struct engine *e, const char *why,
                      struct error *err) MUST_CHECK;
/* Of a job that has not ended. err ERR_DENIED to release what an administrator
 * holds; ERR_STATE it is not queued */
int eng_hold_one(struct engine *e, struct entry *en, int64_t uid, bool hold,
                 struct error *err) MUST_CHECK;
/* The attempt is to end; by the second, it has not been told. */
bool eng_is_ending(const struct entry *en);
bool eng_wants_release(const struct entry *en);

/* ---- small things ------------------------------------------------------ */
/* When what may pass is tried again. */
double eng_reconcile_at(const struct engine *e);
static inline double eng_now(const struct engine *e)
{
    return e->parts.clock->now_s(e->parts.clock);
}

static inline double eng_wall(const struct engine *e)
{
    return e->parts.clock->wall_s(e->parts.clock);
}

static inline int eng_secret(const struct engine *e, enum engine_secret what,
                             const struct job *job, char ret[ENGINE_SECRET_CAP],
                             struct error *err)
{
    return e->parts.secret_of(e->parts.secret_arg, what, job->id, job->attempt,
                              ret, err);
}

/* A configured time that 0 switches off. */
static inline double eng_or_never(double s)
{
    return s > 0 ? s : (double)__builtin_inff();
}

#endif
