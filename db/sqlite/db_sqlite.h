/* db_sqlite.h - one SQLite connection, and the translation of its errors.
 *
 * The store's files call SQLite only through these: open, prepare, bind values,
 * run. All SQL is constant text or built from constant text; outside data is
 * always bound. */
#ifndef MGPU_DB_SQLITE_DB_SQLITE_H
#define MGPU_DB_SQLITE_DB_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct db {
    sqlite3 *h;
    const char *name; /* "state.db", for messages; static */
    /* Set to true when SQLite finds the file damaged; NULL: not recorded. */
    _Atomic bool *damaged;
};
void db_note_damage(const struct db *d);

/* err  the code for SQLite's last error on d, "name: what: SQLite's text" */
int db_fail(const struct db *d, const char *what, struct error *err);

/* `path` must not contain symbolic links. A reader cannot write. */
int db_open(struct db *d, const char *path, const char *name, bool reader,
            struct error *err) MUST_CHECK;
/* Closing does not checkpoint: the file and its log stay as they are. */
void db_keep_log(const struct db *d);
void db_close(struct db *d);

int db_exec(const struct db *d, const char *sql, struct error *err) MUST_CHECK;

/* Makes the file a WAL database, if it is not one yet.
 * err  ERR_CONFIG the file system does not support shared memory */
int db_wal(const struct db *d, struct error *err) MUST_CHECK;

/* The first row's first column; text is truncated to cap. */
int db_get_int(const struct db *d, const char *sql, int64_t *ret,
               struct error *err) MUST_CHECK;
int db_get_text(const struct db *d, const char *sql, char *ret, size_t cap,
                struct error *err) MUST_CHECK;

/* Valid as long as the connection; end with sqlite3_finalize(). */
int db_prepare(const struct db *d, const char *sql, sqlite3_stmt **ret,
               struct error *err) MUST_CHECK;

int db_begin(const struct db *d, struct error *err) MUST_CHECK;
int db_commit(const struct db *d, struct error *err) MUST_CHECK;
void db_rollback(const struct db *d); /* no effect without a transaction */

/* Copies what `from` reads to the new file to_path, verified and synced; the
 * caller removes it when that fails. In backup_sqlite.c.
 * err  ERR_UNAVAIL *stop became true; of the files */
int backup_copy(const struct db *from, const char *to_path,
                const _Atomic bool *stop, struct error *err) MUST_CHECK;

/* Binds parameters in order. Text is borrowed until db_run(). */
struct db_row {
    sqlite3_stmt *stmt;
    int n;
    int rc; /* of the first bind that failed */
    bool is_summed;
    uint64_t sum; /* checksum of the values so far */
};
struct db_row db_row(sqlite3_stmt *stmt);
/* A row that ends with db_put_sum(): the checksum of all values except those
 * bound with db_put_apart(). A changed byte in one of them changes db_sum_of()
 * of the row that is read: FNV-1a, 64 bits, about a nanosecond per byte. */
struct db_row db_row_summed(sqlite3_stmt *stmt);
void db_put_apart(struct db_row *r, const char *s); /* text without checksum;
                                                     * NULL is fine */
void db_put_sum(struct db_row *r);
/* The checksum of columns first to first + n - 1 of st's current row. */
uint64_t db_sum_of(sqlite3_stmt *st, int first, int n);

void db_put_int(struct db_row *r, int64_t i);
void db_put_count(struct db_row *r, int64_t i); /* negative: NULL */
void db_put_real(struct db_row *r, double v);   /* not finite: NULL */
void db_put_loss(struct db_row *r, double v);   /* not a number: NULL */
void db_put_text(struct db_row *r, const char *s);

/* Runs a statement that returns no rows, and resets it. */
int db_run(const struct db *d, struct db_row *r, const char *what,
           struct error *err) MUST_CHECK;

#endif
