/* check_sum_sqlite.c - see check_sum_sqlite.h. The columns are in the order in
 * which store_sqlite.c writes them. */
#include "db/sqlite/check_sum_sqlite.h"

#include <string.h>

/* The checksum, and the n columns that it covers. */
static const struct {
    const char *what, *sql;
    int n;
} tables[] = {
    {"event",
     "SELECT sum, seq, job, attempt, event, at, uid, detail FROM event"
     " WHERE sum IS NOT NULL",
     7},
    {"job",
     "SELECT sum, job, uid, state, reason, priority, gpus_min, gpus_max, gpus,"
     " attempt, exit_code, submitted_at, started_at, ended_at FROM job"
     " WHERE sum IS NOT NULL",
     13},
    {"attempt",
     "SELECT sum, job, attempt, state, reason, native_id, place, class, gpus,"
     " nodes, exit_code, signal, intent_at, claimed_at, running_at, ended_at"
     " FROM attempt WHERE sum IS NOT NULL",
     15},
    {"archived",
     "SELECT sum, job, uid, key, state, ended_at FROM archived"
     " WHERE sum IS NOT NULL",
     5},
    {"removed",
     "SELECT sum, job, uid, state, ended_at, removed_at, events, seqs, last"
     " FROM removed WHERE sum IS NOT NULL",
     8},
    {"line", "SELECT sum, job, line FROM line WHERE sum IS NOT NULL", 2},
};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

static void say(struct findings *f, const char *what, sqlite3_stmt *st)
{
    const long long first = sqlite3_column_int64(st, 1);
    const long long second = sqlite3_column_int64(st, 2);
    if (what[0] == 'e')
        check_finding(f, "event %lld of job %lld does not match its checksum",
                      first, second);
    else if (strcmp(what, "archived") == 0)
        check_finding(f,
                      "job %lld: its archive entry does not match its checksum",
                      first);
    else if (strcmp(what, "removed") == 0)
        check_finding(f,
                      "job %lld: its removal entry does not match its checksum",
                      first);
    else if (what[0] == 'l')
        check_finding(
            f, "job %lld: its summary line does not match its checksum", first);
    else if (what[0] == 'j')
        check_finding(f, "job %lld: its row does not match its checksum",
                      first);
    else
        check_finding(
            f, "job %lld: the row of attempt %lld does not match its checksum",
            first, second);
}

static int check_table(struct findings *f, const struct db *d, size_t i,
                       struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d, tables[i].sql, &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        if (db_sum_of(st, 1, tables[i].n) !=
            (uint64_t)sqlite3_column_int64(st, 0))
            say(f, tables[i].what, st);
    if (rc != SQLITE_DONE)
        check_finding(f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

/* The detail of a submit begins with {"spec": and the spec. */
static int check_fixed(struct findings *f, const struct db *d,
                       struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d,
                   "SELECT job, what FROM (SELECT j.job AS job, CASE"
                   " WHEN substr(e.detail, 9, length(j.spec)) IS NOT j.spec"
                   "  THEN 'spec'"
                   " WHEN json_extract(e.detail, '$.name') IS NOT j.name"
                   "  THEN 'name'"
                   " WHEN json_extract(e.detail, '$.user') IS NOT j.user"
                   "  THEN 'user'"
                   " WHEN json_extract(e.detail, '$.key')"
                   "  IS NOT j.idempotency_key THEN 'idempotency_key'"
                   " END AS what FROM job AS j JOIN event AS e"
                   " ON e.job = j.job AND e.event = 'submit'"
                   " WHERE json_valid(e.detail)) WHERE what IS NOT NULL",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        check_finding(
            f, "I6: job %lld: the %s of its row is not what was submitted",
            (long long)sqlite3_column_int64(st, 0),
            (const char *)sqlite3_column_text(st, 1));
    if (rc != SQLITE_DONE)
        check_finding(f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

int check_sums(struct findings *f, const struct db *d, struct error *err)
{
    for (size_t i = 0; i < N_TABLES; i++)
        if (check_table(f, d, i, err) < 0)
            return -1;
    return check_fixed(f, d, err);
}
