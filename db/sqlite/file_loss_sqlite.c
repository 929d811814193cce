/* file_loss_sqlite.c - notice that an open database was removed, replaced or
 * truncated under its connections; see file_loss_sqlite.h.
 *
 * SQLite writes on into a file that has no name any more, and reports success:
 * what is acknowledged then is gone when the process ends. Two looks find it.
 * The cheap one compares device and inode of the two names with those at the
 * open. The thorough one also reads the start of both files, as the connection
 * sees them:
 *
 * - A database has SQLite's magic and is in WAL mode, which a backup is not.
 *   Its change counter never goes back, which that of an older copy does. It
 *   may become smaller only when SQLite knows it to be (VACUUM).
 * - The log begins with its magic once something was written to it. It may
 *   become smaller only with another header (a checkpoint that truncates).
 *
 * Not found: bytes changed in place behind the first hundred, which fsck finds.
 *
 * Removed files stay complete as long as the connections are open, so that
 * everything can still be copied out of them. What was truncated or overwritten
 * is gone: a copy would be a mixture, and there is none. */
#include "db/sqlite/file_loss_sqlite.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The start of a database file: https://www.sqlite.org/fileformat.html, 1.3
 * and, for the log, 4.1. */
enum {
    DB_HEADER_BYTES = 100,
    DB_MAGIC_BYTES = 16,
    WRITE_VERSION_AT = 18, /* 2: WAL */
    READ_VERSION_AT = 19,
    CHANGES_AT = 24
};
static const char rescued[] = ".rescued-";

static uint32_t u32_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
           b[3];
}

static bool is_log_header(const char *p)
{
    return (u32_at(p) & ~1u) == 0x377f0682;
}

/* A file that has only lost its name is complete as long as it is open. */
static int lost(struct file_loss *l, const char *end, const char *how,
                bool is_gone)
{
    l->is_gone = is_gone;
    return error_set(&l->why, ERR_IO,
                     "%s%s was %s while the daemon runs: nothing is stored "
                     "any more, stop the daemon and see RECOVERY in "
                     "mgpu-ctld(8)",
                     l->name, end, how);
}

/* ---- the cheap look ------------------------------------------------------ */

static int look_at(struct file_loss *l, const char *path, const char *end,
                   const struct stat *was)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? lost(l, end, "removed", false)
                   : 0;
    if (st.st_dev != was->st_dev || st.st_ino != was->st_ino)
        return lost(l, end, "replaced", false);
    if (was == &l->db_was && st.st_size == 0)
        return lost(l, end, "truncated", true);
    return 0;
}

static void look_locked(struct file_loss *l)
{
    if (l->why.code == ERR_NONE && look_at(l, l->path, "", &l->db_was) == 0)
        (void)look_at(l, l->log, "-wal", &l->log_was);
}

static int answer(const struct file_loss *l, struct error *err)
{
    return l->why.code == ERR_NONE
               ? 0
               : error_set(err, l->why.code, "%s", l->why.msg);
}

int file_loss_look(struct file_loss *l, struct error *err)
{
    pthread_mutex_lock(&l->lock);
    look_locked(l);
    int rc = answer(l, err);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

bool file_loss_is(struct file_loss *l)
{
    pthread_mutex_lock(&l->lock);
    bool is = l->why.code != ERR_NONE;
    pthread_mutex_unlock(&l->lock);
    return is;
}

/* ---- the look inside ----------------------------------------------------- */

/* False: it cannot be read now, which says nothing. */
static bool read_start(const struct db *d, int which, char *to, int n,
                       bool *ret_short, off_t *ret_bytes)
{
    sqlite3_file *f = NULL;
    sqlite3_int64 bytes = 0;
    if (sqlite3_file_control(d->h, "main", which, &f) != SQLITE_OK || !f ||
        !f->pMethods || f->pMethods->xFileSize(f, &bytes) != SQLITE_OK)
        return false;
    int rc = f->pMethods->xRead(f, to, n, 0);
    *ret_short = rc == SQLITE_IOERR_SHORT_READ;
    *ret_bytes = (off_t)bytes;
    return rc == SQLITE_OK || *ret_short;
}

/* Whether the file ends before SQLite takes it to. */
static bool is_cut(const struct db *d, off_t bytes)
{
    int64_t pages = 0, page = 0;
    return db_get_int(d, "PRAGMA page_count", &pages, NULL) == 0 &&
           db_get_int(d, "PRAGMA page_size", &page, NULL) == 0 &&
           bytes < pages * page;
}

static void look_at_database(struct file_loss *l, const struct db *d)
{
    static const char magic[DB_MAGIC_BYTES] = "SQLite format 3";
    char h[DB_HEADER_BYTES];
    bool is_short = false;
    off_t bytes = 0;
    if (!read_start(d, SQLITE_FCNTL_FILE_POINTER, h, sizeof(h), &is_short,
                    &bytes))
        return;
    uint32_t changes = is_short ? 0 : u32_at(h + CHANGES_AT);
    if (is_short || (bytes < l->db_bytes && is_cut(d, bytes)))
        (void)lost(l, "", "truncated", true);
    else if (memcmp(h, magic, sizeof(magic)) != 0 || h[WRITE_VERSION_AT] != 2 ||
             h[READ_VERSION_AT] != 2 || changes < l->changes)
        (void)lost(l, "", "overwritten", true);
    l->db_bytes = bytes;
    l->changes = changes;
}

static void look_at_log(struct file_loss *l, const struct db *d,
                        bool has_committed)
{
    char h[LOSS_HEADER_BYTES] = {0};
    bool is_short = false;
    off_t bytes = 0;
    if (!read_start(d, SQLITE_FCNTL_JOURNAL_POINTER, h, sizeof(h), &is_short,
                    &bytes))
        return;
    bool is_same = !is_short && memcmp(h, l->header, sizeof(h)) == 0;
    /* A transaction that changed nothing writes nothing. */
    if ((has_committed && bytes > 0 && (is_short || !is_log_header(h))) ||
        (is_same && bytes < l->log_bytes))
        (void)lost(l, "-wal", "truncated", true);
    memcpy(l->header, h, sizeof(h));
    l->log_bytes = bytes;
}

int file_loss_look_inside(struct file_loss *l, const struct db *d,
                          bool has_committed, struct error *err)
{
    pthread_mutex_lock(&l->lock);
    look_locked(l);
    if (l->why.code == ERR_NONE)
        look_at_database(l, d);
    if (l->why.code == ERR_NONE)
        look_at_log(l, d, has_committed);
    int rc = answer(l, err);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int file_loss_open(struct file_loss *l, const struct db *d, const char *path,
                   struct error *err)
{
    int n = snprintf(l->path, sizeof(l->path), "%s", path);
    if (n < 0 || (size_t)n + sizeof("-wal") > sizeof(l->log))
        return error_set(err, ERR_CONFIG, "'%s' is too long", path);
    (void)snprintf(l->log, sizeof(l->log), "%.*s-wal", n, path);
    if (stat(l->path, &l->db_was) < 0)
        return error_sys(err, errno, "'%s'", l->path);
    if (stat(l->log, &l->log_was) < 0)
        return error_sys(err, errno, "'%s'", l->log);
    pthread_mutex_init(&l->lock, NULL); /* cannot fail without attributes */
    l->name = d->name;
    return 0;
}

void file_loss_close(struct file_loss *l)
{
    if (l->name)
        pthread_mutex_destroy(&l->lock);
    l->name = NULL;
}

/* ---- the rescue ---------------------------------------------------------- */

/* A second one within a second gets the next second's name. */
static int choose_path(const struct file_loss *l, char ret[LOSS_PATH_CAP],
                       char ret_file[STORE_FILE_CAP], struct error *err)
{
    char stamp[24];
    struct tm tm;
    int dir = (int)(strrchr(l->path, '/') - l->path);
    for (time_t t = time(NULL);; t++) {
        if (!gmtime_r(&t, &tm))
            return error_sys(err, errno, "convert the time");
        (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
        (void)snprintf(ret_file, STORE_FILE_CAP, "%s%s%s", l->name, rescued,
                       stamp);
        int n = snprintf(ret, LOSS_PATH_CAP, "%.*s/%s", dir, l->path, ret_file);
        if (n < 0 || n >= LOSS_PATH_CAP)
            return error_set(err, ERR_CONFIG, "'%s' is too long", l->path);
        if (access(ret, F_OK) < 0)
            return 0;
    }
}

/* Renamed from a name that no start looks for: one that is there is
 * complete. */
int file_loss_rescue(struct file_loss *l, const struct db *d,
                     const _Atomic bool *stop, char ret_file[STORE_FILE_CAP],
                     struct error *err)
{
    char path[LOSS_PATH_CAP], part[LOSS_PATH_CAP + 8], log[LOSS_PATH_CAP + 16];
    pthread_mutex_lock(&l->lock);
    bool is_gone = l->is_gone;
    pthread_mutex_unlock(&l->lock);
    if (is_gone)
        return error_set(err, ERR_STATE, "%s: its content was lost", l->name);
    if (choose_path(l, path, ret_file, err) < 0)
        return -1;
    (void)snprintf(part, sizeof(part), "%s.part", l->path);
    (void)snprintf(log, sizeof(log), "%s-journal", part);
    (void)unlink(part);
    (void)unlink(log);
    int rc = backup_copy(d, part, stop, err);
    if (rc == 0 && (chmod(part, 0600) < 0 || rename(part, path) < 0))
        rc = error_sys(err, errno, "rename '%s'", part);
    if (rc < 0) {
        (void)unlink(part);
        (void)unlink(log);
    }
    return rc;
}

bool file_loss_rescued(const char *dir, const char *name,
                       char ret_file[STORE_FILE_CAP])
{
    size_t n = strlen(name);
    const struct dirent *e;
    DIR *d = opendir(dir);
    ret_file[0] = '\0';
    while (d && (e = readdir(d)))
        if (strncmp(e->d_name, name, n) == 0 &&
            strncmp(e->d_name + n, rescued, sizeof(rescued) - 1) == 0 &&
            strlen(e->d_name) < STORE_FILE_CAP &&
            strcmp(e->d_name, ret_file) > 0)
            memcpy(ret_file, e->d_name, strlen(e->d_name) + 1);
    if (d)
        (void)closedir(d);
    return ret_file[0] != '\0';
}
