/* alloc.h - where devices come from.
 *
 * Implementations: local (this machine: GPUs, or declared slots; ranks by
 * fork and exec), fake (virtual time, scripted failures; for the simulator
 * and the tests), and slurm. tests/contract/alloc.c is the specification and
 * runs against each.
 *
 * Asynchronous: request() and release() return at once; what comes of them
 * arrives as notes. (job, attempt) is the idempotency key: asking again for
 * one that the allocator knows changes nothing and brings its latest note
 * (GRANTED or EXITED) once more, also after a restart of the daemon - an
 * allocator finds what it started before, if it is asked for it. Every
 * granted attempt ends in exactly one EXITED or LOST note per life of the
 * allocator.
 */
#ifndef MGPU_SLURM_ALLOC_H
#define MGPU_SLURM_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/clock.h"
#include "jobs/base/error.h"

/* What a cluster's own scheduler wants to know besides a size. NULL (0, or
 * false): whatever its administrator's defaults say. An allocator without
 * such things passes over them. */
struct alloc_where {
    const char *partition, *account, *qos, *constraint, *reservation;
    const char *gpu_type; /* "h100"; NULL: any */
    const char *exclude;  /* "n1,n2": on none of these nodes; NULL: on any */
    int32_t cpus_per_gpu;
    int64_t memory_bytes; /* per node */
    /* Memory of each GPU; 0: that end is open. Who plans minds it: an
     * allocator is asked for a type. */
    int64_t gpu_min_bytes, gpu_max_bytes;
    bool exclusive; /* no other job on its nodes */
};

/* What the caller remembers of earlier requests under the same key. */
enum alloc_ask {
    ALLOC_AGAIN, /* another life of the daemon may have made one: find what it
                    started; what it did not starts now */
    ALLOC_NEW,   /* there was none */
    ALLOC_FIND,  /* as AGAIN, but it is to end, and release() follows: what
                    was not started never starts; EXITED, signal 15 */
};

struct alloc_req {
    uint64_t job;
    int32_t attempt; /* counts from 1 */
    enum alloc_ask ask;
    bool is_claimed;       /* a worker has claimed its lease: it did run */
    const char *native_id; /* as which it was granted before; NULL, "": not */
    const char *tag;       /* "mgpu:<cluster>:<job>:<attempt>:<mark>": known to
                              nobody before the attempt, kept by it for ever */
    const char *name;      /* the job's, for people */
    struct alloc_where where;
    int32_t nodes;         /* >= 1 */
    int32_t gpus_per_node; /* 0: one rank per node without a GPU */
    double limit_s;        /* wall clock limit; 0: none */
    double grace_s;        /* between being told to stop and being killed */
    uid_t uid;             /* the submitter */
    int64_t since;         /* when it was first asked for, seconds since 1970 */
    /* The attempt's own directory, absolute; its parent exists. Created
     * 0700. `launch` is written there as launch.json, 0600, and each rank
     * runs `worker --launch <dir>/launch.json` under MPI. Ranks write their
     * output to <dir>/log (bounded by log_max_bytes). */
    const char *dir;
    const char *worker; /* the program, absolute */
    const char *launch; /* JSON text; holds the token: never on argv */
    int64_t log_max_bytes;
    bool log_fails;    /* one that prints more is ended: ALLOC_EXIT_LOG */
    bool log_is_plain; /* lines have no labels of their ranks */
};

/* As no launcher of ours exits by itself; a program may. */
enum { ALLOC_EXIT_LOG = 122 };

enum alloc_note_kind {
    ALLOC_WAITING,   /* accepted, not granted: note.why says what it waits for,
                        as people read it ("Slurm(Priority)"); native_id is
                        set if it has one. ERR_LIMIT: for a limit or a person,
                        not for devices. Any number of times */
    ALLOC_GRANTED,   /* note.native_id and note.place are set; again when
                        the place or is_suspended changes */
    ALLOC_REFUSED,   /* final for this request; note.why says it. ERR_BUSY: a
                        limit there that passes, so another attempt of the
                        job may be taken later; ERR_NOMEM: a shortage
                        (processes, descriptors), and soon */
    ALLOC_LOST,      /* node failure or an administrator; note.why */
    ALLOC_EXITED,    /* code and signal of the worst rank */
    ALLOC_INVENTORY, /* ask inventory() again */
};

/* Who ended an attempt that EXITED, if it was neither itself nor us. */
enum alloc_ended_by {
    ALLOC_BY_ITSELF, /* or by our own release() */
    ALLOC_BY_LIMIT,  /* the cluster's scheduler enforced the time limit */
    ALLOC_BY_OTHER,  /* somebody cancelled it there (scancel) */
    ALLOC_BY_FAULT,  /* a device that it had has failed, and so has it */
};

enum { ALLOC_NATIVE_ID_CAP = 64, ALLOC_PLACE_CAP = 512 };
struct alloc_note {
    enum alloc_note_kind kind;
    uint64_t job;
    int32_t attempt;
    char native_id[ALLOC_NATIVE_ID_CAP]; /* Slurm's job id; "pid:1234" for
                                            local */
    char place[ALLOC_PLACE_CAP]; /* "n1:0,1 n2:0" - node and GPU (or slot)
                                    indexes; " ..." at the end: and more */
    bool is_in_line;   /* WAITING: seen to wait there, and so not granted; it
                          may have been before */
    bool is_suspended; /* GRANTED: somebody has stopped its ranks there, and
                          may let them go on */
    int32_t exit_code; /* EXITED: 0..255 */
    int32_t signal;    /* EXITED: 0, or what the worst rank died of */
    enum alloc_ended_by ended_by; /* EXITED */
    bool is_forgotten; /* LOST: the cluster's scheduler has lost its state, and
                          with it the attempt: no fault of job or node */
    /* EXITED: the time that cores worked for all its processes, the launcher
     * among them, and that of all cores which they might use; cores_ms 0: not
     * known. */
    int64_t cpu_ms, cores_ms;
    int64_t ended_ms; /* EXITED, LOST: since 1970, by the clock of where it
                         ran; 0: not known. It may be long ago */
    struct error why; /* WAITING, REFUSED, LOST; EXITED by other or fault */
};

/* A node, or of one with GPUs of several types those of one: such a node has an
 * entry for each, in a row, all with its name, its state and its words. Its
 * CPUs and its memory are then for all of them; an attempt that wants GPUs
 * there has to say of which type. */
enum { ALLOC_NODE_NAME_CAP = 64 };
struct alloc_node {
    char name[ALLOC_NODE_NAME_CAP];
    char gpu_type[32]; /* "h100"; "slot" for CPU slots without a GPU */
    int64_t gpu_bytes; /* memory of each, or of the smallest; 0: not known */
    int32_t gpus_total;
    int32_t gpus_free; /* neither ours nor anybody else's */
    /* Of a node with several entries, the same in each; else 0: for so many
     * GPUs, whatever their type, it has CPUs and memory, and has some left. */
    int32_t shared_total, shared_free;
    int32_t is_up;      /* 0: down or drained; `why` says it */
    int32_t is_drained; /* and else well: what runs goes on */
    int32_t is_busy;    /* anybody's jobs are on it, also such as have no GPUs,
                           are suspended, or have ended and are not gone yet */
    char why[96];
    /* Of gpus_total, that have failed and get nothing new: how many, how many
     * of these nobody has any more, and their indexes, "0,3"; `why` says of
     * what. None of them is free. */
    int32_t gpus_drained, gpus_out;
    char drained[192];
    char used[192];       /* by whom: "0,1 mgpu 12.1; 2 anna 4711"; "" */
    char partitions[128]; /* "batch*,urgent", the default one starred as by
                             sinfo; "" where there are none */
    char features[128];   /* "nvlink,ib" */
    char reservation[64]; /* the one that is active on it; "" none */
    char address[48];     /* numeric, of its network; "" not known */
};

struct alloc; /* opaque; the first member of every implementation's struct */

struct alloc_ops {
    const char *name;
    /* The last that is known; never blocks.
     * out  nodes[cap], *ret_n
     * err  ERR_LIMIT more than cap nodes; ERR_UNAVAIL nobody answers: err
     *      says who and since when */
    int (*inventory)(struct alloc *a, struct alloc_node *nodes, size_t cap,
                     size_t *ret_n, struct error *err);
    /* in   req, borrowed for the call
     * err  ERR_BUSY the answer is not known (a time-out): reconcile later by
     *      asking again with the same key; others: nothing was started */
    int (*request)(struct alloc *a, const struct alloc_req *req,
                   struct error *err);
    /* Ends the attempt: SIGTERM now, SIGKILL after grace_s; EXITED follows.
     * err  ERR_NOTFOUND the allocator knows no such attempt: nobody asked
     *      for it in this life */
    int (*release)(struct alloc *a, uint64_t job, int32_t attempt,
                   double grace_s, struct error *err);
    /* The attempt's lease was claimed from the allocation native_id ("":
     * not known). An allocator that may have started one attempt twice (its
     * scheduler was not sure) now knows which is real, and ends the others.
     * NULL: it never does. err as release */
    int (*claimed)(struct alloc *a, uint64_t job, int32_t attempt,
                   const char *native_id, struct error *err);
    /* Delivers a signal to every rank. err as release */
    int (*signal)(struct alloc *a, uint64_t job, int32_t attempt, int signo,
                  struct error *err);
    /* out  notes[cap], *ret_n; of an attempt in the order in which things
     *      happened */
    int (*poll)(struct alloc *a, struct alloc_note *notes, size_t cap,
                size_t *ret_n, struct error *err);
    /* A descriptor that becomes readable when poll() may have notes, or -1:
     * the caller polls by time. Borrowed until destroy. */
    int (*wake_fd)(struct alloc *a);
    /* Uses again what has failed on the node; what fails again is drained
     * again. NULL: nothing is drained by itself. False: nothing was */
    bool (*mend)(struct alloc *a, const char *node);
    /* Forgets; started attempts live on. NULL is fine. */
    void (*destroy)(struct alloc *a);
};

struct alloc {
    const struct alloc_ops *ops;
};

/* ---- local --------------------------------------------------------------- */
struct alloc_local_conf {
    int32_t slots;        /* CPU slots that stand for GPUs; 0: real GPUs only */
    const char *mpirun;   /* program for several ranks; found on PATH when
                             without a slash */
    const char *shepherd; /* mgpu-shepherd, absolute */
    const char *nvml;     /* NULL: libnvidia-ml.so.1 */
    const char *gpuwatch; /* mgpu-gpuwatch, absolute; NULL: no GPU is watched */
    int64_t max_fds; /* soft RLIMIT_NOFILE of attempts; 0: as the caller's */
    /* Hears what an administrator should know: "GPU 1 is drained: ..."; NULL */
    void (*tell)(const char *what);
};
int alloc_local_create(const struct alloc_local_conf *conf, struct alloc **ret,
                       struct error *err) MUST_CHECK;

/* ---- slurm --------------------------------------------------------------- */
struct alloc_slurm_conf {
    const char *cluster;      /* ours, the second word of every tag */
    int fd;                   /* of the helper, connected; owned from here on */
    double reconcile_after_s; /* absent for this long: it was never accepted */
    double stale_s;           /* no news for this long: Slurm is unavailable */
    const struct clock *clock;
};
/* Speaks to mgpu-slurm-helper (helper_wire.h); never links libslurm, never
 * blocks. When the helper's supervisor is gone, poll() fails with ERR_EXTERN
 * for good: the daemon ends, and its keeper starts both again. */
int alloc_slurm_create(const struct alloc_slurm_conf *conf, struct alloc **ret,
                       struct error *err) MUST_CHECK;

#endif
