/* alloc.h - the allocator seam: how the engine obtains GPUs and runs attempts.
 *
 * Implementations: local (this machine: GPUs, or declared slots; ranks by fork
 * and exec), fake (virtual time, scripted failures; for the simulator and the
 * tests), and slurm. tests/contract/alloc.c is the specification and runs
 * against each.
 *
 * Asynchronous: request() and release() return at once; their results arrive as
 * notes. (job, attempt) is the idempotency key: a repeated request changes
 * nothing and brings the attempt's latest note (GRANTED or EXITED) once more.
 * This also holds after a restart of the daemon: an allocator finds the
 * attempts that an earlier daemon started when they are requested again. Every
 * granted attempt ends in exactly one EXITED or LOST note per instance of the
 * allocator. */
#ifndef MGPU_SLURM_ALLOC_H
#define MGPU_SLURM_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/clock.h"
#include "jobs/base/error.h"

/* What a cluster's scheduler needs to know besides a size. NULL (0, or false):
 * the administrator's defaults apply. An allocator without such concepts
 * ignores these fields. */
struct alloc_where {
    const char *partition, *account, *qos, *constraint, *reservation;
    const char *gpu_type; /* "h100"; NULL: any */
    const char *exclude;  /* "n1,n2": none of these nodes; NULL: any */
    int32_t cpus_per_gpu;
    int64_t memory_bytes; /* per node */
    /* Memory of each GPU; 0: no bound on that side. The planner checks it; the
     * allocator is only asked for a type. */
    int64_t gpu_min_bytes, gpu_max_bytes;
    bool exclusive; /* no other job on its nodes */
};

/* What the caller knows about earlier requests with the same key. */
enum alloc_ask {
    ALLOC_AGAIN, /* an earlier daemon may have made one: find what it
                  * started, or start it now */
    ALLOC_NEW,   /* there was none */
    ALLOC_FIND,  /* as AGAIN, but release() follows: an attempt that was not
                  * started never starts and reports EXITED, signal 15 */
};

struct alloc_req {
    uint64_t job;
    int32_t attempt; /* counts from 1 */
    enum alloc_ask ask;
    bool is_claimed;       /* a worker has claimed its lease: it did run */
    const char *native_id; /* the id of an earlier grant; NULL, "": none */
    const char *tag;       /* "mgpu:<cluster>:<job>:<attempt>:<mark>": secret
                            * before the attempt starts, never changed
                            * afterwards */
    const char *name;      /* the job's name, for display */
    struct alloc_where where;
    int32_t nodes;         /* >= 1 */
    int32_t gpus_per_node; /* 0: one rank per node without a GPU */
    double limit_s;        /* wall clock limit; 0: none */
    double grace_s;        /* between SIGTERM and SIGKILL */
    uid_t uid;             /* the submitter */
    int64_t since;         /* time of the first request, seconds since 1970 */
    /* The attempt's own directory, absolute; its parent exists. Created
     * 0700. `launch` is written there as launch.json, 0600: it says which ranks
     * there are (wire_launch_ranks()) and what becomes of their output,
     * <dir>/log. Each runs `worker --launch <dir>/launch.json` under MPI, or
     * with --program-mpi if its program is the MPI process. */
    const char *dir;
    const char *worker; /* the program, absolute */
    const char *launch; /* JSON text; holds the token: never on argv */
};

/* Exit codes of an attempt that printed more than it may (logs.on_limit), and
 * of one whose launcher is missing or belongs to another MPI (127, as of a
 * shell). No launcher of ours exits with the first by itself; a program may. */
enum { ALLOC_EXIT_LOG = 122, ALLOC_EXIT_NO_LAUNCHER = 127 };

enum alloc_note_kind {
    ALLOC_WAITING,   /* accepted, pending: note.why has the reason for
                      * display ("Slurm(Priority)"); native_id is set if it
                      * has one. ERR_LIMIT: pending because of a limit or a
                      * hold, not for GPUs. Any number of times */
    ALLOC_GRANTED,   /* note.native_id and note.place are set; repeated when
                      * the place or is_suspended changes */
    ALLOC_REFUSED,   /* final for this request; note.why has the reason.
                      * ERR_BUSY: a temporary limit, so a later attempt of
                      * the job may be accepted; ERR_NOMEM: a shortage of
                      * processes or descriptors that soon passes */
    ALLOC_LOST,      /* node failure or an administrator; note.why */
    ALLOC_EXITED,    /* code and signal of the worst rank */
    ALLOC_LIMIT,     /* its time limit has changed in the scheduler, or could
                      * not be changed there: note.limit_s, and note.why */
    ALLOC_PRIORITY,  /* somebody changed its priority in the scheduler, while
                      * it was pending there: note.priority_by, and note.why */
    ALLOC_INVENTORY, /* inventory() has changed */
};

/* Cause of an EXITED note, if neither the program nor our release(), and of a
 * LOST note. */
enum alloc_ended_by {
    ALLOC_BY_ITSELF, /* the program, or our own release() */
    ALLOC_BY_LIMIT,  /* the cluster's scheduler enforced the time limit */
    ALLOC_BY_OTHER,  /* a person cancelled it there (scancel) */
    ALLOC_BY_FAULT,  /* one of its GPUs failed, and the program with it */
    /* LOST: the cluster's scheduler took its GPUs for another job, or was told
     * to queue it again: no fault of job or node */
    ALLOC_BY_PREEMPTION,
};

enum { ALLOC_NATIVE_ID_CAP = 64, ALLOC_PLACE_CAP = 512 };
struct alloc_note {
    enum alloc_note_kind kind;
    uint64_t job;
    int32_t attempt;
    char native_id[ALLOC_NATIVE_ID_CAP]; /* Slurm's job id; "pid:1234" for
                                            local */
    char place[ALLOC_PLACE_CAP]; /* "n1:0,1 n2:0" - node and GPU (or slot)
                                  * indexes; truncated: ends in " ..." */
    bool is_of_size;   /* WAITING, REFUSED: a limit of the GPUs, nodes, CPUs or
                        * memory of a user, an account or a job: fewer of them
                        * may be granted */
    bool is_in_line;   /* WAITING: seen pending, so not granted; an earlier
                        * note may have granted it */
    double expected_s; /* WAITING: when the cluster's scheduler expects to
                        * start it, since 1970; 0: not known */
    bool is_suspended; /* GRANTED: suspended by the cluster's scheduler or an
                        * administrator; may be resumed */
    double limit_s;    /* LIMIT: of the attempt from its start; 0: none */
    bool limit_is_default; /* LIMIT: the scheduler's, as none was named */
    int32_t priority_by;   /* PRIORITY: so much more */
    int32_t exit_code;     /* EXITED: 0..255 */
    int32_t signal; /* EXITED: 0, or the signal that ended the worst rank */
    enum alloc_ended_by ended_by; /* EXITED, LOST */
    bool is_forgotten; /* LOST: the cluster's scheduler lost its state and
                        * the attempt with it: no fault of job or node */
    /* EXITED: CPU time of all its processes, including the launcher, and the
     * total time of all cores that they could use; cores_ms 0: unknown. */
    int64_t cpu_ms, cores_ms;
    int64_t ended_ms; /* EXITED, LOST: since 1970, by the clock of the node
                       * it ran on; 0: unknown. May be long ago */
    struct error why; /* WAITING, REFUSED, LOST, LIMIT, PRIORITY; EXITED by
                       * other or fault */
};

/* A node, or the GPUs of one type of a node. A node with GPUs of several types
 * has one entry per type, in a row, all with its name, state and texts. These
 * entries share its CPUs and memory; an attempt that needs GPUs there has to
 * name a type. */
enum { ALLOC_NODE_NAME_CAP = 64 };
struct alloc_node {
    char name[ALLOC_NODE_NAME_CAP];
    char gpu_type[32]; /* "h100"; "slot" for CPU slots without a GPU */
    int64_t gpu_bytes; /* memory of each, or of the smallest; 0: unknown */
    int32_t gpus_total;
    int32_t gpus_free; /* allocated to nobody */
    /* A node with several entries: the number of GPUs, whatever their type, for
     * which it has CPUs and memory in total, and still has some free; the same
     * in each entry. 0: a node with one entry. */
    int32_t shared_total, shared_free;
    int32_t is_up;      /* 0: down or drained; `why` has the reason */
    int32_t is_drained; /* drained but healthy: running jobs continue */
    int32_t is_busy;    /* any user's job is on it, including jobs without
                         * GPUs, suspended jobs, and ended jobs that still
                         * hold resources */
    int32_t is_wanted;  /* a job that is not ours is pending for GPUs in a
                         * partition of the node */
    char why[96];
    /* How many of gpus_total have failed and are not allocated again, how many
     * of those are no longer in use, and their indexes, "0,3"; `why` has the
     * fault. None of them counts as free. */
    int32_t gpus_drained, gpus_out;
    char drained[192];
    char used[192];       /* GPUs by user: "0,1 mgpu 12.1; 2 anna 4711"; "" */
    char partitions[128]; /* "batch*,urgent"; a star marks the default one,
                           * as in sinfo; "" where there are none */
    char features[128];   /* "nvlink,ib" */
    char reservation[64]; /* the active reservation on it; "" none */
    char next_reservation[64]; /* the next one to come; "" none */
    int64_t next_starts;       /* when, since 1970; 0: none */
    char address[48];          /* numeric, of its network; "" unknown */
};

/* A partition, and what it takes. Lists are "a,b"; "": no rule, or one that is
 * not known. */
struct alloc_partition {
    char name[64];
    bool is_default;
    int32_t max_minutes, max_nodes; /* of a job; 0: any */
    int32_t default_minutes;        /* of a job without a limit; 0: none */
    char allow_accounts[256], deny_accounts[256];
    char allow_qos[256], deny_qos[256];
};

/* What the cluster's scheduler allows, and what is in use of it. Below 0: no
 * limit, or one that is not told. */
enum alloc_quota_kind {
    ALLOC_QUOTA_ACCOUNT,     /* of a user's jobs with account `name` */
    ALLOC_QUOTA_QOS,         /* of all jobs with QOS `name` */
    ALLOC_QUOTA_QOS_USER,    /* group_used: of QOS `name` by user uid */
    ALLOC_QUOTA_QOS_ACCOUNT, /* group_used: of QOS `name` by account `group` */
    ALLOC_QUOTA_RESERVATION, /* `name`, from starts to ends (since 1970) */
};
struct alloc_quota {
    int32_t kind; /* enum alloc_quota_kind */
    uint32_t uid;
    char name[64], partition[64]; /* partition: of ACCOUNT; "": any */
    char qos[64];                 /* of ACCOUNT: the QOS of a job without one */
    bool is_default;              /* ACCOUNT: of a job without one */
    /* GPUs at a time of all jobs, and in use; ACCOUNT: of the account `group`,
     * `name` or one above it, or only of the user's jobs with this row. */
    char group[64];
    bool group_is_user;
    int32_t group_gpus, group_used;
    int32_t job_gpus;                /* of one job */
    int32_t user_gpus, account_gpus; /* QOS: of each user, of each account */
    int64_t minutes_left;            /* GPU-minutes of all jobs */
    int64_t job_minutes;             /* GPUs times limit of one job */
    int64_t starts, ends;
};
/* A row without a limit: {.kind = ..., ALLOC_QUOTA_NO_LIMITS}. */
#define ALLOC_QUOTA_NO_LIMITS                                              \
    .group_gpus = -1, .job_gpus = -1, .user_gpus = -1, .account_gpus = -1, \
    .minutes_left = -1, .job_minutes = -1

struct alloc; /* opaque; the first member of every implementation's struct */

struct alloc_ops {
    const char *name;
    bool is_shared; /* others get GPUs from the same scheduler: what an attempt
                     * gives up may be theirs at once */
    /* Returns the last known state; never blocks.
     * out  nodes[cap], *ret_n
     * err  ERR_LIMIT more than cap nodes; ERR_UNAVAIL the scheduler does not
     *      answer: err says which and since when */
    int (*inventory)(struct alloc *a, struct alloc_node *nodes, size_t cap,
                     size_t *ret_n, struct error *err);
    /* The partitions, borrowed until the next call of poll(); NULL: there are
     * none. Returns how many; 0: they are not known. */
    size_t (*partitions)(struct alloc *a, const struct alloc_partition **ret);
    /* Limits of accounts and QOSes, their use, and reservations, borrowed until
     * the next call of poll(); NULL, 0: none is known. */
    size_t (*quotas)(struct alloc *a, const struct alloc_quota **ret);
    /* in   req, borrowed for the call
     * err  ERR_BUSY the outcome is unknown (a time-out): reconcile later by a
     *      request with the same key; others: nothing was started */
    int (*request)(struct alloc *a, const struct alloc_req *req,
                   struct error *err);
    /* Ends the attempt: SIGTERM now, SIGKILL after grace_s; EXITED follows.
     * err  ERR_NOTFOUND the allocator knows no such attempt: it was not
     *      requested since the allocator was created */
    int (*release)(struct alloc *a, uint64_t job, int32_t attempt,
                   double grace_s, struct error *err);
    /* A user has cancelled the attempt's job: called before release(), so that
     * the scheduler's accounting can show it so. NULL: it keeps none. err as
     * release */
    int (*cancelled)(struct alloc *a, uint64_t job, int32_t attempt,
                     struct error *err);
    /* Tells the allocator that the attempt's lease was claimed from the
     * allocation native_id ("": unknown). An allocator that may have started
     * one attempt twice (its scheduler's answer was lost) now knows which one
     * is real, and ends the others. NULL: it never starts one twice. err as
     * release */
    int (*claimed)(struct alloc *a, uint64_t job, int32_t attempt,
                   const char *native_id, struct error *err);
    /* The attempt's time limit is another one; 0: none. NULL: the scheduler has
     * none of its own. An ALLOC_LIMIT note says if the scheduler does not take
     * it. err as release */
    int (*limit)(struct alloc *a, uint64_t job, int32_t attempt, double limit_s,
                 struct error *err);
    /* Delivers a signal to every rank. err as release */
    int (*signal)(struct alloc *a, uint64_t job, int32_t attempt, int signo,
                  struct error *err);
    /* out  notes[cap], *ret_n; those of one attempt are in the order of
     * events */
    int (*poll)(struct alloc *a, struct alloc_note *notes, size_t cap,
                size_t *ret_n, struct error *err);
    /* A descriptor that becomes readable when poll() may have notes, or -1: the
     * caller polls at intervals. Borrowed until destroy. */
    int (*wake_fd)(struct alloc *a);
    /* Returns the failed GPUs of the node to service; a GPU that fails again is
     * drained again. NULL: the allocator drains nothing. False: nothing was
     * drained */
    bool (*mend)(struct alloc *a, const char *node);
    /* Frees the allocator; started attempts keep running. NULL is fine. */
    void (*destroy)(struct alloc *a);
};

struct alloc {
    const struct alloc_ops *ops;
};

/* ---- local --------------------------------------------------------------- */
struct alloc_local_conf {
    int32_t slots;        /* declared CPU slots in place of GPUs; 0: real
                           * GPUs only */
    bool bind;            /* each of these slots has cores of its own */
    const char *mpirun;   /* program for several ranks; searched on PATH if
                           * its name has no slash */
    const char *shepherd; /* mgpu-shepherd, absolute */
    const char *nvml;     /* NULL: libnvidia-ml.so.1 */
    const char *gpuwatch; /* mgpu-gpuwatch, absolute; NULL: GPUs are not
                           * watched */
    int64_t max_fds;      /* soft RLIMIT_NOFILE of attempts; 0: the caller's */
    /* Receives messages for the administrator: "GPU 1 is drained: ..."; NULL */
    void (*tell)(const char *what);
};
int alloc_local_create(const struct alloc_local_conf *conf, struct alloc **ret,
                       struct error *err) MUST_CHECK;

/* ---- slurm --------------------------------------------------------------- */
struct alloc_slurm_conf {
    const char *cluster;      /* our cluster's name, the second word of every
                               * tag */
    int fd;                   /* of the helper, connected; the allocator owns
                               * it from now on */
    double reconcile_after_s; /* not seen in Slurm for this long: it was
                               * never accepted */
    double stale_s;           /* no news for this long: Slurm is unavailable */
    const struct clock *clock;
};
/* Speaks to mgpu-slurm-helper (helper_wire.h); never links libslurm, never
 * blocks. When the helper's supervisor has exited, poll() fails with ERR_EXTERN
 * permanently: the daemon exits, and its service manager restarts both. */
int alloc_slurm_create(const struct alloc_slurm_conf *conf, struct alloc **ret,
                       struct error *err) MUST_CHECK;

#endif
