/* span_sqlite.c - the spans of state.db; see store.h. */
#include "db/sqlite/store_sqlite.h"

static const char all[] =
    "SELECT span, begin_at, end_at, is_synced FROM span ORDER BY span DESC"
    " LIMIT ?1";

static const char put[] =
    "REPLACE INTO span (span, begin_at, end_at, is_synced, sum)"
    " VALUES (?, ?, ?, ?, ?)";

static const char forget[] = "DELETE FROM span WHERE span <= ?1";

int spans_read(const struct db *d, struct store_span *ret, size_t *ret_n,
               struct error *err)
{
    sqlite3_stmt *st = NULL;
    size_t n = 0;
    if (db_prepare(d, all, &st, err) < 0)
        return -1;
    int rc = sqlite3_bind_int64(st, 1, STORE_SPANS_MAX);
    while (rc == SQLITE_OK && n < STORE_SPANS_MAX &&
           sqlite3_step(st) == SQLITE_ROW)
        ret[n++] = (struct store_span){
            .id = (uint64_t)sqlite3_column_int64(st, 0),
            .begin_s = sqlite3_column_double(st, 1),
            .end_s = sqlite3_column_double(st, 2),
            .is_synced = sqlite3_column_int64(st, 3) != 0,
        };
    rc = sqlite3_finalize(st);
    if (rc != SQLITE_OK)
        return db_fail(d, "read spans", err);
    for (size_t i = 0; i < n / 2; i++) {
        struct store_span last = ret[n - 1 - i];
        ret[n - 1 - i] = ret[i];
        ret[i] = last;
    }
    *ret_n = n;
    return 0;
}

static int put_both(const struct db *d, const struct store_span *span,
                    struct error *err)
{
    sqlite3_stmt *to = NULL, *old = NULL;
    int rc = db_prepare(d, put, &to, err);
    if (rc == 0)
        rc = db_prepare(d, forget, &old, err);
    if (rc == 0) {
        struct db_row r = db_row_summed(to);
        db_put_int(&r, (int64_t)span->id);
        db_put_real(&r, span->begin_s);
        db_put_real(&r, span->end_s);
        db_put_int(&r, span->is_synced);
        db_put_sum(&r);
        rc = db_run(d, &r, "write a span", err);
    }
    if (rc == 0) {
        struct db_row r = db_row(old);
        db_put_int(&r, (int64_t)span->id - STORE_SPANS_MAX);
        rc = db_run(d, &r, "forget spans", err);
    }
    sqlite3_finalize(to);
    sqlite3_finalize(old);
    return rc;
}

int span_write(const struct db *d, const struct store_span *span,
               struct error *err)
{
    if (db_begin(d, err) < 0)
        return -1;
    if (put_both(d, span, err) == 0 && db_commit(d, err) == 0)
        return 0;
    db_rollback(d);
    return -1;
}
