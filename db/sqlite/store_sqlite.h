/* store_sqlite.h - what the files of the SQLite store share. */
#ifndef MGPU_DB_SQLITE_STORE_SQLITE_H
#define MGPU_DB_SQLITE_STORE_SQLITE_H

#include <pthread.h>

#include "db/sqlite/db_sqlite.h"
#include "db/store.h"

/* A read-only connection, which any thread may use while it holds the lock.
 * A snapshot lasts for one query, so that readers never hold back the WAL. */
struct reader {
    pthread_mutex_t lock;
    struct db db;
};

/* Looking into the archive: readers of its own, so that who looks a job up does
 * not wait for who reads a million rows. Two of them: the daemon looks single
 * jobs up where it must not wait, and reads lists of them where it may. */
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

/* Statements of purge_sqlite.c, from the first call on; NULL before. */
enum { PURGE_TABLES = 5 };
struct purge {
    sqlite3_stmt *edge[PURGE_TABLES], *below[PURGE_TABLES], *all[PURGE_TABLES];
    sqlite3_stmt *next, *ended;
};

/* Writing metrics.db; used by the thread that calls rows(), and locked all
 * the same, so that sync_rows() may come from another. */
struct rows {
    pthread_mutex_t lock;
    struct db db; /* state.db is attached as "state", for reading */
    sqlite3_stmt *run, *iteration, *epoch, *profile, *value;
    struct purge purge;
    bool unsynced;
    double synced_s;         /* monotonic */
    _Atomic bool is_damaged; /* found by this connection, or by its reader */
};

struct store_sqlite {
    struct store base;
    char *dir; /* owned */
    int lock_fd;
    struct db state; /* used by the thread that calls append() */
    sqlite3_stmt *event, *job, *attempt, *archived, *line;
    uint64_t seq;                  /* of the last event */
    uint64_t last_job, synced_job; /* the highest, and that of the last sync
                                      of the mark */
    int mark_fd;
    struct rows rows;
    struct reader state_reader, metrics_reader;
    struct archive archive;
    _Atomic bool is_marked; /* metrics.db, to be put aside by the next open */
};

/* What the row says that st, of "SELECT " EVENT_COLUMNS, is at. What an event
 * of no known kind means is for whoever folds it to say. */
#define EVENT_COLUMNS "seq, job, attempt, event, at, uid, detail"
struct store_event event_of_row(sqlite3_stmt *st);
/* All rows of st, which is made ready for the next time.
 * err  of each(), or of the file */
int events_each(const struct db *d, sqlite3_stmt *st,
                int (*each)(void *arg, const struct store_event *event,
                            struct error *err),
                void *arg, struct error *err) MUST_CHECK;

/* ---- archive_sqlite.c --------------------------------------------------- */
int archive_open(struct archive *a, const char *path,
                 struct error *err) MUST_CHECK;
void archive_close(struct archive *a); /* fine on a zeroed struct */
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
void rows_close(struct rows *r); /* syncs; fine on a zeroed struct */
int rows_insert(struct rows *r, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err) MUST_CHECK;
int rows_sync(struct rows *r, struct error *err) MUST_CHECK;
int rows_purge(struct rows *r, struct store_purge *io,
               struct error *err) MUST_CHECK;

/* ---- remove_sqlite.c ----------------------------------------------------- */
/* As remove_jobs() of the store. */
int remove_jobs(const struct db *d, const uint64_t *jobs, size_t n, double at_s,
                struct error *err) MUST_CHECK;

/* ---- purge_sqlite.c ------------------------------------------------------ */
/* d: of struct rows, whose lock is held */
int purge_some(struct purge *p, const struct db *d, struct store_purge *io,
               struct error *err) MUST_CHECK;
void purge_close(struct purge *p); /* fine on a zeroed struct */

/* ---- query_sqlite.c ------------------------------------------------------ */
/* Column i of the row that st is at; its name and text are borrowed until the
 * next step. */
struct store_cell cell_of(sqlite3_stmt *st, int i);
int reader_open(struct reader *r, const char *path, const char *name,
                struct error *err) MUST_CHECK;
void reader_close(struct reader *r);
int reader_query(struct reader *r, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err) MUST_CHECK;

#endif
