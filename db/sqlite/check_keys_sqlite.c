/* check_keys_sqlite.c - see check_keys_sqlite.h. */
#include "db/sqlite/check_keys_sqlite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jobs/spec/env_seal.h"
#include "jobs/state.h"

enum { YOUNG_S = 600 };

struct need { /* of a job that may still run */
    char id[SEAL_ID_CAP];
    int64_t job;
};

struct keys_check {
    struct findings *f;
    struct need *needs; /* owned */
    size_t n, cap;
    uid_t owner; /* of the state directory */
    int dir;
};

static bool is_live(const char *state)
{
    enum job_state s;
    return state && job_state_from_name(state, &s) == 0 &&
           !job_state_is_final(s);
}

static int add(struct keys_check *c, int64_t job, const char *id,
               struct error *err)
{
    if (c->n == c->cap) {
        size_t cap = c->cap > 0 ? 2 * c->cap : 64;
        struct need *p = realloc(c->needs, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "check");
        c->needs = p;
        c->cap = cap;
    }
    c->needs[c->n].job = job;
    memcpy(c->needs[c->n++].id, id, SEAL_ID_CAP);
    return 0;
}

static int find_needs(struct keys_check *c, const struct db *d,
                      struct error *err)
{
    sqlite3_stmt *st = NULL;
    char id[SEAL_ID_CAP];
    int rc, failed = 0;
    if (db_prepare(d,
                   "SELECT job, state, spec FROM job"
                   " WHERE instr(spec, 'sealed:') > 0",
                   &st, err) < 0)
        return -1;
    while (failed == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
        if (is_live((const char *)sqlite3_column_text(st, 1)) &&
            seal_find_text((const char *)sqlite3_column_text(st, 2), id))
            failed = add(c, sqlite3_column_int64(st, 0), id, err);
    if (failed == 0 && rc != SQLITE_DONE)
        finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return failed;
}

static bool is_needed(const struct keys_check *c, const char *id)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->needs[i].id, id) == 0)
            return true;
    return false;
}

/* ---- the directory ---------------------------------------------------------
 */
static void check_file(const struct keys_check *c, const char *name)
{
    struct stat st;
    char id[SEAL_ID_CAP];
    const char *rest = name + strnlen(name, SEAL_ID_CAP - 1);
    bool is_draft = strcmp(rest, ".new") == 0;
    (void)snprintf(id, sizeof(id), "%.*s", SEAL_ID_CAP - 1, name);
    if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* it was on its way out */
    bool is_digest = strcmp(name, "digest") == 0;
    if (!is_digest && (!seal_is_id(id) || (*rest && !is_draft))) {
        finding(c->f, "keys/%.80s: this is no key", name);
        return;
    }
    bool is_young = time(NULL) - st.st_mtime < YOUNG_S;
    if (!S_ISREG(st.st_mode) || st.st_uid != c->owner ||
        (st.st_mode & 07777) != 0600)
        finding(c->f,
                "keys/%.80s: not a file of uid %lu alone: uid %lu, mode %03o",
                name, (unsigned long)c->owner, (unsigned long)st.st_uid,
                (unsigned)(st.st_mode & 07777));
    else if (!is_draft && st.st_size != SEAL_KEY_BYTES)
        finding(c->f, "keys/%.80s: %lld bytes long, not %d", name,
                (long long)st.st_size, (int)SEAL_KEY_BYTES);
    if (!is_digest && !is_young && (is_draft || !is_needed(c, id)))
        finding(c->f,
                "keys/%.80s: no job that may still run needs it; the next "
                "start of the daemon removes it",
                name);
}

static void check_files(const struct keys_check *c)
{
    int copy = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;
    if (!d) {
        finding(c->f, "keys: %s", strerrordesc_np(errno));
        if (copy >= 0)
            (void)close(copy);
        return;
    }
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            check_file(c, e->d_name);
    (void)closedir(d);
}

/* ---- jobs without their key ------------------------------------------------
 *
 * Between the moment that was read and this one a job may have ended, and its
 * key be gone: so those without are asked for once more.
 */
static int is_still_live(const char *dir, int64_t job, bool *ret,
                         struct error *err)
{
    struct db now = {.h = NULL};
    char path[1024], state[24], sql[100];
    *ret = false;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT state FROM job WHERE job = %" PRId64, job);
    int n = snprintf(path, sizeof(path), "%s/state.db", dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(err, ERR_CONFIG, "'%.100s' is too long", dir);
    int rc = db_open(&now, path, "state.db", true, err);
    if (rc == 0)
        rc = db_get_text(&now, sql, state, sizeof(state), err);
    *ret = rc == 0 && is_live(state);
    db_close(&now);
    return rc;
}

static int check_needs(const struct keys_check *c, const char *dir,
                       struct error *err)
{
    struct stat st;
    for (size_t i = 0; i < c->n; i++) {
        const struct need *need = &c->needs[i];
        bool is_missing = c->dir < 0 || (fstatat(c->dir, need->id, &st,
                                                 AT_SYMLINK_NOFOLLOW) < 0 &&
                                         errno == ENOENT);
        if (is_missing && is_still_live(dir, need->job, &is_missing, err) < 0)
            return -1;
        if (is_missing)
            finding(c->f,
                    "job %" PRId64 ": the key to its sealed values, keys/%s, "
                    "is not there; it cannot start",
                    need->job, need->id);
    }
    return 0;
}

static int open_keys(struct keys_check *c, const char *dir)
{
    struct stat st, mark;
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_backup =
        at >= 0 && fstatat(at, "backup", &mark, AT_SYMLINK_NOFOLLOW) == 0;
    c->owner = at >= 0 && fstat(at, &st) == 0 ? st.st_uid : geteuid();
    c->dir = at < 0 ? -1
                    : openat(at, "keys",
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->dir < 0 && at >= 0 && !is_backup && errno != ENOENT)
        finding(c->f, "keys: %s", strerrordesc_np(errno));
    if (at >= 0)
        (void)close(at);
    if (c->dir >= 0 && fstat(c->dir, &st) == 0 &&
        (st.st_uid != c->owner || (st.st_mode & 077)))
        finding(c->f, "keys: not of uid %lu alone: uid %lu, mode %03o",
                (unsigned long)c->owner, (unsigned long)st.st_uid,
                (unsigned)(st.st_mode & 07777));
    return is_backup ? 0 : 1;
}

int check_keys(struct findings *f, const struct db *d, const char *dir,
               struct error *err)
{
    struct keys_check c = {.f = f};
    int has_keys = open_keys(&c, dir);
    int rc = has_keys ? find_needs(&c, d, err) : 0;
    if (rc == 0 && c.dir >= 0)
        check_files(&c);
    if (rc == 0)
        rc = check_needs(&c, dir, err);
    if (c.dir >= 0)
        (void)close(c.dir);
    free(c.needs);
    return rc;
}
