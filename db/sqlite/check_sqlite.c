/* check_sqlite.c - verify a store, in use or not; see metric_store.h.
 *
 * SQLite checks its pages; check_log_sqlite.c verifies the event log,
 * check_sum_sqlite.c the checksums of rows, and check_summary_sqlite.c the
 * summary lines that lists show. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "db/high_water.h"
#include "db/metric_store.h"
#include "db/sqlite/check_sum_sqlite.h"
#include "db/sqlite/check_summary_sqlite.h"
#include "db/sqlite/schema_sqlite.h"

enum { FINDINGS_MAX = 100 };

void check_finding(struct findings *f, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (f->n++ < FINDINGS_MAX)
        f->each(f->arg, text);
}

static int open_one(const char *dir, struct db *d, const char *name,
                    struct error *err)
{
    char path[1024];
    int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(err, ERR_CONFIG, "'%s' is too long", dir);
    if (access(path, F_OK) < 0) /* SQLite does not report why it cannot open
                                 * it */
        return error_sys(err, errno, "%s", name);
    /* One snapshot for all reads. */
    if (db_open(d, path, name, true, err) < 0)
        return -1;
    return db_exec(d, "BEGIN", err);
}

/* Every page, every row, every index. */
static int check_pages(struct findings *f, const struct db *d,
                       struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d, "PRAGMA integrity_check(20)", &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *line = (const char *)sqlite3_column_text(st, 0);
        if (line && strcmp(line, "ok") != 0)
            check_finding(f, "%s: %.300s", d->name, line);
    }
    if (rc != SQLITE_DONE)
        check_finding(f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

/* A restored backup may end before the mark. In a schema without `removed` the
 * mark is never ahead of the events, so the second query does not run.
 * in  m  read before d was opened */
static int check_mark(struct findings *f, const struct db *d, const char *dir,
                      const struct mark *m, struct error *err)
{
    char backup[1024];
    int64_t seq = 0, gone = 0;
    int n = snprintf(backup, sizeof(backup), "%s/backup", dir);
    if (n < 0 || (size_t)n >= sizeof(backup) || access(backup, F_OK) == 0)
        return 0;
    if (db_get_int(d, "SELECT coalesce(max(seq), 0) FROM event", &seq, err) < 0)
        return -1;
    if (m->seq <= (uint64_t)seq)
        return 0;
    if (db_get_int(d, "SELECT coalesce(max(last), 0) FROM removed", &gone,
                   err) < 0)
        return -1;
    if (m->seq > (uint64_t)gone)
        check_finding(
            f,
            "state.db: its log ends at event %lld, events up to %llu and "
            "jobs up to %llu were stored",
            (long long)(seq > gone ? seq : gone), (unsigned long long)m->seq,
            (unsigned long long)m->job);
    return 0;
}

/* out  *ret_events  in its log; unchanged if it cannot be read */
static int check_state(struct findings *f, const char *dir, int64_t *ret_events,
                       struct error *err)
{
    struct db d = {.h = NULL};
    struct mark m = high_water_read(dir);
    int rc = open_one(dir, &d, "state.db", err);
    if (rc == 0)
        rc = schema_check(&d, &schema_state, err);
    if (rc == 0)
        rc = check_pages(f, &d, err);
    /* Further findings in a file with a broken tree are noise. */
    if (rc == 0 && f->n == 0) {
        rc = db_get_int(&d, "SELECT count(*) FROM event", ret_events, err);
        if (rc == 0)
            rc = check_mark(f, &d, dir, &m, err);
        if (rc == 0)
            rc = check_log(f, &d, err);
        if (rc == 0)
            rc = check_sums(f, &d, err);
        if (rc == 0)
            rc = check_lines(f, &d, err);
    }
    db_close(&d);
    return rc;
}

/* metrics.db is created right after state.db, so an empty one next to a log of
 * events was emptied, by a person or a disk. A daemon would start a new one,
 * and lose the curves silently.
 * in  events  in the log of state.db */
static int check_metrics(struct findings *f, const char *dir, int64_t events,
                         struct error *err)
{
    struct db d = {.h = NULL};
    int64_t version = 0;
    int rc = open_one(dir, &d, "metrics.db", err);
    if (rc == 0)
        rc = schema_check(&d, &schema_metrics, err);
    if (rc == 0)
        rc = db_get_int(&d, "PRAGMA user_version", &version, err);
    if (rc == 0 && version == 0 && events > 0)
        check_finding(f, "metrics.db: empty beside a state.db with jobs");
    if (rc == 0)
        rc = check_pages(f, &d, err);
    db_close(&d);
    return rc;
}

/* A database that cannot be opened is a finding; the other one is checked all
 * the same. */
int store_sqlite_check(const char *dir,
                       void (*each)(void *arg, const char *finding), void *arg)
{
    struct findings f = {.each = each, .arg = arg};
    struct error err = ERROR_INIT;
    int64_t events = 0;
    if (check_state(&f, dir, &events, &err) < 0)
        check_finding(&f, "%s", err.msg);
    err = (struct error)ERROR_INIT;
    if (check_metrics(&f, dir, events, &err) < 0)
        check_finding(&f, "%s", err.msg);
    return f.n;
}
