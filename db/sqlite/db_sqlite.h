/* db_sqlite.h - one SQLite connection, and how its errors become ours.
 *
 * The only words that the store's files say to SQLite: open, prepare, put
 * values, run. All SQL is constant text or built from constant text; what
 * comes from outside is always bound.
 */
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
    /* Becomes true when SQLite finds the file damaged; NULL: not noted. */
    _Atomic bool *damaged;
};
void db_note_damage(const struct db *d);

/* err  the code for SQLite's last error on d, "name: what: its text" */
int db_fail(const struct db *d, const char *what, struct error *err);

/* `path` must not hold symbolic links. A reader cannot write. */
int db_open(struct db *d, const char *path, const char *name, bool reader,
            struct error *err) MUST_CHECK;
/* Closing leaves the file and its log as they are. */
void db_keep_log(const struct db *d);
void db_close(struct db *d);

int db_exec(const struct db *d, const char *sql, struct error *err) MUST_CHECK;

/* Makes the file a WAL database, or finds it one.
 * err  ERR_CONFIG the file system cannot share memory */
int db_wal(const struct db *d, struct error *err) MUST_CHECK;

/* The first row's first column; text is cut to fit. */
int db_get_int(const struct db *d, const char *sql, int64_t *ret,
               struct error *err) MUST_CHECK;
int db_get_text(const struct db *d, const char *sql, char *ret, size_t cap,
                struct error *err) MUST_CHECK;

/* Kept for the life of the connection; end with sqlite3_finalize(). */
int db_prepare(const struct db *d, const char *sql, sqlite3_stmt **ret,
               struct error *err) MUST_CHECK;

int db_begin(const struct db *d, struct error *err) MUST_CHECK;
int db_commit(const struct db *d, struct error *err) MUST_CHECK;
void db_rollback(const struct db *d); /* fine when there is nothing to undo */

/* Parameters in their order. Text is borrowed until db_run(). */
struct db_row {
    sqlite3_stmt *stmt;
    int n;
    int rc; /* of the first put that failed */
    bool is_summed;
    uint64_t sum; /* of what was put */
};
struct db_row db_row(sqlite3_stmt *stmt);
/* One that ends with db_put_sum(): the sum over all values but those that were
 * put apart. Another byte in one of them, and db_sum_of() what is read is
 * another: FNV-1a, 64 bits, about a nanosecond a byte. */
struct db_row db_row_summed(sqlite3_stmt *stmt);
void db_put_apart(struct db_row *r, const char *s); /* text; NULL is fine */
void db_put_sum(struct db_row *r);
/* Of the row that st is at: columns first to first + n - 1. */
uint64_t db_sum_of(sqlite3_stmt *st, int first, int n);

void db_put_int(struct db_row *r, int64_t i);
void db_put_count(struct db_row *r, int64_t i); /* negative: NULL */
void db_put_real(struct db_row *r, double v);   /* not finite: NULL */
void db_put_text(struct db_row *r, const char *s);

/* Runs a statement that returns no rows, and makes it ready for the next. */
int db_run(const struct db *d, struct db_row *r, const char *what,
           struct error *err) MUST_CHECK;

#endif
