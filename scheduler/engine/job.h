/* job.h - a job as the engine knows it, for every reader of jobs.
 *
 * The engine owns each struct job and alone changes it, by folding events.
 */
#ifndef MGPU_SCHEDULER_JOB_H
#define MGPU_SCHEDULER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/spec/dependency.h"
#include "jobs/state.h"
#include "scheduler/engine/worker_words.h"
#include "slurm/alloc.h"

enum {
    JOB_NAME_CAP = 64,
    JOB_REASON_CAP = 160,
    JOB_EXCLUDE_CAP = 256,
    JOB_DIGEST_CAP = 33,
    JOB_OWNER_CAP = 33,
    JOB_ACCOUNT_CAP = 64,
    JOB_CAUSE_CAP = 16
};

/* The kind of a hold: it decides what ends the hold, and who may end it. */
enum job_held {
    HELD_NOT,
    HELD_USER,
    HELD_ADMIN,
    HELD_DEPENDENCY, /* its dependency can never be satisfied */
    HELD_CORRUPT,    /* its events cannot be read; it cannot be released */
    HELD_REFUSED,    /* its start was refused permanently */
};
/* "user", ...; NULL for HELD_NOT */
const char *job_held_name(enum job_held h);

struct job;
enum { JOB_DISPLAY_CAP = 40 };
/* "12", or "123_4" of task 4 of sweep 123; returns out. */
const char *job_display_id(const struct job *job, char out[JOB_DISPLAY_CAP]);

/* A resize: from the request on until the attempt with the new size runs. */
struct job_resize {
    int32_t gpus, nodes; /* size of the next attempt; gpus 0: as the policy
                            chooses; nodes 0: any number */
    int32_t from;        /* GPUs that the job had; 0: it had none yet */
    /* Size that was asked for, of a planned attempt that nobody has claimed
     * yet: if it does not start, the next one gets it. */
    int32_t planned_gpus, planned_nodes;
    /* When the attempt before was told to stop, and when it had ended; NAN: no
     * live attempt was resized. */
    double end_asked_s, ended_s;
    /* Of the attempt that runs: from the word to stop to its end (a
     * checkpoint), from there to new devices (the allocator), and from there to
     * the first iteration; NAN: it is not of a resize. */
    double checkpoint_s, allocator_s, start_s;
    int32_t cost_from; /* GPUs before it */
    /* The old size is requested again, because the new one was not granted; no
     * worker has claimed it since. Such a job goes before others. */
    bool is_back;
    /* The allocator did not grant this number of GPUs, 0: none such. It is not
     * tried before barred_until_s (since 1970), nor are more; if barred_below,
     * nor are fewer. */
    int32_t barred_gpus;
    bool barred_below;
    double barred_s, barred_until_s; /* barred_s: for how long */
};

/* A job as the fold knows it. Times: seconds since 1970, NAN for not yet.
 *
 * The fields that a plan sets on each pending job come first and together: a
 * plan of a long queue is bound by memory latency. */
struct job {
    uint64_t id;
    enum job_state state;
    int32_t priority;
    double start_estimate_s; /* on the engine's clock, NAN unknown; volatile */
    char reason[JOB_REASON_CAP]; /* why it is pending, or why it ended */
    int32_t gpus_min, gpus_max, nodes_min, nodes_max;
    int32_t per_node; /* GPUs on each; 0: any number */
    int32_t parts;    /* the number of GPUs divides it (gpu_sizes.h); 0: any */
    double submit_s;
    double freed_s; /* when it was released last, or max_parallel of its sweep
                       changed; that at most first_claim_s; NAN never */
    double limit_s; /* INFINITY: none */
    /* Of this attempt, or the next of a queued job: less after a resize. */
    double attempt_limit_s;
    bool limit_is_default; /* limit_s is the cluster's, for a job without one */
    double begin_s; /* begin time since 1970; 0: at once. Below 0, of a job
                       that is only parsed: delay after its submit */
    double claim_s; /* of the attempt, see intent_s */
    double preempt_s;
    uint64_t preempted_for; /* job that it was last preempted for; 0: none */
    int64_t uid;
    /* For a task of a sweep. */
    uint64_t sweep; /* id of its first task; ids are consecutive; 0: none */
    int32_t task, n_tasks;     /* task from 0 */
    int32_t number;            /* its display number: task, or its value in
                                  sweep.array; 7 in 12_7 */
    int32_t max_parallel;      /* live tasks at a time; 0: unlimited */
    bool stop_on_fail, is_run; /* is_run: of kind run, see run.h */
    bool cancel_asked, limit_hit, release_asked;
    bool is_warned;       /* the warn_signal was sent */
    bool is_time_80;      /* the time-80 event was staged */
    int32_t saves_failed; /* of this attempt, as far as they are events */
    bool requeue_asked;   /* its attempt ends, and the job is QUEUED again */
    bool is_preempted;    /* by the engine, for preempted_for */
    bool depends_waived;  /* released from its dependencies by hand */
    size_t n_depends;
    int32_t attempt, retries; /* the attempt is the current or last one */
    int32_t gpus, nodes;      /* of the attempt */
    struct job_resize resize;
    struct alloc_where where; /* as in the spec; texts owned by the engine */
    char exclude[JOB_EXCLUDE_CAP]; /* "n1,n2": nodes to avoid */

    char user[32];
    char name[JOB_NAME_CAP];
    const char *kind;              /* static; spec_kind_word(), "run" */
    const char *spec;              /* resolved JSON; owned by the engine */
    const char *key;               /* idempotency key; owned by the engine */
    char digest[JOB_DIGEST_CAP];   /* engine_submit.digest; "": unknown, or a
                                      later task of a sweep */
    char account[JOB_ACCOUNT_CAP]; /* the cluster's default account of its user
                                    * at the submit, or at the last start; "":
                                    * unknown, or another one is named */
    char owner[JOB_OWNER_CAP];     /* drawn at the submit: whose its directories
                                      are; "": of an older job */
    const char *from; /* train.resume_from's directory, or NULL; as dir */
    uint64_t parent;  /* that wrote it, and may be removed; 0: not known */
    char parent_name[JOB_DISPLAY_CAP]; /* "12", "12_3" */
    const char *dir;     /* absolute; its attempts are in <dir>/<attempt>; owned
                            by the engine */
    double grace_s;      /* SIGTERM to SIGKILL */
    int32_t warn_signal; /* sent before the limit; 0: none */
    double warn_before_s; /* by this much */
    int32_t retry_max;
    uint32_t retry_on;                /* bits of enum spec_retry */
    double stall_factor, stall_min_s; /* 0: engine_conf's */
    bool stall_ends;                  /* a stalled attempt is ended */
    double backoff_s, backoff_max_s;
    bool exclude_node;     /* avoid the node where it was lost */
    bool is_preemptible;   /* jobs of higher priority may preempt it */
    bool saves;            /* it writes checkpoints, and keeps its work then */
    uint8_t goal;          /* enum spec_goal */
    double min_efficiency; /* 0: the administrator's */
    bool force_queue;      /* stays pending though no node can ever hold it */
    /* retry_rule.h, one per line; or NULL; owned by the engine */
    const char *rules;
    const char *vary; /* values of this task, JSON; owned by the engine */
    double start_s, end_s;
    double state_s;     /* since when it is in this state */
    int32_t exit_code;  /* as --wait reports it; -1 not ended */
    uint32_t notify_on; /* bits of enum spec_notify; 0: no notification */
    int64_t cancel_uid;
    enum job_held held_by;        /* for a HELD job */
    const struct depend *depends; /* [n_depends], in the order of the spec;
                                     owned by the engine */
    double preempt_grace_s;       /* from preempt_s on */

    /* The current or last attempt. */
    int32_t first_claimed; /* the first attempt that a worker claimed, this one
                              or an earlier one; 0: none */
    double first_claim_s;  /* of that one; NAN not yet */
    double requeue_s;      /* when its last attempt was over, NAN never */
    double requeue_wait_s; /* minimum time from then to the next start */
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP];
    char holder[128];    /* the claiming process: "host pid starttime" */
    bool claim_names_id; /* the claim named native_id */
    char gpu_type[32];   /* that the engine chose; "": the spec's, or any */
    char on_type[32];    /* type of the GPUs that were granted; "": unknown */
    double intent_s, run_s;
    double used_gpu_s;    /* GPU seconds of ended attempts, as far as kept */
    double stopped_s;     /* since when it is suspended; NAN: it is not */
    double stopped_for_s; /* total suspended before that, or not claimable
                             without a daemon: not counted against its limit */
    bool reported;
    int32_t report_code;
    int32_t report_stopped; /* reported: engine_report_extra.stopped */
    char fault_node[ALLOC_NODE_NAME_CAP]; /* where a device failed, as
                                             reported; "" */
    /* Reported: why a rank refused its plan, "memory" of its GPU or
     * "host_memory" of its machine, and the bytes; "": none did. */
    char cause[JOB_CAUSE_CAP];
    int64_t needed_bytes, available_bytes;

    /* Volatile: lost in a restart and known again soon after. */
    char pending_id[ALLOC_NATIVE_ID_CAP]; /* the allocator's id of a pending
                                             attempt */
    double alloc_start_s; /* when it expects to start that, since 1970; or 0 */
    /* from heartbeats, or the last event of an ended job */
    double beat_s; /* clock's now_s of the last one */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_loss, eval_accuracy;
    double tokenised; /* share of data before iteration 1; 0 or NAN: unknown */
};

#endif
