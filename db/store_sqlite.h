/* store_sqlite.h - what the files of the SQLite store share. */
#ifndef MGPU_DB_STORE_SQLITE_H
#define MGPU_DB_STORE_SQLITE_H

#include <pthread.h>

#include "db/db_sqlite.h"
#include "db/store.h"

/* A read-only connection, which any thread may use while it holds the lock.
 * A snapshot lasts for one query, so that readers never hold back the WAL. */
struct reader {
    pthread_mutex_t lock;
    struct db db;
};

/* Writing metrics.db; used by the thread that calls rows(), and locked all
 * the same, so that sync_rows() may come from another. */
struct rows {
    pthread_mutex_t lock;
    struct db db; /* state.db is attached as "state", for reading */
    sqlite3_stmt *run, *iteration, *epoch, *profile, *value;
    bool unsynced;
    double synced_s; /* monotonic */
};

struct store_sqlite {
    struct store base;
    int lock_fd;
    struct db state; /* used by the thread that calls append() */
    sqlite3_stmt *event, *job, *attempt;
    uint64_t seq; /* of the last event */
    struct rows rows;
    struct reader state_reader, metrics_reader;
};

int rows_open(struct rows *r, const char *path, const char *state_path,
              struct error *err) MUST_CHECK;
void rows_close(struct rows *r); /* syncs; fine on a zeroed struct */
int rows_insert(struct rows *r, uint64_t job, int32_t attempt,
                const struct metric_row *rows, size_t n, size_t *ret_new,
                struct error *err) MUST_CHECK;
int rows_sync(struct rows *r, struct error *err) MUST_CHECK;

int reader_open(struct reader *r, const char *path, const char *name,
                struct error *err) MUST_CHECK;
void reader_close(struct reader *r);
int reader_query(struct reader *r, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err) MUST_CHECK;

#endif
