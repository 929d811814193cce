/* backup_sqlite.c - a consistent copy of a store that is in use; see
 * metric_store.h.
 *
 * Each database is read in one transaction of its own connection, so the copy
 * is a snapshot and blocks no writer. metrics.db is copied first: state.db,
 * copied later, has all jobs of its rows. The copies are verified and synced,
 * and only then renamed to the requested name: an entry with that name is
 * complete. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/backup_dir.h"
#include "db/metric_store.h"
#include "db/sqlite/db_sqlite.h"
#include "db/sqlite/schema_sqlite.h"
#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"

/* CHECK_STEPS instructions of SQLite's virtual machine take some milliseconds.
 * The check of one table's pages is a single instruction, however long it
 * takes. */
enum { SMALL_MAX = 64 << 20, STEP_PAGES = 4096, CHECK_STEPS = 100000 };

/* Files next to the databases that a daemon needs to continue. */
static const char *const small[] = {"secret", "admin.log", "first_id"};

static int path_of(char *ret, size_t cap, const char *dir, const char *name,
                   struct error *err)
{
    int n = snprintf(ret, cap, "%s/%s", dir, name);
    return n > 0 && (size_t)n < cap
               ? 0
               : error_set(err, ERR_CONFIG, "'%s' is too long", dir);
}

static bool is_over(const _Atomic bool *stop)
{
    return stop && atomic_load(stop);
}

static int give_up(struct error *err)
{
    return error_set(err, ERR_UNAVAIL, "the daemon is stopping");
}

/* Copies in steps of 16 MiB. The source's open transaction keeps the snapshot
 * from the first to the last of them. */
static int copy_pages(const struct db *from, const struct db *to,
                      const _Atomic bool *stop, struct error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to->h, "main", from->h, "main");
    if (!b)
        return db_fail(to, "backup", err);
    int rc = SQLITE_OK;
    while (rc == SQLITE_OK && !is_over(stop))
        rc = sqlite3_backup_step(b, STEP_PAGES);
    (void)sqlite3_backup_finish(b);
    if (rc == SQLITE_OK)
        return give_up(err);
    return rc == SQLITE_DONE ? 0 : db_fail(to, "backup", err);
}

/* SQLite calls it at intervals; not 0: abort the statement. */
static int look_up(void *stop)
{
    return is_over(stop);
}

/* Verifies the copy: a damaged backup would be useless. A copy is a single
 * file, without a log. */
static int check_copy(const struct db *d, const _Atomic bool *stop,
                      struct error *err)
{
    char line[120];
    sqlite3_progress_handler(d->h, CHECK_STEPS, look_up, (void *)stop);
    if (db_exec(d, "PRAGMA journal_mode = DELETE", err) < 0 ||
        db_get_text(d, "PRAGMA quick_check(1)", line, sizeof(line), err) < 0)
        return is_over(stop) ? give_up(err) : -1;
    return strcmp(line, "ok") == 0
               ? 0
               : error_set(err, ERR_IO, "%s: the copy is damaged: %s", d->name,
                           line);
}

/* Opens a snapshot, which ignores later writes until it is closed. */
static int open_moment(struct db *ret, const char *dir, const char *name,
                       struct error *err)
{
    char path[1024], n[24];
    if (path_of(path, sizeof(path), dir, name, err) < 0 ||
        db_open(ret, path, name, true, err) < 0)
        return -1;
    return db_exec(ret, "BEGIN", err) < 0
               ? -1
               : db_get_text(ret, "SELECT count(*) FROM sqlite_schema", n,
                             sizeof(n), err);
}

int backup_copy(const struct db *from, const char *to_path,
                const _Atomic bool *stop, struct error *err)
{
    struct db to = {.h = NULL};
    int rc = db_open(&to, to_path, from->name, false, err);
    if (rc == 0)
        rc = copy_pages(from, &to, stop, err);
    if (rc == 0)
        rc = check_copy(&to, stop, err);
    db_close(&to);
    return rc == 0 ? file_atomic_sync(to_path, err) : -1;
}

static int copy_database(const struct db *from, const char *into,
                         const _Atomic bool *stop, struct error *err)
{
    char to_path[1024];
    return path_of(to_path, sizeof(to_path), into, from->name, err) < 0
               ? -1
               : backup_copy(from, to_path, stop, err);
}

/* The rows of an attempt are stored before its end is, so the snapshot of the
 * log is taken first: every job that has ended in the copy has its rows in
 * it. */
static int copy_databases(const char *dir, const char *into,
                          const _Atomic bool *stop, struct error *err)
{
    struct db log = {.h = NULL}, rows = {.h = NULL};
    int rc = open_moment(&log, dir, "state.db", err);
    if (rc == 0)
        rc = open_moment(&rows, dir, "metrics.db", err);
    if (rc == 0)
        rc = copy_database(&log, into, stop, err);
    db_close(&log);
    if (rc == 0)
        rc = copy_database(&rows, into, stop, err);
    db_close(&rows);
    return rc;
}

/* A missing file is no error: a store without jobs has no secret. */
static int copy_small(const char *dir, const char *into, const char *name,
                      struct error *err)
{
    char from[1024];
    struct buf text = BUF_INIT;
    struct error why = ERROR_INIT;
    if (path_of(from, sizeof(from), dir, name, err) < 0)
        return -1;
    if (buf_read_file(&text, from, SMALL_MAX, &why) < 0) {
        buf_clear(&text);
        return why.code == ERR_NOTFOUND
                   ? 0
                   : error_set(err, why.code, "%s", why.msg);
    }
    int rc = file_atomic_create(into, name, buf_str(&text), text.len, err);
    buf_clear(&text);
    return rc;
}

/* Marks the copy, so that a daemon that is started on it recognizes a restore:
 * scheduler/ctld/startup/restored_ids.h. */
static int write_mark(const char *into, struct error *err)
{
    static const char text[] = "a copy by mgpu-admin backup\n";
    return file_atomic_create(into, "backup", text, sizeof(text) - 1, err);
}

static int fill(const char *dir, const char *part, const _Atomic bool *stop,
                struct error *err)
{
    if (copy_databases(dir, part, stop, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        if (copy_small(dir, part, small[i], err) < 0)
            return -1;
    if (write_mark(part, err) < 0)
        return -1;
    return file_atomic_sync(part, err);
}

int store_sqlite_backup(const char *dir, const char *dest,
                        const _Atomic bool *stop, struct error *err)
{
    char part[1024];
    struct stat st;
    int n = snprintf(part, sizeof(part), "%s.part", dest);
    if (n < 0 || (size_t)n >= sizeof(part))
        return error_set(err, ERR_CONFIG, "'%s' is too long", dest);
    if (lstat(dest, &st) == 0)
        return error_set(err, ERR_STATE, "'%s' already exists", dest);
    backups_remove_part(part); /* left by an interrupted backup */
    if (mkdir(part, 0700) < 0)
        return error_sys(err, errno, "make '%s'", part);
    int rc = fill(dir, part, stop, err);
    if (rc == 0 && rename(part, dest) < 0)
        rc = error_sys(err, errno, "rename '%s'", part);
    if (rc == 0)
        return file_atomic_sync_parent(dest, err);
    backups_remove_part(part);
    return -1;
}
