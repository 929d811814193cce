/* job_record.h - a job together with the private state of the engine. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_JOB_RECORD_H
#define MGPU_SCHEDULER_ENGINE_TABLE_JOB_RECORD_H

#include "jobs/spec/spec.h"
#include "scheduler/engine/engine.h"
#include "scheduler/engine/events/event_codec.h"
#include "scheduler/engine/events/names_kept.h"
#include "scheduler/engine/table/fair_shares.h"
#include "scheduler/engine/table/job_lists.h"

/* Exit codes that are ours, as mgpu-submit --wait returns them. */
enum {
    EXIT_NOT_NOW = 75,   /* of a worker that could not claim */
    EXIT_FENCED = 76,    /* of one that was told to stop */
    EXIT_NO_SECRET = 78, /* of a worker that could not read one of its
                            secrets */
    EXIT_TIME_LIMIT = 124,
    EXIT_NEVER_RAN = 125, /* or the attempt was lost */
    EXIT_SIGNAL = 128,    /* plus the signal */
    EXIT_CANCELLED = 130,
    EXIT_CANCELLED_BY_ADMIN = 143,
};

/* How many step times a record keeps. */
enum { ENG_STEPS = 9 };

/* How many resizes by the policy a record keeps: the most of an hour. */
enum { ENG_RESIZES = 20 };

/* The fate of a whole sweep, kept in its first task; see dependencies.c. */
struct fates {
    uint64_t round; /* the pass that found it; 0: not known */
    enum depend_fate fate[DEPEND_N];
    const struct job *of[DEPEND_N]; /* the task that decides; NULL: not known */
    double met_s[DEPEND_N];         /* when it was met; NAN: it is not */
};

/* A job with its private state in the engine. The times below are on the
 * engine's clock; INFINITY is never, NAN not yet. */
struct job_record {
    struct job job;

    /* A plan reads these for each job, like the first members of struct job. */
    double not_before_s; /* QUEUED: do not start earlier */
    /* Since 1970, NAN not known: when its dependencies were met
     * (dependencies.c), and when its turn in its sweep came (sweep_cap.c). */
    double met_s, turn_s;
    double preempted_s; /* when job.preempt_s was; -INFINITY: never */
    uint64_t changed;   /* ticket of its last event */
    int32_t dropped; /* not live: the attempt that was taken back and that the
                        allocator must still release; 0: none */
    int32_t n_live;  /* first task of a sweep: tasks with devices, in a plan */
    /* QUEUED, and depends on another job; see dependencies.c */
    bool is_waiting;
    bool is_early;   /* its time has not come; see begin_time.c */
    bool is_planned; /* within one plan: it starts; see user_limits.c */
    bool is_saved;   /* a copy is in engine.saved; not yet to the store */
    bool is_ahead;   /* asked for although it did not fit, see submit_ahead.c */
    bool is_held;    /* the attempt waits, and not for devices */
    bool is_over_size; /* likewise, for a limit of their number */

    struct list_places places; /* see job_lists.h */
    struct fair_charge charge; /* see fair_shares.h */

    struct texts own;       /* fixed from the submit on */
    struct name_kept *kept; /* owned; names of updates, the newest first */
    char *dir; /* the common place; owned. job.dir is what counts */
    struct job_record *next_by_key;

    /* Of the current or last attempt, for its row in the store. */
    enum job_state attempt_state;
    int32_t attempt_exit, attempt_signal; /* exit -1: not ended */
    double attempt_end_s;                 /* seconds since 1970 */
    bool is_taken_back; /* the last attempt is pending in the cluster's queue,
                           and the engine cancels it there */

    /* Volatile: set again after a restart. */
    double start_now_s;  /* when the attempt got its devices */
    double ask_at_s;     /* ask the allocator for the attempt (again) */
    double release_at_s; /* ask it (again) to end the attempt */
    double stalled_s;    /* since when it is STALLED */
    double granted_s;    /* since when a claim is waited for */
    double tell_at_s;    /* tell the allocator (again) who claimed */
    double warn_at_s;    /* have it (again) send the warning */
    double limit_at_s;   /* tell the allocator (again) its time limit */
    double end_asked_s;  /* since when the attempt is to end */
    double spoke_s;      /* last message of its worker; seconds since 1970 */
    /* The first iteration that a heartbeat of attempt pace_of reported, and
     * when: the average step time includes evaluations. pace_of 0: none. */
    int32_t pace_of;
    int64_t pace_iteration;
    double pace_s;
    /* Its progress, from its heartbeats. */
    /* As teach.h has them. taught_from: the iteration before the first of
     * attempt taught_of. */
    int32_t taught_of;
    bool has_own_rates; /* as engine_teach_job() has told */
    int64_t taught_from;
    int64_t iterations_expected; /* 0: not told */
    /* When the policy last resized it, the newest at [(n_resizes - 1) %
     * ENG_RESIZES]; on the engine's clock. */
    double resized_s[ENG_RESIZES];
    uint32_t n_resizes;
    double paused_s;    /* the policy's last resize was a pause: when; else
                           -INFINITY */
    int32_t spent_gpus; /* that it had when it first grew beyond its resizes of
                           an hour; 0: it has not */
    int64_t work;       /* as engine_beat.work */
    bool saves;         /* as engine_beat.saves */
    double moved_s;     /* its last progress; NAN: none yet */
    double step_s;      /* step time, the median of: */
    float steps_s[ENG_STEPS];
    uint32_t n_steps;   /* step times so far; the newest is [(n_steps - 1) %
                           ENG_STEPS] */
    bool is_stuck;      /* STALLED, though its worker beats */
    bool is_heard;      /* the allocator or a worker has reported the attempt
                           since the daemon started */
    bool is_by_wall;    /* start_now_s comes from stored wall clock times; no
                           worker has reported a better one */
    bool is_from_claim; /* the limit counts from the claim: between the grant
                           and the claim there was no daemon for a while */
    bool is_suspended;  /* its ranks are stopped, since suspended_s */
    double suspended_s;
    const char *give_up; /* static: why the engine ends this attempt */
    bool asked_before;   /* the allocator may know the attempt already */
    bool is_resumed;     /* the daemon before may have requested it, this one
                            has not yet */
    bool is_unasked;     /* this daemon has not even tried to request it */

    bool is_corrupt;    /* cannot be read, see corrupt_jobs.c */
    bool has_no_submit; /* not even its submit could be read */
    bool may_live;      /* is_corrupt: its last attempt may still run */

    uint64_t ticket; /* of the submit; 0: replayed at the start */

    /* Ended; see archive.c. */
    struct job_record *next_ended;
    int32_t n_tasks_over; /* first task of a sweep: tasks that have ended */
    bool is_listed;       /* in the list of jobs that may leave; with all of
                             its sweep */
    bool is_archived;     /* the store's archive has it */
    bool has_progress;    /* its last event holds its progress */
    uint32_t awaited;     /* round in which an active job depends on it, see
                             archive.c */

    struct fates fates; /* valid within one pass */
};

/* Initializes a job with an id and nothing else. */
void job_record_init(struct job_record *rec, uint64_t id);
/* A new record with its directory, outside the engine; NULL: out of memory. */
struct job_record *job_record_new(const char *jobs_dir, uint64_t id);
/* Sets the common directory, for its id. */
int eng_set_dir(struct job_record *rec, const char *jobs_dir,
                struct error *err) MUST_CHECK;
void job_record_clear(struct job_record *rec); /* all but the record itself */
void job_record_free(struct job_record *rec);  /* NULL is fine */
/* Whether a request of the job for an attempt with this limit names it. A
 * default is left to the cluster's scheduler, which may know a shorter one, and
 * refuse what is named. What is left of it, after a resize, is named. */
bool eng_names_limit(const struct job *job, double limit_s);
/* Whether the attempt must end. */
bool eng_is_ending(const struct job_record *rec);
/* Whether the allocator must still be asked to release it. */
bool eng_wants_release(const struct job_record *rec);
/* Whether a QUEUED job is not to be planned yet: a dependency is open, or its
 * begin time is to come. */
bool eng_waits(const struct job_record *rec);
/* Since when nothing but devices keeps the job from running, since 1970: from
 * its submit on, but not before its begin time, its dependencies, its turn in
 * its sweep, or a release. A job that could not have run has waited for
 * nothing. */
double job_record_eligible_s(const struct job_record *rec);
/* The numbers of GPUs that the job may have: those of its spec, or those that
 * were asked for its next attempt. */
struct gpu_sizes;
struct gpu_sizes eng_sizes(const struct job *job);
/* The same of a resize that is under way; false: there is none. */
bool eng_target(const struct job *job, struct gpu_sizes *ret);
/* The placement of the job's allocation request: its own values, else those of
 * the configuration. Strings are borrowed.
 * in   gpus_per_node  for the memory; 0 counts as 1 */
struct alloc_where eng_where(const struct engine_conf *conf,
                             const struct job *job, int32_t gpus_per_node);
/* Whom the cluster charges, as far as the job's events and the configuration
 * tell: the account that the job names, the configuration's, or the cluster's
 * default. NULL: none. A live or ended attempt keeps its own. Borrowed */
const char *eng_account(const struct engine_conf *conf, const struct job *job);
static inline bool eng_is_exclusive(const struct engine_conf *conf,
                                    const struct job *job)
{
    return job->where.exclusive || conf->where.exclusive;
}

#endif
