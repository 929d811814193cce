/* local.h - the inside of the local allocator, for its own three files.
 *
 * alloc_local.c is the seam: requests, polling, alarms. local_attempt.c is
 * one attempt: what its directory says, how it starts and how it ends.
 * local_gpus.c is what becomes of GPUs that fail meanwhile.
 */
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
    ENDED_CAP = 64, /* so many ended attempts are remembered, for 2 kB each; of
                       the rest their directories say how they ended */
};

enum local_state {
    LOCAL_WAITING,  /* for slots; nothing was started */
    LOCAL_UNSURE,   /* a shepherd holds the lock, and has not said that it
                       started; the slots of `place` are booked */
    LOCAL_RUNNING,  /* pidfd is the shepherd */
    LOCAL_SWEEPING, /* the shepherd is dead, its processes may not be */
    LOCAL_ASKING,   /* it has failed, and whether a GPU of its own has is being
                       asked: `exit`, `ask` */
    LOCAL_ENDED,    /* `end` says how */
};

struct local_attempt {
    uint64_t job;
    int32_t attempt;
    enum local_state state;
    char *dir, *worker;     /* owned */
    int32_t ranks, n_slots; /* n_slots 0: needs none */
    int64_t log_max_bytes;
    bool log_fails, log_is_plain;
    int pidfd;
    bool is_ours;     /* started in this life */
    bool is_released; /* told while UNSURE */
    bool is_to_end;   /* what was not started is not to start */
    int grace_ms;
    unsigned char used[SLOTS_CAP];
    struct attempt_exit exit; /* while ASKING, as the next two */
    uint32_t ask;
    double ask_until_s;
    char native_id[ALLOC_NATIVE_ID_CAP], place[ALLOC_PLACE_CAP];
    struct alloc_note end;
    struct local_attempt *prev, *next;
};

/* mgpu-gpuwatch, as we see it. */
struct gpu_watch {
    int fd, pidfd; /* -1: there is none */
    char line[256];
    size_t len;
    uint32_t asked, answered;
    double again_s;   /* without one: when to start one, on the real clock */
    bool is_accepted; /* what the GPUs say of themselves at the beginning */
    bool is_news;     /* the inventory is another one */
    char why[80];     /* nothing is watched; "" */
};

struct local_gpu {
    struct nvml_gpu gpu;
    char why[NVML_WHY_CAP]; /* it failed meanwhile: nothing new goes there */
};

struct alloc_local {
    struct alloc base;
    char *mpirun, *shepherd, *watcher, *nvml; /* owned; the last two may be
                                                 NULL */
    int64_t max_fds;                          /* alloc_local_conf */
    char host[ALLOC_NODE_NAME_CAP];
    int32_t n_slots;
    struct local_gpu gpus[GPUS_CAP]; /* [n_slots] unless they are declared */
    struct gpu_watch watch;
    bool has_gpus;
    void (*tell)(const char *what); /* NULL: nobody is told */
    int32_t n_lost; /* of the GPUs: booked for ever, and no part of what there
                       is; see local_n_there() */
    char why[96];   /* there are no GPUs to be seen, or not all */
    int32_t busy[SLOTS_CAP];
    struct local_attempt *first, *last; /* by age */
    size_t n_live, n_ended;
    struct notes notes;
    bool wants_start; /* something may wait that nobody has looked at */
    int epoll_fd, event_fd, timer_fd;
};

struct local_attempt *local_find(const struct alloc_local *l, uint64_t job,
                                 int32_t attempt);
int local_new(struct alloc_local *l, const struct alloc_req *req,
              struct local_attempt **ret, struct error *err) MUST_CHECK;
/* Takes it off the list and frees it; one that lives must not be counted as
 * live any more. */
void local_drop(struct alloc_local *l, struct local_attempt *a);
void local_push(struct alloc_local *l, const struct local_attempt *a,
                struct alloc_note note);
int32_t local_n_free(const struct alloc_local *l);
int32_t local_n_there(const struct alloc_local *l); /* slots, free or not */

/* ---- local_gpus.c ---- */
bool local_is_usable(const struct alloc_local *l, int32_t slot); /* and free */
/* Starts the watch if there are GPUs and none; a failure is kept for
 * local_gpus_why(). */
void local_gpus_watch(struct alloc_local *l);
void local_gpus_leave(struct alloc_local *l); /* ends it; waits a second */
/* Takes what it has said, and starts it again when it is time. */
void local_gpus_listen(struct alloc_local *l);
/* Has it look at the GPUs now; what it then knows it has said by the time that
 * it has answered. ret  0: nobody is there to ask */
uint32_t local_gpus_ask(struct alloc_local *l);
bool local_gpus_has_answered(const struct alloc_local *l, uint32_t ask);
/* Puts into the node which have failed. */
void local_gpus_drained(const struct alloc_local *l, struct alloc_node *io);
/* What is wrong with the machine, for people. */
void local_gpus_why(const struct alloc_local *l, char *ret, size_t cap);
/* Whether one that the attempt has has failed; if so, *ret says it. */
bool local_gpus_blame(const struct alloc_local *l,
                      const struct local_attempt *a, struct error *ret);
/* Uses again what has failed, unless it fails again. False: nothing has. */
bool local_gpus_mend(struct alloc_local *l);

/* Finds out from the directory alone how things stand, and sets the state.
 * What cannot be told yet is UNSURE: look again in a moment. */
int local_look(struct alloc_local *l, struct local_attempt *a,
               struct error *err) MUST_CHECK;
/* Lets one that waits run; on failure nothing was started. */
int local_start(struct alloc_local *l, struct local_attempt *a,
                struct error *err) MUST_CHECK;
/* Whatever has happened to it since. */
void local_advance(struct alloc_local *l, struct local_attempt *a);
int local_tell(const struct local_attempt *a, int signo, int value,
               struct error *err) MUST_CHECK;
/* Ends one that waits, for good. */
int local_end_unstarted(struct alloc_local *l, struct local_attempt *a,
                        struct error *err) MUST_CHECK;

#endif
