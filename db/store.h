/* store.h - the store seam: job events, job and attempt rows, and metrics on
 * disk.
 *
 * Implementations: sqlite (state.db and metrics.db in one directory), mem (for
 * the simulator and tests), faulty (wraps any of them and fails, or kills the
 * process at, the n-th call). tests/contract/store*.c are the specification and
 * run against each.
 *
 * Events are the truth; job and attempt rows are the fold's latest values,
 * written in the same transaction as the events that changed them, so that SQL
 * can query the fold's results. Metrics live in a second file: a transaction
 * never spans both.
 *
 * Threads: one thread at a time may call append/load, and one other thread
 * rows(); any thread may call query() and the functions that read the archive
 * (each has its own connection). */
#ifndef MGPU_DB_STORE_H
#define MGPU_DB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/state.h"
#include "jobs/wire/metric_rows.h"

struct store_event {
    uint64_t seq; /* assigned by append: 1, 2, 3 ... without gaps */
    uint64_t job;
    int32_t attempt;    /* 0 before the first */
    enum job_event ev;  /* EV_N: load() found an unknown word */
    double at_s;        /* seconds since 1970 */
    int64_t uid;        /* the user who caused it; -1: the daemon itself */
    const char *detail; /* JSON object text, or NULL; borrowed */
};

/* Times are seconds since 1970, or NAN for "not yet"; text may be NULL. */
struct store_job {
    uint64_t id;
    const char *name, *user, *kind; /* "cv", "command", "llm" */
    int64_t uid;
    const char *state;  /* job_state_name() */
    const char *reason; /* why it is pending, or why it ended */
    int32_t priority, gpus_min, gpus_max, gpus; /* gpus: held or last held */
    int32_t attempt;
    int32_t exit_code; /* as mgpu-submit --wait reports it; -1: not ended */
    double submit_s, start_s, end_s;
    const char *idempotency_key;
    const char *spec; /* resolved, JSON */
    const char *dir;
};

struct store_attempt {
    uint64_t job;
    int32_t attempt;
    const char *state; /* of the job, last in this attempt */
    const char *native_id, *place, *reason;
    const char *class;         /* the workload class, which determines speed;
                                * NULL: unknown */
    int32_t gpus, nodes;       /* nodes 0: unknown */
    int32_t exit_code, signal; /* exit_code -1: not ended */
    double intent_s, claim_s, run_s, end_s;
    /* What a resize cost; resized_from 0: there was none. */
    int32_t resized_from; /* GPUs that the job had before */
    double checkpoint_s, allocator_s, start_s; /* what it cost */
    /* "memory", "host_memory": a rank refused its plan; NULL: none did */
    const char *cause;
    int64_t needed_bytes, available_bytes;
    const char *gpu_type; /* of its first node; NULL: unknown */
    const char *account;  /* that it was charged to; NULL: none */
};

/* An ended job that the daemon has evicted from memory. Archiving moves no
 * data: its events and rows stay, but load() skips them. A job is never
 * unarchived, so these fields are final. */
struct store_archived {
    uint64_t job;
    int64_t uid;
    const char *key;      /* idempotency key; NULL: none */
    enum job_state state; /* a final one; JOB_STATE_N: unknown name */
    double end_s;
    /* From its row; not archived themselves, and NULL unless requested. */
    const char *name, *user;
    /* A summary for lists, in the format of the caller that archives it, see
     * lines(); NULL: none. archived() does not return it. */
    const char *line;
};

struct store_batch {            /* becomes durable atomically */
    struct store_event *events; /* seq is filled in */
    size_t n_events;
    /* Inserted, or updated by id. NULL in name, user, kind, key, spec and dir
     * keeps the row's value. */
    const struct store_job *jobs;
    size_t n_jobs;
    const struct store_attempt *attempts; /* by (job, attempt) */
    size_t n_attempts;
    const struct store_archived *archived; /* those not archived yet; by id */
    size_t n_archived;
};

/* How many jobs are archived, and the highest numbers in the log. */
struct store_past {
    uint64_t n[JOB_STATE_N]; /* archived jobs by state */
    uint64_t last_job;       /* the highest archived or removed job; 0: there is
                              * none */
    uint64_t last_seq;       /* of all events */
};

/* A job that was archived, and then removed. */
struct store_removed {
    uint64_t job;
    double end_s, removed_s; /* NAN: unknown */
};

enum store_archive_order {
    ARCHIVE_BY_ID,
    ARCHIVE_NEWEST, /* the highest number first */
    /* By time of the end, earliest first; by number if equal. Without jobs
     * whose end is unknown. */
    ARCHIVE_BY_END
};

/* Selects archived jobs with numbers above `after` and below `before` that
 * ended at since_s or later; with a key, those of that uid with the key. In the
 * order of their ends, `after` only applies to jobs that ended at since_s: to
 * continue a list, pass the last job's end and number. */
struct store_archive_query {
    enum store_archive_order order; /* with a key: by id */
    uint64_t after, before;         /* before 0: no bound */
    double since_s;                 /* -INFINITY: any time */
    const char *key;
    int64_t uid;
    bool has_names; /* without a key: return name and user */
    int64_t limit;  /* 0: no limit */
};

/* The views of mgpu-db(5), which query() can read. */
enum store_view {
    VIEW_JOB,
    VIEW_ATTEMPT,
    VIEW_EVENT,
    VIEW_USAGE, /* attempts, of removed jobs as well */
    VIEW_ITERATION,
    VIEW_EPOCH,
    VIEW_METRIC,
    VIEW_PROFILE,
    VIEW_SCALING,
    VIEW_N
};

const char *store_view_name(enum store_view v); /* "v_job", ... */

struct store_query {
    enum store_view view;
    uint64_t job;    /* 0: all; in VIEW_SCALING: all classes in which the job
                      * ran */
    int32_t attempt; /* 0: all; VIEW_JOB has no attempts to choose from */
    int32_t rank;    /* -1: all; ignored if the view has no ranks */
    int64_t after;   /* rows whose key is > this; 0: all. The key: job, attempt,
                      * seq, ended_at (an attempt that has not ended is after
                      * any), iteration, epoch, iteration, epoch, gpus */
    int64_t limit;   /* 0: no limit */
    int32_t last;    /* 1: the last `limit` rows, still in key order */
};

/* A size that a class of jobs has not run on, relative to a measured one. */
struct store_guess {
    int32_t gpus, nodes;
    const char *basis; /* rate_basis_name(), not "measured"; borrowed */
    int32_t base_gpus, base_nodes;
    double rate_ratio, t_iter_ratio; /* times those of the measured size */
};

/* One step of deleting all metric rows of jobs that ended long ago. */
struct store_purge {
    double before_s; /* jobs that ended before this */
    size_t max;      /* rows per step, 1 or more */
    uint64_t at;     /* io: jobs with lower numbers are done; 0: start */
    size_t n;        /* out: deleted rows */
    bool is_over;    /* out: no rows are left */
};

/* The two databases of a store. */
enum store_file { STORE_STATE, STORE_METRICS, STORE_FILE_N };
enum { STORE_FILE_CAP = 64 }; /* of a file's name in the directory */

enum cell_kind { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT };
struct store_cell {
    const char *name; /* the column */
    enum cell_kind kind;
    int64_t i;
    double r;
    const char *s;
};

struct store; /* opaque; the first member of every implementation's struct */

struct store_ops {
    const char *name;
    /* Durable when it returns 0: load() returns it after a crash.
     * err  ERR_LIMIT the disk is full, ERR_BUSY another process, for instance a
     *      shell, locks the file, ERR_IO; nothing was stored, and the caller
     *      may retry */
    int (*append)(struct store *s, const struct store_batch *batch,
                  struct error *err);
    /* Calls each() in seq order with the events of all jobs that are not
     * archived; stops and fails when it returns -1. The event and its detail
     * are borrowed for the call. */
    int (*load)(struct store *s,
                int (*each)(void *arg, const struct store_event *event,
                            struct error *err),
                void *arg, struct error *err);
    /* The same with the events of jobs first to last, archived or not. Any
     * thread may call this and the next two functions; they see every append()
     * that has returned. */
    int (*load_jobs)(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err);
    int (*past)(struct store *s, struct store_past *ret, struct error *err);
    /* Text is borrowed for the call of each(), which must not call the store.
     * Two threads at a time may read the archive without waiting for each
     * other. */
    int (*archived)(struct store *s, const struct store_archive_query *q,
                    int (*each)(void *arg, const struct store_archived *job,
                                struct error *err),
                    void *arg, struct error *err);
    /* The summary lines of archived jobs first to last, by id; skips jobs
     * without one. As archived(). */
    int (*lines)(struct store *s, uint64_t first, uint64_t last,
                 int (*each)(void *arg, uint64_t job, const char *line,
                             struct error *err),
                 void *arg, struct error *err);
    /* Metric rows of one attempt in one transaction, idempotent by (job,
     * attempt, rank, iteration), (job, attempt, epoch), (job, attempt, rank,
     * epoch, metric), (job, attempt, rank, iteration, name): an existing row is
     * kept. A killed process loses none. A crash of the machine may lose those
     * since the last sync: rows() syncs if that is a second ago, so a caller
     * that stops calling it calls sync_rows(), from any thread.
     * out  ret_new  number of new rows; may be NULL */
    int (*rows)(struct store *s, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err);
    int (*sync_rows)(struct store *s, struct error *err);
    /* Replaces what VIEW_SCALING has of a class and a type of GPUs (NULL:
     * unknown) besides measurements. It shows a size until that size is
     * measured, and as long as its base is. Sizes differ. Only from the thread
     * that calls rows(); sync_rows() makes it safe from a crash of the machine.
     * err  as rows(); nothing was replaced */
    int (*guesses)(struct store *s, const char *class, const char *gpu_type,
                   const struct store_guess *guesses, size_t n,
                   struct error *err);
    /* Deletes the next piece, in one transaction; only from the thread that
     * calls rows(). Keeps rows of a job that has not ended, or that is unknown.
     * A call may delete nothing; call it until is_over. A purge may start again
     * at any time, also after a restart.
     * err  as rows(); nothing was deleted, and *io is unchanged */
    int (*purge_rows)(struct store *s, struct store_purge *io,
                      struct error *err);
    /* Deletes archived jobs, with their events, attempts and job rows, all or
     * none; only from the thread that calls append(). Metric rows stay, and
     * the rows of VIEW_USAGE. The
     * numbers of the jobs and of their events are not reused.
     * err  ERR_STATE one of them is not archived; as append() */
    int (*remove_jobs)(struct store *s, const uint64_t *jobs, size_t n,
                       double at_s, struct error *err);
    /* The record of a removed job; from any thread.
     * err  ERR_NOTFOUND no such job was removed */
    int (*removed)(struct store *s, uint64_t job, struct store_removed *ret,
                   struct error *err);
    /* Calls row() for each row; cells are borrowed for the call. row() must
     * neither block nor query: it delays other queries and the log's
     * checkpoint. */
    int (*query)(struct store *s, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err);
    /* Fails when the database, or its log, is not the file any more that was
     * opened: it was removed, replaced or truncated. From then on append() and
     * remove_jobs(), or the calls that write metric rows, fail with the same
     * error, because what they write is gone with the process. Reading goes on.
     * From any thread, at the cost of two stat(2); append() and rows() look
     * more closely, before and after they write.
     * err  ERR_IO, with what happened */
    int (*intact)(struct store *s, enum store_file f, struct error *err);
    /* Copies what such a database still holds to a new file beside it: all that
     * was acknowledged. Any thread may call it; queries of that database wait.
     * The next open is refused as long as a state.db.rescued-* is there.
     * in   stop  as store_sqlite_backup()
     * out  ret   the name of the file in the directory
     * err  ERR_STATE it was truncated or overwritten, or is not on a disk;
     *      ERR_UNAVAIL it was aborted; of the disk */
    int (*rescue)(struct store *s, enum store_file f, const _Atomic bool *stop,
                  char ret[STORE_FILE_CAP], struct error *err);
    void (*destroy)(struct store *s); /* NULL is fine */
};

struct store {
    const struct store_ops *ops;
};

/* Creates `dir`, 0700, if it is missing. One daemon per directory: the store
 * holds a lock file until destroy.
 * err ERR_STATE locked by another process; ERR_CONFIG a newer schema, wrong
 *      owner or mode, or a network file system; ERR_IO state.db is damaged: the
 *      message has quick_check's first line */
int store_sqlite_open(const char *dir, struct store **ret,
                      struct error *err) MUST_CHECK;

/* Reports damage of metrics.db. If an open finds damage, it puts the file aside
 * in its directory and creates a new one, because jobs must run without it; if
 * a call finds damage, the call fails and the next open does that. True as long
 * as a file that was put aside, or its mark, exists. */
struct store_damage {
    char file[STORE_FILE_CAP]; /* the newest one put aside; "": none */
    bool is_waiting;           /* the next open will put metrics.db aside */
};
bool store_sqlite_damage(const char *dir, struct store_damage *ret);

/* Copies a snapshot of the store in `dir`, in use or not: both databases,
 * verified and synced, and the other files that a daemon needs (secret,
 * admin.log), to the new directory `dest`, 0700. To restore it, copy it to
 * `dir`.
 * in   stop  aborts soon after it becomes true; NULL: never
 * err  ERR_STATE dest exists; ERR_UNAVAIL it was aborted; errors of the disk.
 *      dest does not exist then */
int store_sqlite_backup(const char *dir, const char *dest,
                        const _Atomic bool *stop, struct error *err) MUST_CHECK;

/* Verifies the store in `dir`, in use or not, without changing it: pages, the
 * log of events, and the rows against the log. Calls each() for the first 100
 * findings. Returns the number of findings; 0: none. */
int store_sqlite_check(const char *dir,
                       void (*each)(void *arg, const char *finding), void *arg);

/* Contents live as long as the process; tests restart a daemon by reopening the
 * same world (see store_mem_create's `world`). */
struct store_mem_world;
int store_mem_world_create(struct store_mem_world **ret,
                           struct error *err) MUST_CHECK;
void store_mem_world_destroy(struct store_mem_world *w);
int store_mem_create(struct store_mem_world *w, struct store **ret,
                     struct error *err) MUST_CHECK;

/* Wraps `inner` (owned). Counts calls of append, load, rows, sync_rows,
 * guesses, purge_rows, remove_jobs.
 * The n-th call (from 1) fails with ERR_IO: before the inner call, or after
 * it when `after` is set - done, but not acknowledged. n 0: never. With
 * `kill`, the process kills itself with SIGKILL instead. The call takes
 * slow_s longer before any of that. */
struct store_fault {
    int64_t n;
    int32_t after, kill;
    double slow_s;
};
int store_faulty_create(struct store *inner, const struct store_fault *fault,
                        struct store **ret, struct error *err) MUST_CHECK;
int64_t store_faulty_calls(const struct store *s);

#endif
