/* db_sqlite.c - open, run and close SQLite, translate its errors; see
 * db_sqlite.h. */
#include "db/sqlite/db_sqlite.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* An administrator's shell may hold a lock for a moment. The threads that call
 * the store have no other work, but users wait for their answers: after this
 * time the batch is refused with ERR_BUSY. */
enum { BUSY_TIMEOUT_MS = 1000 };

/* The errno of an I/O error, or 0. SQLite stores it per file, and not always
 * where sqlite3_system_errno() looks. */
static int errno_of(sqlite3 *h)
{
    sqlite3_file *wal = NULL;
    int e = 0;

    switch (sqlite3_extended_errcode(h)) {
    case SQLITE_IOERR_SHMSIZE: /* could not grow the WAL's index */
        return ENOSPC;
    case SQLITE_IOERR_WRITE:
    case SQLITE_IOERR_FSYNC:
    case SQLITE_IOERR_TRUNCATE:
        break;
    default:
        return 0;
    }
    (void)sqlite3_file_control(h, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (wal && wal->pMethods)
        (void)wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &e);
    if (e == 0)
        (void)sqlite3_file_control(h, "main", SQLITE_FCNTL_LAST_ERRNO, &e);
    return e;
}

static enum err_code code_of(sqlite3 *h, int e)
{
    switch (sqlite3_errcode(h) & 0xff) {
    case SQLITE_NOMEM:
        return ERR_NOMEM;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
        return ERR_LIMIT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_BUSY;
    case SQLITE_IOERR: /* only ENOSPC becomes SQLITE_FULL */
        return e == ENOSPC || e == EDQUOT || e == EFBIG ? ERR_LIMIT : ERR_IO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return ERR_IO;
    default:
        return ERR_EXTERN;
    }
}

void db_note_damage(const struct db *d)
{
    if (d->damaged)
        *d->damaged = true;
}

int db_fail(const struct db *d, const char *what, struct error *err)
{
    if (!d->h)
        return error_set(err, ERR_NOMEM, "%s: %s: out of memory", d->name,
                         what);
    const char *text = sqlite3_errmsg(d->h);
    int code = sqlite3_errcode(d->h) & 0xff;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        db_note_damage(d);
    int e = errno_of(d->h); /* does not change the message */
    return error_set(err, code_of(d->h, e), "%s: %s: %s%s%s", d->name, what,
                     text, e ? ": " : "", e ? strerrordesc_np(e) : "");
}

int db_open(struct db *d, const char *path, const char *name, bool reader,
            struct error *err)
{
    int flags = reader ? SQLITE_OPEN_READONLY
                       : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

    *d = (struct db){.name = name};
    /* One thread at a time uses a connection: the store ensures that. */
    if (sqlite3_open_v2(path, &d->h,
                        flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK ||
        sqlite3_extended_result_codes(d->h, 1) != SQLITE_OK ||
        sqlite3_busy_timeout(d->h, BUSY_TIMEOUT_MS) != SQLITE_OK ||
        sqlite3_db_config(d->h, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) !=
            SQLITE_OK ||
        sqlite3_db_config(d->h, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) !=
            SQLITE_OK) {
        (void)db_fail(d, "open", err);
        db_close(d);
        return -1;
    }
    return 0;
}

void db_keep_log(const struct db *d)
{
    (void)sqlite3_db_config(d->h, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

void db_close(struct db *d)
{
    /* Cannot fail: the statements are finalized before. */
    (void)sqlite3_close(d->h);
    d->h = NULL;
}

int db_exec(const struct db *d, const char *sql, struct error *err)
{
    if (sqlite3_exec(d->h, sql, NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(d, "set up", err);
    return 0;
}

static int first_row(const struct db *d, const char *sql, sqlite3_stmt **ret,
                     struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(d->h, sql, -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *ret = st;
        return 0;
    }
    if (rc == SQLITE_DONE)
        (void)error_set(err, ERR_INTERNAL, "%s: no row: %s", d->name, sql);
    else
        (void)db_fail(d, "read", err);
    sqlite3_finalize(st);
    return -1;
}

int db_get_int(const struct db *d, const char *sql, int64_t *ret,
               struct error *err)
{
    sqlite3_stmt *st;

    if (first_row(d, sql, &st, err) < 0)
        return -1;
    *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return 0;
}

int db_get_text(const struct db *d, const char *sql, char *ret, size_t cap,
                struct error *err)
{
    sqlite3_stmt *st;

    if (first_row(d, sql, &st, err) < 0)
        return -1;
    const unsigned char *text = sqlite3_column_text(st, 0);
    (void)snprintf(ret, cap, "%s", text ? (const char *)text : "");
    sqlite3_finalize(st);
    return 0;
}

int db_wal(const struct db *d, struct error *err)
{
    char mode[16];

    if (db_get_text(d, "PRAGMA journal_mode = WAL", mode, sizeof(mode), err) <
        0)
        return -1;
    if (sqlite3_stricmp(mode, "wal") != 0)
        return error_set(err, ERR_CONFIG,
                         "%s: no WAL on this file system: choose a local disk",
                         d->name);
    /* Truncate the log after a burst has made it grow. */
    return db_exec(d, "PRAGMA journal_size_limit = 67108864", err);
}

int db_prepare(const struct db *d, const char *sql, sqlite3_stmt **ret,
               struct error *err)
{
    if (sqlite3_prepare_v3(d->h, sql, -1, SQLITE_PREPARE_PERSISTENT, ret,
                           NULL) != SQLITE_OK)
        return db_fail(d, "prepare", err);
    return 0;
}

int db_begin(const struct db *d, struct error *err)
{
    /* A transaction stays open if its rollback failed, as on a broken disk. */
    db_rollback(d);
    /* Not IMMEDIATE, which would lock attached files, too. Every transaction
     * here begins with a write, so it takes the lock at once all the same. */
    if (sqlite3_exec(d->h, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(d, "begin", err);
    return 0;
}

int db_commit(const struct db *d, struct error *err)
{
    if (sqlite3_exec(d->h, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(d, "commit", err);
    return 0;
}

void db_rollback(const struct db *d)
{
    if (!sqlite3_get_autocommit(d->h))
        (void)sqlite3_exec(d->h, "ROLLBACK", NULL, NULL, NULL);
}

/* ---- sums ----------------------------------------------------------------
 */

static const uint64_t FNV_BASIS = 0xcbf29ce484222325u;

/* Add the type first: 1 differs from "1", and NULL from "". */
static uint64_t sum_bytes(uint64_t sum, char kind, const void *p, size_t n)
{
    const uint64_t prime = 0x100000001b3u;
    const unsigned char *b = p;
    sum = (sum ^ (unsigned char)kind) * prime;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ b[i]) * prime;
    return sum;
}

uint64_t db_sum_of(sqlite3_stmt *st, int first, int n)
{
    uint64_t sum = FNV_BASIS;
    for (int i = first; i < first + n; i++) {
        int64_t v = sqlite3_column_int64(st, i);
        double x = sqlite3_column_double(st, i);
        switch (sqlite3_column_type(st, i)) {
        case SQLITE_NULL:
            sum = sum_bytes(sum, 'n', "", 0);
            break;
        case SQLITE_INTEGER:
            sum = sum_bytes(sum, 'i', &v, sizeof(v));
            break;
        case SQLITE_FLOAT:
            sum = sum_bytes(sum, 'r', &x, sizeof(x));
            break;
        default: {
            const void *text = sqlite3_column_blob(st, i);
            sum =
                sum_bytes(sum, 't', text, (size_t)sqlite3_column_bytes(st, i));
        }
        }
    }
    return sum;
}

/* ---- rows ----------------------------------------------------------------
 */

struct db_row db_row(sqlite3_stmt *stmt)
{
    return (struct db_row){.stmt = stmt, .rc = SQLITE_OK};
}

struct db_row db_row_summed(sqlite3_stmt *stmt)
{
    return (struct db_row){
        .stmt = stmt, .rc = SQLITE_OK, .is_summed = true, .sum = FNV_BASIS};
}

static void put(struct db_row *r, int rc, char kind, const void *p, size_t n)
{
    if (r->rc == SQLITE_OK)
        r->rc = rc;
    if (r->is_summed)
        r->sum = sum_bytes(r->sum, kind, p, n);
}

static void put_null(struct db_row *r)
{
    put(r, sqlite3_bind_null(r->stmt, ++r->n), 'n', "", 0);
}

void db_put_int(struct db_row *r, int64_t i)
{
    put(r, sqlite3_bind_int64(r->stmt, ++r->n, i), 'i', &i, sizeof(i));
}

void db_put_count(struct db_row *r, int64_t i)
{
    if (i < 0)
        put_null(r);
    else
        db_put_int(r, i);
}

void db_put_real(struct db_row *r, double v)
{
    if (!isfinite(v))
        put_null(r);
    else
        put(r, sqlite3_bind_double(r->stmt, ++r->n, v), 'r', &v, sizeof(v));
}

void db_put_loss(struct db_row *r, double v)
{
    if (isnan(v))
        put_null(r);
    else
        put(r, sqlite3_bind_double(r->stmt, ++r->n, v), 'r', &v, sizeof(v));
}

void db_put_text(struct db_row *r, const char *s)
{
    if (!s)
        put_null(r);
    else
        put(r, sqlite3_bind_text(r->stmt, ++r->n, s, -1, SQLITE_STATIC), 't', s,
            r->is_summed ? strlen(s) : 0);
}

void db_put_apart(struct db_row *r, const char *s)
{
    bool is_summed = r->is_summed;
    r->is_summed = false;
    db_put_text(r, s);
    r->is_summed = is_summed;
}

void db_put_sum(struct db_row *r)
{
    db_put_int(r, (int64_t)r->sum);
}

int db_run(const struct db *d, struct db_row *r, const char *what,
           struct error *err)
{
    int rc = r->rc == SQLITE_OK ? sqlite3_step(r->stmt) : r->rc;
    int failed = rc == SQLITE_DONE ? 0 : db_fail(d, what, err);

    (void)sqlite3_reset(r->stmt); /* repeats the error of the step */
    return failed;
}
