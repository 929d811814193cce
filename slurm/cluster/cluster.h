/* cluster.h - the inside of the Slurm allocator, for its own files.
 *
 * alloc_slurm.c is the seam: requests, polling, alarms. An attempt's state
 * machine is in cluster_attempt_slurm.c, what it sends in cluster_send_slurm.c,
 * what becomes of one that is out of sight in cluster_lost_slurm.c, how one
 * ends in cluster_end_slurm.c. cluster_jobs_slurm.c knows which jobs
 * Slurm shows under our tags, cluster_socket_slurm.c and cluster_read_slurm.c
 * speak with mgpu-slurm-helper.
 *
 * What is known of an attempt, and how it moves on:
 *
 *   TO_SUBMIT   Slurm surely has no job of it: submit when Slurm is there
 *   SUBMITTING  the command is under way
 *   UNSURE      Slurm may have a job of it that is not in sight: the answer
 *               was lost, it is not scanned yet, an earlier life may have
 *               submitted it, or Slurm has forgotten it
 *   SEEN        in sight, pending or running
 *   READING     it has ended; the exit file is being read
 *   ENDED       and how
 *
 * From UNSURE the sight of the tag leads to SEEN, an exit file to ENDED, and
 * only complete scans of a Slurm that answers, for as long as
 * reconcile_after_s, none of which shows the tag, back to TO_SUBMIT - or to
 * a loss, if a worker has claimed the attempt: then it did run. Before that,
 * and where the exit file tells of a failure and not why, Slurm's accounting
 * is asked, where there is one: its user may have cancelled it.
 *
 * One tag may be on several jobs: a submit that timed out was carried out
 * after all, after it was repeated. The worker that claims the lease says
 * which is real; the others are killed. Jobs of another user are never ours,
 * whatever their comment says.
 *
 * slurmctld may lose a submission whose batch step still runs. The next one's
 * batch step then finds it in the attempt's directory, or does not start at
 * all: with the same id on the same node slurmd cancels it as a second copy.
 * Until a worker has claimed the attempt nothing has run, so such an end is a
 * loss by Slurm (is_forgotten), at no cost to the job, unless somebody
 * cancelled that submission. What the files say of which one their marks tell
 * (attempt_dir.h).
 *
 * Of each attempt at most one command is under way, and of all together at
 * most COMMANDS_CAP; what is to be done is always found again from the state.
 * So nothing queues up here while Slurm is away.
 */
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
    CLUSTER_ENDED_CAP = 1000, /* so many ended attempts are remembered: a
                                 duplicate may come into sight later */
    CLUSTER_COMMANDS_CAP = 64,
    CLUSTER_SUBMITS_CAP = 16, /* the helper carries them out one by one, and a
                                 kill should not wait for many */
};

/* ---- jobs that Slurm shows ------------------------------------------------
 */
enum cluster_is {
    CLUSTER_PENDING,
    CLUSTER_RUNNING,
    CLUSTER_COMPLETING, /* over, but its resources are not free */
    CLUSTER_OVER,
};

struct cluster_job {
    struct helper_job j;
    enum cluster_is is;
    uint64_t generation; /* of the helper that told of it last */
    uint64_t job;        /* the tag's */
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

enum { CLUSTER_SAY_WAITING = 1, CLUSTER_SAY_GRANTED = 2, CLUSTER_SAY_END = 4 };

struct cluster_attempt {
    enum cluster_phase phase;
    struct alloc_req req;     /* its strings are in `strings` */
    char *strings;            /* owned; NULL once it has ended */
    char tag[HELPER_TAG_CAP]; /* outlives them */

    /* the command under way */
    uint64_t command; /* 0: none */
    enum helper_op op;
    int signo;
    uint64_t submit; /* the last SUBMIT; its answer may come late */

    /* in Slurm */
    uint32_t slurm_id;      /* 0: not known */
    struct helper_job seen; /* SEEN and later: what was told last */
    enum cluster_is is;
    uint32_t claimed_id; /* the job whose worker has the lease; 0: not known */
    bool is_claimed;
    bool has_run, was_granted; /* this job; told so in this life */
    bool is_suspended;
    bool was_lost; /* slurmctld lost an earlier submission, or a start, of it */
    int waits;     /* scans since the claim that show it pending */
    char place[ALLOC_PLACE_CAP];

    /* UNSURE */
    bool may_have_run; /* there may be an exit file */
    bool is_gone;      /* not in sight for reconcile_after_s */
    bool wants_exit;   /* read the exit file */
    bool wants_recall; /* ask accounting: the last that can be done */
    bool has_file;     /* what the exit file said: it failed */
    int32_t file_code, file_signal;
    uint32_t file_id;
    int64_t file_ended_ms;
    int reads;       /* of the exit file that failed in a row */
    double absent_s; /* not in sight since; NAN: not scanned since */

    double retry_s;      /* not before: submit, read the exit file */
    double completing_s; /* SEEN: since when; NAN */

    /* to be ended, signalled */
    bool must_not_start; /* ALLOC_FIND */
    bool is_released;
    bool is_told_once, is_told, is_hit; /* SIGTERM sent, heard; SIGKILL sent */
    double kill_s;                      /* SIGKILL from then on */
    double act_s;     /* not before: the next step of the release */
    uint64_t signals; /* bit n - 1: signal n is to be sent */
    double stray_s;   /* not before: kill a duplicate (again) */

    /* what is to be told */
    unsigned unsaid;
    struct error why; /* WAITING */
    struct alloc_note end;
    bool is_refused; /* ENDED; forgotten once it is told */

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
    bool is_dead; /* for good; `why_dead` */
    struct error why_dead;
    uint64_t serial, generation;
    bool has_hello, is_down;
    struct error why_down;
    int64_t down_since;
    double heard_s; /* the last line */
    bool was_stale;
    size_t n_commands, n_submits;

    /* Slurm */
    struct alloc_node *nodes; /* owned */
    size_t n_nodes;
    bool has_nodes;
    struct cluster_job *jobs_by_key[CLUSTER_BUCKETS];
    struct cluster_job *jobs_by_id[CLUSTER_BUCKETS];
    size_t n_jobs;
    bool is_blind;  /* jobs were dropped: a tag not in sight proves nothing */
    double again_s; /* not before: ask to be told all anew, for that */

    struct cluster_attempt *first, *last;
    struct cluster_attempt *by_key[CLUSTER_BUCKETS];
    size_t n_ended;

    struct cluster_attempt *unsaid, *last_unsaid;
    bool say_inventory;

    int epoll_fd, event_fd, timer_fd;
    uint32_t watched; /* events of fd; 0: not watched */
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
/* Takes news of a job in. A job that had this id before under another tag, or
 * was submitted at another time, is taken out first.
 *
 * out  ret_gone  a copy of the one that was taken out; tag "" if none was
 * ret  NULL: not ours to know, or no room (then is_blind) */
const struct cluster_job *cluster_jobs_put(struct cluster *c,
                                           const struct helper_job *j,
                                           struct helper_job *ret_gone);
/* False: there was none. */
bool cluster_jobs_drop(struct cluster *c, const char *tag, uint32_t slurm_id);
/* Its worker was told that another one has the lease, or its batch step that
 * another one has the attempt. */
bool cluster_was_fenced(const struct helper_job *j);
/* The next job of the attempt after `after` (NULL: the first). */
const struct cluster_job *cluster_jobs_next(const struct cluster *c,
                                            const struct cluster_attempt *a,
                                            const struct cluster_job *after);
/* The one that is the attempt; NULL: none of them is in sight. */
const struct cluster_job *cluster_jobs_pick(const struct cluster *c,
                                            const struct cluster_attempt *a);
/* Takes out a job that the present helper has not told of; its tag. */
bool cluster_jobs_take_old(struct cluster *c, size_t *at,
                           struct helper_job *ret);
void cluster_jobs_clear(struct cluster *c);

/* ---- cluster_read_slurm.c -------------------------------------------------
 */
void cluster_news(struct cluster *c, const char *line, size_t len);

/* ---- cluster_socket_slurm.c -----------------------------------------------
 */
/* Sends, and makes it the attempt's command. False: not now (too many are
 * under way); on an error that is no passing one err is set, too. */
bool cluster_send(struct cluster *c, struct cluster_attempt *a,
                  struct helper_cmd *cmd, struct error *err);
/* The helper is to tell all that it sees anew. False: not now. */
bool cluster_send_again(struct cluster *c);
/* The attempt's command is over. */
void cluster_done(struct cluster *c, struct cluster_attempt *a);
/* Reads what there is and hands each line to `each`. */
void cluster_read(struct cluster *c,
                  void (*each)(struct cluster *c, const char *line,
                               size_t len));
void cluster_write(struct cluster *c);

/* ---- cluster_table_slurm.c ------------------------------------------------
 */
/* False when it is no tag of this cluster. */
bool cluster_tag_parse(const char *cluster, const char *tag, uint64_t *ret_job,
                       int32_t *ret_attempt);
/* Slurm's id as a number; 0: it is none. */
uint32_t cluster_id(const char *native_id);
struct cluster_attempt *cluster_find(const struct cluster *c, uint64_t job,
                                     int32_t attempt);
struct cluster_attempt *cluster_find_tag(const struct cluster *c,
                                         const char *tag);
int cluster_new(struct cluster *c, const struct alloc_req *req,
                struct cluster_attempt **ret, struct error *err) MUST_CHECK;
void cluster_drop(struct cluster *c, struct cluster_attempt *a);
void cluster_say(struct cluster *c, struct cluster_attempt *a, unsigned what);
/* WAITING, if the reason is another one than before. */
void cluster_wait(struct cluster *c, struct cluster_attempt *a,
                  enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- cluster_attempt_slurm.c ----------------------------------------------
 */
/* Something about its jobs in Slurm has changed. */
void cluster_look(struct cluster *c, struct cluster_attempt *a);
void cluster_reply(struct cluster *c, struct cluster_attempt *a,
                   const struct helper_news *n);
/* The answer to its command will not come. */
void cluster_lose(struct cluster *c, struct cluster_attempt *a,
                  const char *why);
/* Its job is over: the exit file is read next. */
void cluster_is_over(struct cluster_attempt *a);
/* A complete scan has ended; or: scans begin anew. */
void cluster_scanned(struct cluster *c, struct cluster_attempt *a);
void cluster_unscanned(struct cluster_attempt *a);

/* ---- cluster_lost_slurm.c -------------------------------------------------
 */
/* What may be otherwise when it is tried again. */
bool cluster_may_pass(const struct error *why);
/* Slurm does not have it. n: what recall said; booted 0: it was not asked. */
void cluster_absent(struct cluster *c, struct cluster_attempt *a,
                    const struct helper_news *n);
/* The answers to READ_EXIT and RECALL. */
void cluster_exit_read(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_news *n);
void cluster_recalled(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *n);

/* ---- cluster_send_slurm.c -------------------------------------------------
 */
/* Sends what is to be sent now. The second: submits. */
void cluster_advance(struct cluster *c, struct cluster_attempt *a);
void cluster_submit(struct cluster *c, struct cluster_attempt *a);
/* When to do so again; INFINITY: not before something happens. */
double cluster_next_s(const struct cluster *c, const struct cluster_attempt *a);

/* ---- alloc_slurm.c --------------------------------------------------------
 */
/* Why Slurm is not to be had, and since when; NULL: it is. `ret` holds it. */
const char *cluster_why_down(const struct cluster *c, struct error *ret);

/* ---- cluster_end_slurm.c --------------------------------------------------
 */
void cluster_end(struct cluster *c, struct cluster_attempt *a,
                 const struct alloc_note *note);
void cluster_end_unstarted(struct cluster *c, struct cluster_attempt *a);
void cluster_end_lost(struct cluster *c, struct cluster_attempt *a,
                      const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void cluster_end_refused(struct cluster *c, struct cluster_attempt *a,
                         const struct error *why);
/* It had ended as one job, and another one has the lease after all. */
void cluster_end_instead(struct cluster *c, struct cluster_attempt *a,
                         uint32_t slurm_id);
/* Its job is over; the exit file says `file`, NULL: there is none. */
void cluster_end_over(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file);
/* Slurm itself has lost it, as when it was killed before it saved its state:
 * none of its retries is used up. */
void cluster_end_forgotten(struct cluster *c, struct cluster_attempt *a,
                           const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Slurm has forgotten it; its accounting says how it ended. file as above. */
void cluster_end_recalled(struct cluster *c, struct cluster_attempt *a,
                          const struct helper_news *n,
                          const struct helper_news *file);
/* Slurm has never lost its state since it took the attempt, and knows it no
 * more: it has ended, and never began. */
void cluster_end_unseen(struct cluster *c, struct cluster_attempt *a);
/* Slurm has forgotten it, and the exit file says. */
void cluster_end_file(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file);

#endif
