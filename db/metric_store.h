/* metric_store.h - what a store on disk has besides events: metric rows, the
 * views of mgpu-db(5) on all that it holds, and its files.
 *
 * Implementations: sqlite (state.db and metrics.db in one directory), and
 * faulty around it. Metrics live in a second file: a transaction never spans
 * both. tests/contract/store_rows.c and store_purge.c are the specification.
 *
 * Threads: one thread at a time may call rows(), which may be another than that
 * of append(); any thread may call query() (it has its own connections). */
#ifndef MGPU_DB_METRIC_STORE_H
#define MGPU_DB_METRIC_STORE_H

#include <math.h>
#include <string.h>

#include "db/event_store.h"
#include "jobs/wire/metric_rows.h"

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
    uint32_t columns; /* bit i: column i of the view alone; 0: all */
};

/* A size that a class of jobs has not run on, relative to a measured one. */
struct store_guess {
    int32_t gpus, nodes;
    const char *basis; /* throughput_basis_name(), not "measured"; borrowed */
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

/* The cell of a column; one that is NULL, if there is none. */
static inline const struct store_cell *store_cell(
    const struct store_cell *cells, size_t n, const char *name)
{
    static const struct store_cell none = {.kind = CELL_NULL};
    for (size_t i = 0; i < n; i++)
        if (strcmp(cells[i].name, name) == 0)
            return &cells[i];
    return &none;
}
/* Its number, which a store may keep as an integer; else NAN. */
static inline double store_cell_real(const struct store_cell *cells, size_t n,
                                     const char *name)
{
    const struct store_cell *c = store_cell(cells, n, name);
    return c->kind == CELL_REAL  ? c->r
           : c->kind == CELL_INT ? (double)c->i
                                 : (double)NAN;
}
/* Its text; else NULL. */
static inline const char *store_cell_text(const struct store_cell *cells,
                                          size_t n, const char *name)
{
    const struct store_cell *c = store_cell(cells, n, name);
    return c->kind == CELL_TEXT ? c->s : NULL;
}

struct metric_store_ops {
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
     * err  ERR_STATE it was truncated or overwritten; ERR_UNAVAIL it was
     *      aborted; of the disk */
    int (*rescue)(struct store *s, enum store_file f, const _Atomic bool *stop,
                  char ret[STORE_FILE_CAP], struct error *err);
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

#endif
