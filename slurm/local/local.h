/* local.h - internals of the local allocator, for its own three files.
 *
 * alloc_local.c is the seam: requests, polling, alarms. local_attempt.c handles
 * one attempt: its directory, its start and its end. local_gpus.c handles GPUs
 * that fail while the allocator runs. */
#ifndef MGPU_SLURM_LOCAL_LOCAL_H
#define MGPU_SLURM_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "slurm/alloc.h"
#include "slurm/alloc_notes.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/local/nvml.h"

enum {
    SLOTS_CAP = 256,
    GPUS_CAP = 64,
    ENDED_CAP = 64, /* how many ended attempts are remembered, for 2 kB each;
                     * the directories have the ends of older ones */
};

enum local_state {
    LOCAL_WAITING,  /* pending for slots; nothing was started */
    LOCAL_UNSURE,   /* a shepherd holds the lock, and has not written
                     * `started`; the slots of `place` are booked */
    LOCAL_RUNNING,  /* pidfd is the shepherd */
    LOCAL_SWEEPING, /* the shepherd is dead, its processes may still run */
    LOCAL_ASKING,   /* it has failed, and the watch is asked whether one of
                     * its GPUs has: `exit`, `ask` */
    LOCAL_ENDED,    /* `end` has the result */
};

struct local_attempt {
    uint64_t job;
    int32_t attempt;
    enum local_state state;
    char *dir, *worker; /* owned */
    int32_t n_slots;    /* 0: needs none */
    int pidfd;
    bool is_ours;     /* started by this daemon */
    bool is_released; /* released while UNSURE */
    bool is_to_end;   /* must not start if it has not started yet */
    int grace_ms;
    unsigned char used[SLOTS_CAP];
    struct attempt_exit exit; /* while ASKING, as the next two */
    uint32_t ask;
    double ask_until_s;
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP];
    struct alloc_note end;
    struct local_attempt *prev, *next;
};

/* The state of mgpu-gpuwatch. */
struct gpu_watch {
    int fd, pidfd; /* -1: it does not run */
    char line[256];
    size_t len;
    uint32_t asked, answered;
    double again_s;   /* if it does not run: when to start it, on the real
                       * clock */
    bool is_accepted; /* earlier errors of the GPUs are accepted (as-is) */
    bool is_news;     /* the inventory has changed */
    char why[80];     /* why nothing is watched; "" */
};

struct local_gpu {
    struct nvml_gpu gpu;
    char why[NVML_WHY_CAP]; /* why it failed; it gets no new attempts */
};

struct alloc_local {
    struct alloc base;
    char *mpirun, *shepherd, *watcher, *nvml; /* owned; the last two may be
                                               * NULL */
    int64_t max_fds;                          /* of alloc_local_conf */
    char host[ALLOC_NODE_NAME_CAP];
    int32_t n_slots;
    struct local_gpu gpus[GPUS_CAP]; /* [n_slots] unless the slots are
                                      * declared */
    struct gpu_watch watch;
    bool has_gpus;
    bool binds;                     /* the cores of a slot are its own */
    void (*tell)(const char *what); /* NULL: no messages */
    int32_t n_lost; /* lost GPUs: always booked, and not counted as existing;
                     * see local_n_there() */
    char why[96];   /* why no GPUs, or not all, are visible */
    int32_t busy[SLOTS_CAP];
    struct local_attempt *first, *last; /* by age */
    size_t n_live, n_ended;
    struct notes notes;
    bool wants_start; /* an attempt may be pending that was not examined yet */
    int epoll_fd, event_fd, timer_fd;
};

struct local_attempt *local_find(const struct alloc_local *l, uint64_t job,
                                 int32_t attempt);
int local_new(struct alloc_local *l, const struct alloc_req *req,
              struct local_attempt **ret, struct error *err) MUST_CHECK;
/* Removes it from the list and frees it; it must not be counted as live any
 * more. */
void local_drop(struct alloc_local *l, struct local_attempt *a);
void local_push(struct alloc_local *l, const struct local_attempt *a,
                struct alloc_note note);
int32_t local_n_free(const struct alloc_local *l);
int32_t local_n_there(const struct alloc_local *l); /* existing slots, free
                                                     * or not */

/* ---- local_gpus.c ---- */
bool local_is_usable(const struct alloc_local *l, int32_t slot); /* and free */
/* Starts the watch if there are GPUs and it does not run; keeps a failure for
 * local_gpus_why(). */
void local_gpus_watch(struct alloc_local *l);
void local_gpus_leave(struct alloc_local *l); /* ends it; waits up to a
                                               * second */
/* Handles its messages, and restarts it when that is due. */
void local_gpus_listen(struct alloc_local *l);
/* Makes it examine the GPUs now; its findings precede its answer. ret  0: it
 * does not run */
uint32_t local_gpus_ask(struct alloc_local *l);
bool local_gpus_has_answered(const struct alloc_local *l, uint32_t ask);
/* Sets the failed GPUs in the node. */
void local_gpus_drained(const struct alloc_local *l, struct alloc_node *io);
/* The fault of the machine, for display. */
void local_gpus_why(const struct alloc_local *l, char *ret, size_t cap);
/* Whether one of the attempt's GPUs has failed; if so, *ret has the fault. */
bool local_gpus_blame(const struct alloc_local *l,
                      const struct local_attempt *a, struct error *ret);
/* Returns failed GPUs to service, unless they fail again. False: none has
 * failed. */
bool local_gpus_mend(struct alloc_local *l);

/* Derives the state from the directory alone, and sets it. A state that is not
 * settled yet is UNSURE: look again in a moment. */
int local_look(struct alloc_local *l, struct local_attempt *a,
               struct error *err) MUST_CHECK;
/* Starts a pending attempt; on failure nothing was started. */
int local_start(struct alloc_local *l, struct local_attempt *a,
                struct error *err) MUST_CHECK;
/* Handles all events of the attempt since the last call. */
void local_advance(struct alloc_local *l, struct local_attempt *a);
int local_tell(const struct local_attempt *a, int signo, int value,
               struct error *err) MUST_CHECK;
/* Ends a pending attempt, permanently. */
int local_end_unstarted(struct alloc_local *l, struct local_attempt *a,
                        struct error *err) MUST_CHECK;

#endif
