/* store.h - what survives a restart: job events, the fold's rows, metrics.
 *
 * Implementations: sqlite (state.db and metrics.db in one directory), mem
 * (for the simulator and tests), faulty (wraps any of them and fails, or
 * kills the process at, the n-th call). tests/contract/store*.c are
 * the specification and run against each.
 *
 * Events are the truth; job and attempt rows are the fold's latest values,
 * written in the same transaction as the events that changed them, so that
 * SQL can answer what the fold knows. Metrics live in a second file: a
 * transaction never spans both.
 *
 * Threads: one thread at a time may call append/load, and one other thread
 * rows(); query() and what reads the archive may be called from any thread (it
 * has its own connection).
 */
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
    enum job_event ev;  /* EV_N: load() found a word that it does not know */
    double at_s;        /* seconds since 1970 */
    int64_t uid;        /* who caused it; -1: the daemon itself */
    const char *detail; /* JSON object text, or NULL; borrowed */
};

/* Times are seconds since 1970 and NAN for "not yet"; text may be NULL. */
struct store_job {
    uint64_t id;
    const char *name, *user, *kind; /* "cv", "command" */
    int64_t uid;
    const char *state;  /* job_state_name() */
    const char *reason; /* why it waits, or why it ended */
    int32_t priority, gpus_min, gpus_max, gpus; /* gpus: held or last held */
    int32_t attempt;
    int32_t exit_code; /* as mgpu-submit --wait reports it; -1 not ended */
    double submit_s, start_s, end_s;
    const char *idempotency_key;
    const char *spec; /* resolved, JSON */
    const char *dir;
};

struct store_attempt {
    uint64_t job;
    int32_t attempt;
    const char *state; /* of the job when last in this attempt */
    const char *native_id, *place, *reason;
    const char *class;         /* what determines speed; NULL unknown */
    int32_t gpus, nodes;       /* nodes 0: not known yet */
    int32_t exit_code, signal; /* exit_code -1: not ended */
    double intent_s, claim_s, run_s, end_s;
};

/* A job that has ended and that the daemon keeps in mind no longer. Nothing of
 * it is moved: its events and rows stay what they are, but load() passes them
 * over. It never comes back, so all that is here is true for good. */
struct store_archived {
    uint64_t job;
    int64_t uid;
    const char *key;      /* NULL: none leads to it */
    enum job_state state; /* a final one; JOB_STATE_N: of no known name */
    double end_s;
    /* Of its row; not archived themselves, and NULL unless they were asked
     * for. */
    const char *name, *user;
    /* What a list says of it, in the words of whoever archives it, see lines();
     * NULL: nothing. Not among what archived() tells. */
    const char *line;
};

struct store_batch {            /* all of it becomes durable, or nothing */
    struct store_event *events; /* seq is filled in */
    size_t n_events;
    /* Inserted, or what they say taken over, by id. Of name, user, kind, key,
     * spec and dir NULL says nothing: the row keeps what it has. */
    const struct store_job *jobs;
    size_t n_jobs;
    const struct store_attempt *attempts; /* by (job, attempt) */
    size_t n_attempts;
    const struct store_archived *archived; /* that are not yet; by id */
    size_t n_archived;
};

/* How much has been archived, and how far the log goes with it. */
struct store_past {
    uint64_t n[JOB_STATE_N]; /* archived jobs by state */
    uint64_t last_job; /* the highest number of them, and of those that were
                          removed; 0: there is none */
    uint64_t last_seq; /* of all events */
};

/* A job that was archived, and then removed. */
struct store_removed {
    uint64_t job;
    double end_s, removed_s; /* NAN: not known */
};

enum store_archive_order {
    ARCHIVE_BY_ID,
    ARCHIVE_NEWEST, /* the highest number first */
    /* Who ended first comes first; of one moment, by number. Not whose end is
     * not known. */
    ARCHIVE_BY_END
};

/* Which archived jobs: those with numbers above `after` and below `before`,
 * and that ended at since_s or later; with a key, those of that uid that it
 * leads to. By their end, `after` is for those alone that ended at since_s:
 * who was shown a part asks for the rest with the last one's end and number.
 */
struct store_archive_query {
    enum store_archive_order order; /* with a key: by id */
    uint64_t after, before;         /* before 0: without an end */
    double since_s;                 /* -INFINITY: whenever it was */
    const char *key;
    int64_t uid;
    bool has_names; /* without a key: name and user are wanted */
    int64_t limit;  /* 0: no limit */
};

/* The views of mgpu-db(5), which query() can read. */
enum store_view {
    VIEW_JOB,
    VIEW_ATTEMPT,
    VIEW_EVENT,
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
    uint64_t job;    /* 0: all; of VIEW_SCALING: the classes that it ran as */
    int32_t attempt; /* 0: all; VIEW_JOB has no attempts to choose from */
    int32_t rank;    /* -1: all; heed only where the view has ranks */
    int64_t after;   /* rows whose key is > this; 0: all. The key: job, attempt,
                      * seq, iteration, epoch, iteration, epoch, gpus */
    int64_t limit;   /* 0: no limit */
    int32_t last;    /* 1: the last `limit` rows, still in key order */
};

/* A piece of all metric rows of jobs that ended long ago. */
struct store_purge {
    double before_s; /* jobs that ended before this */
    size_t max;      /* rows of a piece, 1 or more */
    uint64_t at;     /* io: jobs with lower numbers are done; 0: none is */
    size_t n;        /* out: rows that went */
    bool is_over;    /* out: there was nothing more to look at */
};

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
    /* Durable when it returns 0: after a crash, load() gives it back.
     * err  ERR_LIMIT the disk is full, ERR_BUSY somebody else's shell holds
     *      the file, ERR_IO; nothing was stored, and it may be tried again */
    int (*append)(struct store *s, const struct store_batch *batch,
                  struct error *err);
    /* Calls each() in seq order with the events of all jobs that are not
     * archived; stops and fails when it returns -1. The event and its detail
     * are borrowed for the call. */
    int (*load)(struct store *s,
                int (*each)(void *arg, const struct store_event *event,
                            struct error *err),
                void *arg, struct error *err);
    /* The same with the events of jobs first to last, archived or not. This
     * and the next two may be called from any thread, and read what an
     * append() that has returned wrote. */
    int (*load_jobs)(struct store *s, uint64_t first, uint64_t last,
                     int (*each)(void *arg, const struct store_event *event,
                                 struct error *err),
                     void *arg, struct error *err);
    int (*past)(struct store *s, struct store_past *ret, struct error *err);
    /* Text is borrowed for the call of each(), which must not call the store.
     * Two threads at a time may look into the archive without one waiting for
     * the other. */
    int (*archived)(struct store *s, const struct store_archive_query *q,
                    int (*each)(void *arg, const struct store_archived *job,
                                struct error *err),
                    void *arg, struct error *err);
    /* The lines of archived jobs first to last, by id; not of those that were
     * archived without one. As archived(). */
    int (*lines)(struct store *s, uint64_t first, uint64_t last,
                 int (*each)(void *arg, uint64_t job, const char *line,
                             struct error *err),
                 void *arg, struct error *err);
    /* Metric rows of one attempt in one transaction, idempotent by (job,
     * attempt, rank, iteration), (job, attempt, epoch), (job, attempt, rank,
     * epoch, metric), (job, attempt, rank, iteration, name): a row that is
     * there already stays as it is. A killed process loses none. A crash of the
     * machine may lose those since the last sync: rows() syncs when that is a
     * second ago, so who stops calling it calls sync_rows(), from any thread.
     * out  ret_new  rows that were not there before; may be NULL */
    int (*rows)(struct store *s, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err);
    int (*sync_rows)(struct store *s, struct error *err);
    /* Deletes the next piece, in one transaction; of the thread that calls
     * rows(). Rows of a job that has not ended, or that is not known, stay.
     * Not all calls find something to delete; who wants it all calls until
     * is_over. It may be begun again at any time, also in another life.
     * err  as rows(); nothing went, and *io is as it was */
    int (*purge_rows)(struct store *s, struct store_purge *io,
                      struct error *err);
    /* Archived jobs are removed for good, with their events, attempts and
     * rows of jobs, all or none; of the thread that calls append(). Metric rows
     * stay. Neither their numbers nor those of their events come again.
     * err  ERR_STATE one of them is not archived; as append() */
    int (*remove_jobs)(struct store *s, const uint64_t *jobs, size_t n,
                       double at_s, struct error *err);
    /* Which job that was; from any thread.
     * err  ERR_NOTFOUND no such job was removed */
    int (*removed)(struct store *s, uint64_t job, struct store_removed *ret,
                   struct error *err);
    /* Calls row() for each row; cells are borrowed for the call. row() must
     * neither wait nor query: it holds up other queries, and the log. */
    int (*query)(struct store *s, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err);
    void (*destroy)(struct store *s); /* NULL is fine */
};

struct store {
    const struct store_ops *ops;
};

/* `dir` is created 0700 when missing. One daemon per directory: a lock file
 * is held until destroy.
 * err ERR_STATE locked by another process; ERR_CONFIG a newer schema, wrong
 *     owner or mode, or a network file system; ERR_IO state.db is damaged: the
 *     message says so with quick_check's first line */
int store_sqlite_open(const char *dir, struct store **ret,
                      struct error *err) MUST_CHECK;

/* That metrics.db was damaged. When an open finds it so, the file is put aside
 * in its directory and a new one begun, for it must not keep jobs from running;
 * when a call finds it so, that call fails and the next open does the same.
 * True for as long as what was put aside stands there, or is waiting for it. */
enum { STORE_FILE_CAP = 64 };
struct store_damage {
    char file[STORE_FILE_CAP]; /* the newest that was put aside; "": none */
    bool is_waiting;           /* metrics.db itself, for the next open */
};
bool store_sqlite_damage(const char *dir, struct store_damage *ret);

/* A copy of the store in `dir`, of one moment, while it is in use or not: both
 * databases, looked through and synced, and what else a daemon needs to go on
 * (secret, admin.log), in the new directory `dest`, 0700. Putting it back is
 * to copy it to the place of `dir`.
 * in   stop  given up soon after it is true; NULL: never
 * err  ERR_STATE dest is there already; ERR_UNAVAIL it was given up; what the
 *      disk says. There is no dest then */
int store_sqlite_backup(const char *dir, const char *dest,
                        const _Atomic bool *stop, struct error *err) MUST_CHECK;

/* Looks through the store in `dir`, in use or not, and changes nothing: pages,
 * the log of events, and the rows against the log. Calls each() for the first
 * 100 findings. Returns how many there are; 0: it is sound. */
int store_sqlite_check(const char *dir,
                       void (*each)(void *arg, const char *finding), void *arg);

/* Contents live as long as the process; reopening the same world (see
 * store_mem_create's `world`) is how tests restart a daemon. */
struct store_mem_world;
int store_mem_world_create(struct store_mem_world **ret,
                           struct error *err) MUST_CHECK;
void store_mem_world_destroy(struct store_mem_world *w);
int store_mem_create(struct store_mem_world *w, struct store **ret,
                     struct error *err) MUST_CHECK;

/* Wraps `inner` (owned). Counts calls of append, load, rows, sync_rows,
 * purge_rows, remove_jobs.
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
