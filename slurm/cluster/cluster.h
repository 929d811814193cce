/* cluster.h - internals of the Slurm allocator, for its own files.
 *
 * alloc_slurm.c is the seam: requests, polling, alarms. An attempt's state
 * machine is in cluster_attempt_slurm.c, its commands in cluster_send_slurm.c.
 * cluster_lost_slurm.c decides about an attempt that is no longer in sight, and
 * cluster_end_slurm.c how an attempt ended. cluster_jobs_slurm.c keeps the jobs
 * that Slurm shows with our tags; cluster_socket_slurm.c and
 * cluster_read_slurm.c exchange messages with mgpu-slurm-helper.
 *
 * The phases of an attempt:
 *
 *   TO_SUBMIT   Slurm certainly has no job of it: submit when Slurm answers
 *   SUBMITTING  the command is in flight
 *   UNSURE      Slurm may have a job of it that is not in sight: the answer
 *               was lost, there was no scan yet, an earlier daemon may have
 *               submitted it, or Slurm has forgotten it
 *   SEEN        in sight, pending or running
 *   READING     it has ended; the exit file is being read
 *   ENDED       its end is known
 *
 * An attempt moves from UNSURE to SEEN when its tag comes into sight, to ENDED
 * when there is an exit file. It moves back to TO_SUBMIT only after complete
 * scans of a Slurm that answers, for reconcile_after_s, without its tag; if a
 * worker has claimed the attempt, it did run, and is LOST instead. Before that,
 * and if the exit file has a failure without its cause, the allocator queries
 * Slurm's accounting, where there is one: the user may have cancelled it.
 *
 * Several jobs may have the same tag: a submit that timed out and was repeated
 * was accepted after all. The job whose worker claims the lease is the real
 * one; the allocator kills the others. Jobs of another user are never ours,
 * whatever their comment says.
 *
 * slurmctld may lose a submission whose batch step still runs. The batch step
 * of the next submission then finds it in the attempt's directory, or does not
 * start at all: if it has the same id on the same node, slurmd cancels it as a
 * duplicate. Until a worker has claimed the attempt nothing has run, so such an
 * end is a loss by Slurm (is_forgotten), and the job keeps its retries, unless
 * a person cancelled that submission. The marks in the files tell which
 * submission wrote them (attempt_dir.h).
 *
 * An attempt has at most one command in flight, all attempts together at most
 * COMMANDS_CAP; the next command is always derived from the state. So no queue
 * grows here while Slurm does not answer. */
#ifndef MGPU_SLURM_CLUSTER_CLUSTER_H
#define MGPU_SLURM_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "slurm/alloc.h"
#include "slurm/protocol/helper_wire.h"

enum {
    CLUSTER_BUCKETS = 4096,
    CLUSTER_JOBS_CAP = 16384, /* Slurm's own MaxJobCount is 10000 */
    CLUSTER_COPIES_CAP = 8,   /* jobs with one tag */
    CLUSTER_ENDED_CAP = 1000, /* how many ended attempts are remembered: a
                               * duplicate may come into sight later */
    CLUSTER_COMMANDS_CAP = 64,
    CLUSTER_SUBMITS_CAP = 16, /* the helper executes them one by one, and a
                               * kill should not wait behind many */
};

/* ---- jobs in Slurm --------------------------------------------------------
 */
enum cluster_is {
    CLUSTER_PENDING,
    CLUSTER_RUNNING,
    CLUSTER_COMPLETING, /* over, but its resources are not free yet */
    CLUSTER_OVER,
};

struct cluster_job {
    struct helper_job j;
    enum cluster_is is;
    uint64_t generation; /* of the helper that reported it last */
    uint64_t job;        /* the job number in the tag */
    int32_t attempt;
    struct cluster_job *by_key, *by_id; /* the next in the bucket */
};

/* ---- attempts -------------------------------------------------------------
 */
enum cluster_phase {
    CLUSTER_TO_SUBMIT,
    CLUSTER_SUBMITTING,
    CLUSTER_UNSURE,
    CLUSTER_SEEN,
    CLUSTER_READING,
    CLUSTER_ENDED,
};

enum {
    CLUSTER_SAY_WAITING = 1,
    CLUSTER_SAY_GRANTED = 2,
    CLUSTER_SAY_END = 4,
    CLUSTER_SAY_LIMIT = 8,
    CLUSTER_SAY_PRIORITY = 16,
};

struct cluster_attempt {
    enum cluster_phase phase;
    struct alloc_req req;     /* its strings are in `strings` */
    char *strings;            /* owned; NULL once it has ended */
    char tag[HELPER_TAG_CAP]; /* valid after `strings` is freed */

    /* the command in flight */
    uint64_t command; /* 0: none */
    enum helper_op op;
    int signo;
    uint64_t submit; /* the last SUBMIT; its answer may come late */

    /* in Slurm */
    uint32_t slurm_id;      /* 0: unknown */
    struct helper_job seen; /* SEEN and later: the last news of it */
    enum cluster_is is;
    uint32_t claimed_id; /* the job whose worker has the lease; 0: unknown */
    bool is_claimed;
    bool has_run, was_granted; /* this job; GRANTED was reported */
    bool is_suspended;
    bool was_lost; /* slurmctld lost an earlier submission or start of it */
    int waits;     /* scans since the claim that show it pending */
    char place[ALLOC_PLACE_CAP];

    /* UNSURE */
    bool may_have_run; /* an exit file may exist */
    bool is_gone;      /* not in sight for reconcile_after_s */
    bool wants_exit;   /* read the exit file */
    bool wants_recall; /* query accounting: the last resort */
    bool has_file;     /* the exit file was read: a failure */
    int32_t file_code, file_signal;
    uint32_t file_id;
    int64_t file_ended_ms;
    int reads;       /* consecutive failed reads of the exit file */
    double absent_s; /* not in sight since; NAN: no scan yet */

    double retry_s;      /* earliest time to submit or read the exit file */
    double completing_s; /* SEEN: since when it completes; NAN */

    /* release and signals */
    bool must_not_start;                /* ALLOC_FIND */
    bool is_released, is_cancelled;     /* cancelled: its job, by a user */
    bool is_told_once, is_told, is_hit; /* SIGTERM sent, delivered; SIGKILL
                                         * sent */
    double grace_s;                     /* from SIGTERM to SIGKILL */
    double kill_s;                      /* time of the SIGKILL */
    double act_s;     /* earliest time of the next step of the release */
    uint64_t signals; /* bit n - 1: signal n has to be sent */

    /* the time limit, which is req.limit_s */
    bool wants_limit;       /* Slurm has to be told */
    double limit_again_s;   /* earliest time to do so */
    double limit_sent_s;    /* of the last command */
    double limit_before_s;  /* if Slurm refuses: what it has */
    bool has_limit_min;     /* limit_min is what Slurm showed, or took, last */
    int32_t limit_min;      /* 0: none */
    struct error limit_why; /* of the note */
    bool limit_is_default;  /* likewise: Slurm gave it, as none was named */
    bool has_nice;          /* nice is what Slurm showed last, of this job */
    int32_t nice, nice_was; /* nice_was: at the last PRIORITY */
    double stray_s;         /* earliest time to kill a duplicate (again) */

    /* notes that are due */
    unsigned unsaid;
    struct error why;  /* WAITING */
    bool is_over_size; /* WAITING: as alloc_note.is_of_size */
    int64_t expected;  /* WAITING: as alloc_note.expected_s */
    struct alloc_note end;
    bool is_refused; /* ENDED; freed once the note is taken */

    struct cluster_attempt *prev, *next; /* by age */
    struct cluster_attempt *next_unsaid, *by_key;
};

struct cluster {
    struct alloc base;
    char *name; /* owned */
    double reconcile_after_s, stale_s;
    const struct clock *clock;

    /* the helper */
    int fd;
    struct buf in, out;
    bool is_dead; /* permanently; `why_dead` */
    struct error why_dead;
    uint64_t serial, generation;
    bool has_hello, is_down;
    struct error why_down;
    int64_t down_since;
    double heard_s; /* time of the last line */
    bool was_stale;
    size_t n_commands, n_submits;

    /* Slurm */
    struct alloc_node *nodes; /* owned */
    size_t n_nodes;
    bool has_nodes;
    struct alloc_partition *parts, *new_parts; /* owned; new: being sent */
    size_t n_parts, n_new_parts;
    struct alloc_quota *quotas, *new_quotas; /* likewise */
    size_t n_quotas, n_new_quotas;
    struct cluster_job *jobs_by_key[CLUSTER_BUCKETS];
    struct cluster_job *jobs_by_id[CLUSTER_BUCKETS];
    size_t n_jobs;
    bool is_blind;  /* jobs were dropped: a missing tag proves nothing */
    double again_s; /* earliest time to request all news again, because of
                     * is_blind */

    struct cluster_attempt *first, *last;
    struct cluster_attempt *by_key[CLUSTER_BUCKETS];
    size_t n_ended;

    struct cluster_attempt *unsaid, *last_unsaid;
    bool say_inventory;

    int epoll_fd, event_fd, timer_fd;
    uint32_t watched; /* events polled on fd; 0: none */
};

static inline double cluster_now(const struct cluster *c)
{
    return c->clock->now_s(c->clock);
}

static inline size_t cluster_bucket(uint64_t job, int32_t attempt)
{
    uint64_t h = (job * 31 + (uint64_t)attempt) * 0x9e3779b97f4a7c15ULL;
    return (size_t)(h >> 52); /* 12 bits: CLUSTER_BUCKETS */
}

/* ---- cluster_jobs_slurm.c -------------------------------------------------
 */
/* Adds or updates a job. A job that had this id before with another tag, or
 * another time of submission, is removed first.
 *
 * out  ret_gone  a copy of the removed job; tag "" if none was removed
 * ret  NULL: not a job of ours, or no room (then is_blind) */
const struct cluster_job *cluster_jobs_put(struct cluster *c,
                                           const struct helper_job *j,
                                           struct helper_job *ret_gone);
/* Removes a job; false: there was none. */
bool cluster_jobs_drop(struct cluster *c, const char *tag, uint32_t slurm_id);
/* Its worker was refused because another one has the lease, or its batch step
 * because another one runs the attempt. */
bool cluster_was_fenced(const struct helper_job *j);
/* The attempt's next job after `after` (NULL: the first). */
const struct cluster_job *cluster_jobs_next(const struct cluster *c,
                                            const struct cluster_attempt *a,
                                            const struct cluster_job *after);
/* The job that is the attempt; NULL: none in sight. */
const struct cluster_job *cluster_jobs_pick(const struct cluster *c,
                                            const struct cluster_attempt *a);
/* Removes a job that the present helper has not reported; returns its tag. */
bool cluster_jobs_take_old(struct cluster *c, size_t *at,
                           struct helper_job *ret);
void cluster_jobs_clear(struct cluster *c);

/* ---- cluster_read_slurm.c -------------------------------------------------
 */
void cluster_news(struct cluster *c, const char *line, size_t len);

/* ---- cluster_socket_slurm.c -----------------------------------------------
 */
/* Sends a command and makes it the attempt's. False: not now (too many in
 * flight); err is set only for a permanent error. */
bool cluster_send(struct cluster *c, struct cluster_attempt *a,
                  struct helper_cmd *cmd, struct error *err);
/* Tells the helper to send all news again. False: not now. */
bool cluster_send_again(struct cluster *c);
/* The attempt's command is finished. */
void cluster_done(struct cluster *c, struct cluster_attempt *a);
/* Reads available lines and passes each to `each`. */
void cluster_read(struct cluster *c,
                  void (*each)(struct cluster *c, const char *line,
                               size_t len));
void cluster_write(struct cluster *c);

/* ---- cluster_table_slurm.c ------------------------------------------------
 */
/* False if it is not a tag of this cluster. */
bool cluster_tag_parse(const char *cluster, const char *tag, uint64_t *ret_job,
                       int32_t *ret_attempt);
/* Slurm's id as a number; 0: not an id. */
uint32_t cluster_id(const char *native_id);
struct cluster_attempt *cluster_find(const struct cluster *c, uint64_t job,
                                     int32_t attempt);
struct cluster_attempt *cluster_find_tag(const struct cluster *c,
                                         const char *tag);
int cluster_new(struct cluster *c, const struct alloc_req *req,
                struct cluster_attempt **ret, struct error *err) MUST_CHECK;
void cluster_drop(struct cluster *c, struct cluster_attempt *a);
void cluster_say(struct cluster *c, struct cluster_attempt *a, unsigned what);
/* Makes a WAITING note due, if the reason has changed. */
void cluster_wait(struct cluster *c, struct cluster_attempt *a,
                  enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- cluster_attempt_slurm.c ----------------------------------------------
 */
/* Handles a change of its jobs in Slurm. */
void cluster_look(struct cluster *c, struct cluster_attempt *a);
void cluster_reply(struct cluster *c, struct cluster_attempt *a,
                   const struct helper_news *n);
/* Handles the loss of the answer to its command. */
void cluster_lose(struct cluster *c, struct cluster_attempt *a,
                  const char *why);
/* Its job is over: read the exit file next. */
void cluster_is_over(struct cluster_attempt *a);
/* Handles the end of a complete scan, or the first scan after a restart. */
void cluster_scanned(struct cluster *c, struct cluster_attempt *a);
void cluster_unscanned(struct cluster_attempt *a);

/* ---- cluster_lost_slurm.c -------------------------------------------------
 */
/* Whether the error is temporary, so that a retry may succeed. */
bool cluster_may_pass(const struct error *why);
/* Slurm does not have it. n: accounting's answer; booted 0: accounting was not
 * queried. */
void cluster_absent(struct cluster *c, struct cluster_attempt *a,
                    const struct helper_news *n);
/* Handle the answers to READ_EXIT and RECALL. */
void cluster_exit_read(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_news *n);
void cluster_recalled(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *n);

/* ---- cluster_send_slurm.c -------------------------------------------------
 */
/* Another limit of a job in sight than the last one: somebody changed it in
 * Slurm. */
void cluster_limit_seen(struct cluster *c, struct cluster_attempt *a,
                        const struct helper_job *j);
/* The nice value of a pending job: another one than before is somebody's. */
void cluster_nice_seen(struct cluster *c, struct cluster_attempt *a,
                       int32_t nice);
/* The note that is due. */
struct alloc_note cluster_priority_note(struct cluster_attempt *a);
/* As alloc_ops has it. */
int cluster_limit(struct alloc *base, uint64_t job, int32_t attempt,
                  double limit_s, struct error *err);
/* Handles the answer to LIMIT. */
void cluster_limit_set(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_news *n);
/* Sends the commands that are due. The second one: submits. */
void cluster_advance(struct cluster *c, struct cluster_attempt *a);
void cluster_submit(struct cluster *c, struct cluster_attempt *a);
/* Time of the next call; INFINITY: only after an event. */
double cluster_next_s(const struct cluster *c, const struct cluster_attempt *a);

/* ---- alloc_slurm.c --------------------------------------------------------
 */
/* Why Slurm is unavailable, and since when; NULL: it is available. `ret` holds
 * the text. */
const char *alloc_slurm_why_down(const struct cluster *c, struct error *ret);

/* ---- cluster_end_slurm.c --------------------------------------------------
 */
void cluster_end_unstarted(struct cluster *c, struct cluster_attempt *a);
void cluster_end_lost(struct cluster *c, struct cluster_attempt *a,
                      const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* in is_of_size perhaps fewer GPUs are not refused */
void cluster_end_refused(struct cluster *c, struct cluster_attempt *a,
                         const struct error *why, bool is_of_size);
/* Slurm took it away for another job, or was told to queue it again. */
void cluster_end_preempted(struct cluster *c, struct cluster_attempt *a,
                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* It was reported as ended with one job, but another job's worker has the
 * lease. */
void cluster_end_instead(struct cluster *c, struct cluster_attempt *a,
                         uint32_t slurm_id);
/* Its job is over; `file` is the exit file, NULL: there is none. */
void cluster_end_over(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file);
/* Slurm itself has lost it, as after a kill before it saved its state: the job
 * keeps its retries. */
void cluster_end_forgotten(struct cluster *c, struct cluster_attempt *a,
                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Slurm has forgotten it; accounting has its end. file as above. */
void cluster_end_recalled(struct cluster *c, struct cluster_attempt *a,
                          const struct helper_news *n,
                          const struct helper_news *file);
/* slurmctld has kept its state since it accepted the attempt, and does not know
 * it any more: it has ended without having started. */
void cluster_end_unseen(struct cluster *c, struct cluster_attempt *a);
/* Slurm has forgotten it; the exit file has its end. */
void cluster_end_file(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file);

#endif
