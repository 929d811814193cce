/* store_sqlite.h - internals shared by the files of the SQLite store. */
#ifndef MGPU_DB_SQLITE_STORE_SQLITE_H
#define MGPU_DB_SQLITE_STORE_SQLITE_H

#include <pthread.h>

#include "db/metric_store.h"
#include "db/sqlite/db_sqlite.h"
#include "db/sqlite/file_loss_sqlite.h"

/* A read-only connection, which any thread may use while it holds the lock. A
 * snapshot lasts for one query, so that readers never block the WAL's
 * checkpoint. */
struct reader {
    pthread_mutex_t lock;
    struct db db;
};

/* Readers of the archive, separate so that a lookup of one job does not wait
 * for a query of a million rows. There are two: the daemon looks up single jobs
 * on its main thread, and reads lists on worker threads. */
struct archive_reader {
    pthread_mutex_t lock;
    struct db db;
    sqlite3_stmt *events, *of_key, *removed, *lines;
    sqlite3_stmt *lists[ARCHIVE_BY_END + 1][2]; /* [order][has_names] */
};
enum { ARCHIVE_READERS = 2 };
struct archive {
    struct archive_reader readers[ARCHIVE_READERS];
};

/* Statements of purge_sqlite.c, prepared at the first call; NULL before. */
enum { PURGE_TABLES = 5 };
struct purge {
    sqlite3_stmt *edge[PURGE_TABLES], *below[PURGE_TABLES], *all[PURGE_TABLES];
    sqlite3_stmt *next, *ended;
};

/* The writer of metrics.db. The thread that calls rows() uses it; it has a lock
 * all the same, so that another thread may call sync_rows(). */
struct rows {
    pthread_mutex_t lock;
    struct db db; /* state.db is attached as "state", for reading */
    sqlite3_stmt *run, *iteration, *epoch, *profile, *value;
    sqlite3_stmt *guess, *no_guess;
    struct purge purge;
    bool unsynced;
    double synced_s;         /* monotonic */
    _Atomic bool is_damaged; /* this connection or its reader has found
                              * damage */
    struct file_loss loss;
};

struct store_sqlite {
    struct store base;
    char *dir; /* owned */
    int lock_fd;
    struct db state;       /* used by the thread that calls append() */
    struct file_loss loss; /* of state.db */
    sqlite3_stmt *event, *job, *attempt, *archived, *line;
    uint64_t seq;                  /* of the last event */
    uint64_t last_job, synced_job; /* the highest one, and the highest at the
                                    * mark's last sync */
    int mark_fd;
    struct rows rows;
    struct reader state_reader, metrics_reader;
    struct archive archive;
    _Atomic bool is_marked; /* metrics.db has to be put aside at the next
                             * open */
};

#define EVENT_COLUMNS "seq, job, attempt, event, at, uid, detail"
/* Passes all rows of st, a "SELECT " EVENT_COLUMNS, to each(), and resets st.
 * err  of each(), or of the file */
int store_events_each(const struct db *d, sqlite3_stmt *st,
                      int (*each)(void *arg, const struct store_event *event,
                                  struct error *err),
                      void *arg, struct error *err) MUST_CHECK;

/* ---- state_batch_sqlite.c ------------------------------------------------ */
/* The statements of state.db, which is open and migrated. */
int batch_prepare(struct store_sqlite *s, struct error *err) MUST_CHECK;
void batch_finalize(struct store_sqlite *s); /* of NULL: no effect */
/* In a transaction that the caller has begun, which this commits. */
int batch_put(struct store_sqlite *s, const struct store_batch *b,
              struct error *err) MUST_CHECK;

/* ---- archive_sqlite.c --------------------------------------------------- */
int archive_open(struct archive *a, const char *path,
                 struct error *err) MUST_CHECK;
void archive_close(struct archive *a); /* no effect on a zeroed struct */
int archive_events(struct archive *a, uint64_t first, uint64_t last,
                   int (*each)(void *arg, const struct store_event *event,
                               struct error *err),
                   void *arg, struct error *err) MUST_CHECK;
int archive_past(struct archive *a, struct store_past *ret,
                 struct error *err) MUST_CHECK;
int archive_find(struct archive *a, const struct store_archive_query *q,
                 int (*each)(void *arg, const struct store_archived *job,
                             struct error *err),
                 void *arg, struct error *err) MUST_CHECK;

int archive_lines(struct archive *a, uint64_t first, uint64_t last,
                  int (*each)(void *arg, uint64_t job, const char *line,
                              struct error *err),
                  void *arg, struct error *err) MUST_CHECK;
int archive_removed(struct archive *a, uint64_t job, struct store_removed *ret,
                    struct error *err) MUST_CHECK;

int rows_open(struct rows *r, const char *path, const char *state_path,
              struct error *err) MUST_CHECK;
void rows_close(struct rows *r); /* syncs; no effect on a zeroed struct */
int rows_insert(struct rows *r, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err) MUST_CHECK;
int rows_sync(struct rows *r, struct error *err) MUST_CHECK;
int rows_guesses(struct rows *r, const char *class, const char *gpu_type,
                 const struct store_guess *guesses, size_t n,
                 struct error *err) MUST_CHECK;
int rows_purge(struct rows *r, struct store_purge *io,
               struct error *err) MUST_CHECK;

/* ---- remove_sqlite.c ----------------------------------------------------- */
/* Implements the store's remove_jobs(). */
int remove_jobs(const struct db *d, const uint64_t *jobs, size_t n, double at_s,
                struct error *err) MUST_CHECK;

/* ---- purge_sqlite.c ------------------------------------------------------ */
/* d: of struct rows; the caller holds its lock */
int purge_some(struct purge *p, const struct db *d, struct store_purge *io,
               struct error *err) MUST_CHECK;
void purge_close(struct purge *p); /* no effect on a zeroed struct */

/* ---- query_sqlite.c ------------------------------------------------------ */
int query_open(struct reader *r, const char *path, const char *name,
               struct error *err) MUST_CHECK;
void query_close(struct reader *r);
int reader_query(struct reader *r, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err) MUST_CHECK;

#endif
