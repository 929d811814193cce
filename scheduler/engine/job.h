/* job.h - a job as the engine knows it, for all who read one. */
#ifndef MGPU_SCHEDULER_JOB_H
#define MGPU_SCHEDULER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/spec/dependency.h"
#include "jobs/state.h"
#include "slurm/alloc.h"

enum {
    JOB_NAME_CAP = 64,
    JOB_REASON_CAP = 160,
    JOB_EXCLUDE_CAP = 256,
    JOB_DIGEST_CAP = 33
};

/* Whose hold it is: what ends it, and who may. */
enum job_held {
    HELD_NOT,
    HELD_USER,
    HELD_ADMIN,
    HELD_DEPENDENCY, /* what it waited for can never come */
    HELD_CORRUPT,    /* its events cannot be read; nobody may release it */
    HELD_REFUSED,    /* its start was refused for good */
};
/* "user", ...; NULL for HELD_NOT */
const char *job_held_name(enum job_held h);

struct job;
enum { JOB_DISPLAY_CAP = 40 };
/* "12", or "123_4" of task 4 of sweep 123; returns out. */
const char *job_display_id(const struct job *job, char out[JOB_DISPLAY_CAP]);

/* A job as the fold knows it. Times: seconds since 1970, NAN for not yet.
 *
 * What a plan tells of each that waits stands first and together: a long
 * queue is mostly waiting for memory. */
struct job {
    uint64_t id;
    enum job_state state;
    int32_t priority;
    double start_estimate_s; /* on the engine's clock, NAN unknown; volatile */
    char reason[JOB_REASON_CAP]; /* why it waits, or why it ended */
    int32_t gpus_min, gpus_max, nodes_min, nodes_max;
    int32_t per_node; /* GPUs on each; 0: as many as come out */
    double submit_s;
    double limit_s; /* INFINITY: none */
    double begin_s; /* not before, since 1970; 0: at once. Below 0, of one that
                       is only read: so long after its submit */
    double claim_s; /* of the attempt, see intent_s */
    double preempt_s;
    uint64_t preempted_for; /* for whom its devices were last taken back; 0:
                               they never were */
    int64_t uid;
    /* Of a task of a sweep. */
    uint64_t sweep; /* the id of its first task, whose ids are in a row; 0:
                       of no sweep */
    int32_t task, n_tasks; /* task from 0 */
    int32_t number;        /* that people know it by: task, or what
                              sweep.array gave it; of 7 in 12_7 */
    int32_t max_parallel;  /* of them live at a time; 0: any number */
    bool stop_on_fail;
    bool cancel_asked, limit_hit, release_asked;
    bool is_warned;      /* that its limit comes, by warn_signal */
    bool is_time_80;     /* that was told of its attempt */
    bool requeue_asked;  /* its attempt ends, and it is QUEUED again */
    bool is_preempted;   /* by the engine, for preempted_for */
    bool depends_waived; /* somebody released it from them */
    size_t n_depends;
    int32_t attempt, retries; /* the attempt is the current or last one */
    int32_t gpus, nodes;      /* of the attempt */
    struct alloc_where
        where; /* as the spec has it; texts owned by the engine */
    char exclude[JOB_EXCLUDE_CAP]; /* "n1,n2": not on these any more */

    char user[32];
    char name[JOB_NAME_CAP];
    const char *kind;            /* static: "cv", "command" */
    const char *spec;            /* resolved JSON; owned by the engine */
    const char *key;             /* idempotency key; owned by the engine */
    char digest[JOB_DIGEST_CAP]; /* engine_submit.digest; "": not known, or a
                                    later task of a sweep */
    const char *dir;     /* absolute; its attempts are in <dir>/<attempt>; owned
                            by the engine */
    double grace_s;      /* SIGTERM to SIGKILL */
    int32_t warn_signal; /* before the limit; 0: none */
    double warn_before_s; /* so long */
    int32_t retry_max;
    uint32_t retry_on;                /* bits of enum spec_retry */
    double stall_factor, stall_min_s; /* 0: engine_conf's */
    bool stall_ends;                  /* what makes no progress is ended */
    double backoff_s, backoff_max_s;
    bool exclude_node;   /* not again where it was lost */
    bool is_preemptible; /* it may be told to go for one of more priority */
    bool saves;          /* and keeps its work then */
    bool force_queue;    /* kept, though nothing there can ever hold it */
    /* retry_rule.h, one in each line; NULL; owned by the engine */
    const char *rules;
    int64_t log_max_bytes;
    bool log_fails, log_is_plain; /* as alloc_req's */
    const char *vary; /* keys and values of this task, JSON; owned by the
                         engine */
    double start_s, end_s;
    double state_s;     /* since when it is in this state */
    int32_t exit_code;  /* as --wait reports it; -1 not ended */
    uint32_t notify_on; /* bits of enum spec_notify; 0: nobody is told */
    int64_t cancel_uid;
    enum job_held held_by;        /* of a job that is HELD */
    const struct depend *depends; /* [n_depends], in the order of the spec;
                                     owned by the engine */
    double preempt_grace_s;       /* from preempt_s on */

    /* The current or last attempt. */
    bool has_begun;        /* this one, or one before it, was claimed */
    double requeue_s;      /* when its last attempt was over, NAN never */
    double requeue_wait_s; /* not started again before so long after that */
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP];
    char holder[128];    /* who claimed: "host pid starttime" */
    bool claim_names_id; /* native_id is what the claim said */
    char gpu_type[32];   /* that the engine chose; "": its spec's, or any */
    double intent_s, run_s;
    double stopped_s;     /* somebody has suspended it since; NAN: it runs */
    double stopped_for_s; /* in all, before that, or for want of a daemon to
                             claim from: no part of its limit */
    bool reported;
    int32_t report_code;
    bool ended_untold; /* reported: no rank had been told to stop */
    char fault_node[ALLOC_NODE_NAME_CAP]; /* where a device failed, by what it
                                             reported; "" */

    /* Volatile: lost in a restart and soon there again. */
    char pending_id[ALLOC_NATIVE_ID_CAP]; /* what the allocator calls an
                                             attempt that waits there */
    /* from heartbeats; of a job that is over, from its last event */
    double beat_s; /* clock's now_s of the last one */
    int64_t iteration, iterations_total;
    int32_t epoch, epochs_total;
    double loss, t_iter, eval_accuracy;
};

#endif
