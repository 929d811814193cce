/* alloc.h - where devices come from.
 *
 * Implementations: local (this machine: GPUs, or declared slots; mpirun by
 * fork and exec), fake (virtual time, scripted failures; for the simulator
 * and the tests), and slurm. tests/contract/alloc.c is the specification and
 * runs against each.
 *
 * Asynchronous: request() and release() return at once; what comes of them
 * arrives as notes. (job, attempt) is the idempotency key: asking again for
 * one that the allocator knows changes nothing and brings its latest note
 * (GRANTED or EXITED) once more, also after a restart of the daemon - an
 * allocator finds what it started before. Every granted attempt ends in
 * exactly one EXITED or LOST note per life of the allocator.
 */
#ifndef MGPU_SLURM_ALLOC_H
#define MGPU_SLURM_ALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct alloc_req {
    uint64_t job;
    int32_t attempt;       /* counts from 1 */
    const char *tag;       /* "mgpu:<cluster>:<job>:<attempt>" */
    int32_t nodes;         /* >= 1 */
    int32_t gpus_per_node; /* 0: one rank per node without a GPU */
    double limit_s;        /* wall clock limit; 0: none */
    uid_t uid;             /* the submitter */
    /* The attempt's own directory, absolute; its parent exists. Created
     * 0700. `launch` is written there as launch.json, 0600, and each rank
     * runs `worker --launch <dir>/launch.json` under MPI. Ranks write their
     * output to <dir>/log (bounded by log_max_bytes). */
    const char *dir;
    const char *worker; /* the program, absolute */
    const char *launch; /* JSON text; holds the token: never on argv */
    int64_t log_max_bytes;
};

enum alloc_note_kind {
    ALLOC_GRANTED,   /* note.native_id and note.place are set */
    ALLOC_REFUSED,   /* final for this request; note.why says it */
    ALLOC_LOST,      /* node failure or an administrator; note.why */
    ALLOC_EXITED,    /* code and signal of the worst rank */
    ALLOC_INVENTORY, /* ask inventory() again */
};

struct alloc_note {
    enum alloc_note_kind kind;
    uint64_t job;
    int32_t attempt;
    char native_id[64]; /* Slurm's job id; "pid:1234" for local */
    char place[128];    /* "n1:0,1 n2:0" - node and GPU (or slot) indexes */
    int32_t exit_code;  /* EXITED: 0..255 */
    int32_t signal;     /* EXITED: 0, or what the worst rank died of */
    struct error why;   /* REFUSED and LOST */
};

enum { ALLOC_NODE_NAME_CAP = 64 };
struct alloc_node {
    char name[ALLOC_NODE_NAME_CAP];
    char gpu_type[32]; /* "h100"; "slot" for CPU slots without a GPU */
    int32_t gpus_total;
    int32_t gpus_free; /* neither ours nor anybody else's */
    int32_t is_up;     /* 0: down or drained; `why` says it */
    char why[96];
};

struct alloc; /* opaque; the first member of every implementation's struct */

struct alloc_ops {
    const char *name;
    /* out  nodes[cap], *ret_n.  err ERR_LIMIT more than cap nodes */
    int (*inventory)(struct alloc *a, struct alloc_node *nodes, size_t cap,
                     size_t *ret_n, struct error *err);
    /* in   req, borrowed for the call
     * err  ERR_BUSY the answer is not known (a time-out): reconcile later by
     *      asking again with the same key; others: nothing was started */
    int (*request)(struct alloc *a, const struct alloc_req *req,
                   struct error *err);
    /* Ends the attempt: SIGTERM now, SIGKILL after grace_s; EXITED follows.
     * err  ERR_NOTFOUND the allocator knows no such attempt */
    int (*release)(struct alloc *a, uint64_t job, int32_t attempt,
                   double grace_s, struct error *err);
    /* Delivers a signal to every rank. err as release */
    int (*signal)(struct alloc *a, uint64_t job, int32_t attempt, int signo,
                  struct error *err);
    /* out  notes[cap], *ret_n; in the order in which things happened */
    int (*poll)(struct alloc *a, struct alloc_note *notes, size_t cap,
                size_t *ret_n, struct error *err);
    /* A descriptor that becomes readable when poll() may have notes, or -1:
     * the caller polls by time. Borrowed until destroy. */
    int (*wake_fd)(struct alloc *a);
    /* Forgets; started attempts live on. NULL is fine. */
    void (*destroy)(struct alloc *a);
};

struct alloc {
    const struct alloc_ops *ops;
};

/* ---- local --------------------------------------------------------------- */
struct alloc_local_conf {
    int32_t slots;        /* CPU slots that stand for GPUs; 0: real GPUs only */
    const char *mpirun;   /* program; found on PATH when without '/' */
    const char *shepherd; /* mgpu-shepherd, absolute */
    const char *nvml;     /* NULL: libnvidia-ml.so.1 */
    int64_t max_fds; /* soft RLIMIT_NOFILE of attempts; 0: as the caller's */
};
int alloc_local_create(const struct alloc_local_conf *conf, struct alloc **ret,
                       struct error *err) MUST_CHECK;

#endif
