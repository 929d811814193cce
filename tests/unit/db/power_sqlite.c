/* power_sqlite.c - F45: the power goes, and what was not synced with it.
 *
 * A VFS in front of SQLite's own writes down each write, cut and sync of
 * state.db and its log. After any number of these the disk may be in one of
 * many states: what came before a sync of the same file is there; of what came
 * after it any part is, and the last write may have stopped in a sector.
 * Such a disk is made, and the store opened on it: what it had acknowledged
 * until then has to be there, and nothing that nobody asked for (I1).
 *
 * A disk that takes a sync for a request is made as well: there something has
 * to be lost, or the test could not fail.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/metric_store.h"
#include "jobs/base/rng.h"
#include "tests/tap.h"

enum {
    SUBMITS = 260, /* with DETAIL more than the 1,000 pages at which SQLite
                      moves its log into the file */
    DETAIL = 9000,
    CUTS = 300,
    SECTOR = 512,
    OPS_MAX = 20000,
};

/* ---- what was asked of the disk -------------------------------------------
 */
enum kind { WRITE, CUT, SYNC };
enum { DB, WAL, FILES };
static const char *const names[FILES] = {"state.db", "state.db-wal"};

struct op {
    enum kind kind;
    int file;
    long long at; /* WRITE: where; CUT: the length from then on */
    size_t n;
    char *data; /* owned */
};
static struct op ops[OPS_MAX];
static size_t n_ops;
static bool is_recording;

static void note(enum kind kind, int file, long long at, const void *data,
                 size_t n)
{
    if (!is_recording || file < 0)
        return;
    struct op *op = &ops[n_ops++];
    if (n_ops == OPS_MAX)
        exit(1);
    *op = (struct op){.kind = kind, .file = file, .at = at, .n = n};
    op->data = n > 0 ? malloc(n) : NULL;
    if (op->data)
        memcpy(op->data, data, n);
}

/* ---- the VFS ---------------------------------------------------------------
 */
struct file {
    sqlite3_file base;
    int number; /* of names[]; -1: another */
    sqlite3_file *real;
};
static sqlite3_vfs *real_vfs, power;

static sqlite3_file *real(sqlite3_file *f)
{
    return ((struct file *)f)->real;
}

static int power_close(sqlite3_file *f)
{
    return real(f)->pMethods ? real(f)->pMethods->xClose(real(f)) : SQLITE_OK;
}

static int power_read(sqlite3_file *f, void *buf, int n, sqlite3_int64 at)
{
    return real(f)->pMethods->xRead(real(f), buf, n, at);
}

static int power_write(sqlite3_file *f, const void *buf, int n,
                       sqlite3_int64 at)
{
    note(WRITE, ((struct file *)f)->number, at, buf, (size_t)n);
    return real(f)->pMethods->xWrite(real(f), buf, n, at);
}

static int power_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    note(CUT, ((struct file *)f)->number, size, NULL, 0);
    return real(f)->pMethods->xTruncate(real(f), size);
}

/* What it is for is written down; the machine's disk need not do it. */
static int power_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    note(SYNC, ((struct file *)f)->number, 0, NULL, 0);
    return SQLITE_OK;
}

static int power_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    return real(f)->pMethods->xFileSize(real(f), ret);
}

static int power_lock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xLock(real(f), level);
}

static int power_unlock(sqlite3_file *f, int level)
{
    return real(f)->pMethods->xUnlock(real(f), level);
}

static int power_reserved(sqlite3_file *f, int *ret)
{
    return real(f)->pMethods->xCheckReservedLock(real(f), ret);
}

static int power_control(sqlite3_file *f, int op, void *arg)
{
    return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int power_sector(sqlite3_file *f)
{
    return real(f)->pMethods->xSectorSize(real(f));
}

static int power_device(sqlite3_file *f)
{
    return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int power_shm_map(sqlite3_file *f, int page, int size, int extend,
                         void volatile **ret)
{
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, ret);
}

static int power_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
}

static void power_shm_barrier(sqlite3_file *f)
{
    real(f)->pMethods->xShmBarrier(real(f));
}

static int power_shm_unmap(sqlite3_file *f, int remove)
{
    return real(f)->pMethods->xShmUnmap(real(f), remove);
}

/* Version 2: without memory mapped files, past which writes could go. */
static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = power_close,
    .xRead = power_read,
    .xWrite = power_write,
    .xTruncate = power_truncate,
    .xSync = power_sync,
    .xFileSize = power_size,
    .xLock = power_lock,
    .xUnlock = power_unlock,
    .xCheckReservedLock = power_reserved,
    .xFileControl = power_control,
    .xSectorSize = power_sector,
    .xDeviceCharacteristics = power_device,
    .xShmMap = power_shm_map,
    .xShmLock = power_shm_lock,
    .xShmBarrier = power_shm_barrier,
    .xShmUnmap = power_shm_unmap,
};

static int power_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file,
                      int flags, int *ret_flags)
{
    struct file *f = (struct file *)file;
    const char *base = name ? strrchr(name, '/') : NULL;
    (void)vfs;
    f->number = -1;
    for (int i = 0; base && i < FILES; i++)
        if (strcmp(base + 1, names[i]) == 0)
            f->number = i;
    f->real = (sqlite3_file *)(void *)(f + 1);
    f->base.pMethods = &methods;
    return real_vfs->xOpen(real_vfs, name, f->real, flags, ret_flags);
}

static void install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    power = *real_vfs;
    power.zName = "power";
    power.pNext = NULL;
    power.szOsFile = (int)sizeof(struct file) + real_vfs->szOsFile;
    power.xOpen = power_open;
    if (sqlite3_vfs_register(&power, 1) != SQLITE_OK)
        exit(1);
}

/* ---- the disk that is left -------------------------------------------------
 */
struct image {
    char *data;
    size_t n, cap;
};
static struct image first; /* state.db as the recording began */

static void put(struct image *m, size_t at, const char *data, size_t n)
{
    if (at + n > m->cap) {
        m->cap = 2 * (at + n);
        m->data = realloc(m->data, m->cap);
        if (!m->data)
            exit(1);
    }
    if (at > m->n)
        memset(m->data + m->n, 0, at - m->n);
    memcpy(m->data + at, data, n);
    m->n = at + n > m->n ? at + n : m->n;
}

static void apply(struct image *m, const struct op *op, size_t n)
{
    if (op->kind == WRITE && n > 0)
        put(m, (size_t)op->at, op->data, n);
    else if (op->kind == CUT && (size_t)op->at < m->n)
        m->n = (size_t)op->at;
}

/* What is kept of the operations after the last sync of their file. */
enum loss { ALL_LOST, NONE_LOST, SOME_LOST, TORN, LOSSES };

/* How much of it is on the disk; 0: nothing. */
static size_t share(const struct op *op, enum loss loss, bool is_last,
                    struct rng *r)
{
    bool is_kept =
        loss == NONE_LOST || (loss != ALL_LOST && rng_u32(r) % 2 == 1);
    if (op->kind != WRITE)
        return is_kept;
    if (loss == TORN && is_last)
        return rng_u32(r) % (op->n / SECTOR + 1) * SECTOR;
    return is_kept ? op->n : 0;
}

/* The disk after the first n operations.
 * in  is_honest  a sync does what it says */
static void build(struct image *files, size_t n, enum loss loss, bool is_honest,
                  struct rng *r)
{
    size_t synced[FILES] = {0};
    for (size_t i = 0; i < n; i++)
        if (ops[i].kind == SYNC && is_honest)
            synced[ops[i].file] = i;
    files[WAL].n = 0;
    files[DB].n = 0;
    put(&files[DB], 0, first.data, first.n);
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &ops[i];
        bool is_safe = i < synced[op->file];
        size_t part = is_safe ? (op->kind == WRITE ? op->n : 1)
                              : share(op, loss, i + 1 == n, r);
        if (part > 0)
            apply(&files[op->file], op, part);
    }
}

/* ---- directories -----------------------------------------------------------
 */
static const char *in(const char *dir, const char *name)
{
    static char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static void clean(const char *dir)
{
    static const char *const all[] = {
        "state.db",   "state.db-wal",   "state.db-shm",   "state.db-journal",
        "metrics.db", "metrics.db-wal", "metrics.db-shm", "metrics.db-journal",
        "lock",       "stored"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        (void)unlink(in(dir, all[i]));
}

static bool leave(const char *dir, const struct image *files)
{
    bool is_left = true;
    clean(dir);
    for (int i = 0; i < FILES; i++) {
        if (files[i].n == 0)
            continue;
        int fd = open(in(dir, names[i]), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        is_left = is_left && fd >= 0 &&
                  write(fd, files[i].data, files[i].n) == (ssize_t)files[i].n;
        if (fd >= 0)
            (void)close(fd);
    }
    return is_left;
}

static bool read_first(const char *dir)
{
    struct stat st;
    int fd = open(in(dir, names[DB]), O_RDONLY);
    bool is_read = fd >= 0 && fstat(fd, &st) == 0;
    if (is_read) {
        first.n = first.cap = (size_t)st.st_size;
        first.data = malloc(first.n);
        is_read =
            first.data && read(fd, first.data, first.n) == (ssize_t)first.n;
    }
    if (fd >= 0)
        (void)close(fd);
    return is_read;
}

/* ---- submits ---------------------------------------------------------------
 */
static size_t acked[SUBMITS]; /* operations by the time that it was */

/* Each its own, so that another's page is seen. */
static const char *detail_of(uint64_t id)
{
    static char text[DETAIL + 64];
    int n = snprintf(text, sizeof(text), "{\"key\":\"%llu\",\"spec\":\"",
                     (unsigned long long)id);
    memset(text + n, 'a' + (int)(id % 26), DETAIL);
    memcpy(text + n + DETAIL, "\"}", 3);
    return text;
}

static bool submit_all(struct store *s)
{
    for (uint64_t id = 1; id <= SUBMITS; id++) {
        struct store_event e = {.job = id,
                                .ev = EV_SUBMIT,
                                .at_s = 1763712000.5,
                                .uid = 1000,
                                .detail = detail_of(id)};
        const struct store_batch batch = {.events = &e, .n_events = 1};
        struct error err = ERROR_INIT;
        if (s->ops->append(s, &batch, &err) < 0) {
            tap_diag("%s", err.msg);
            return false;
        }
        acked[id - 1] = n_ops;
    }
    return true;
}

/* One after the other, each as it was. */
static int check(void *arg, const struct store_event *e, struct error *err)
{
    uint64_t *n = arg;
    ++*n;
    return e->job == *n && e->seq == *n && e->ev == EV_SUBMIT && e->detail &&
                   strcmp(e->detail, detail_of(e->job)) == 0
               ? 0
               : error_set(err, ERR_INVAL, "event %llu is another",
                           (unsigned long long)*n);
}

/* How many submits are there; -1: it cannot be read, err says why. */
static long long look(const char *dir, struct error *err)
{
    struct store *s = NULL;
    uint64_t n = 0;
    if (store_sqlite_open(dir, &s, err) < 0)
        return -1;
    int rc = s->ops->load(s, check, &n, err);
    s->ops->destroy(s);
    return rc < 0 ? -1 : (long long)n;
}

/* How many of CUTS disks have less than was acknowledged, or more than was
 * asked for, or cannot be read; of a disk that is not honest 1 stands for all.
 */
static int losses(const char *dir, bool is_honest)
{
    struct image files[FILES] = {{.n = 0}};
    struct rng r;
    int n_bad = 0;
    rng_seed(&r, 45);
    for (int i = 0; i < CUTS; i++) {
        size_t n = 1 + (size_t)i * (n_ops - 1) / (CUTS - 1);
        struct error err = ERROR_INIT;
        long long want = 0;
        while (want < SUBMITS && acked[want] <= n)
            want++;
        build(files, n, (enum loss)(i % LOSSES), is_honest, &r);
        long long got = leave(dir, files) ? look(dir, &err) : -1;
        if (got >= want && got <= want + 1)
            continue;
        n_bad++;
        if (!is_honest)
            break; /* one is enough */
        if (n_bad < 10)
            tap_diag("after %zu of %zu operations, loss %d: %lld submits of "
                     "%lld; %s",
                     n, n_ops, i % LOSSES, got, want, err.msg);
    }
    for (int i = 0; i < FILES; i++)
        free(files[i].data);
    return n_bad;
}

static size_t count(enum kind kind, int file)
{
    size_t n = 0;
    for (size_t i = 0; i < n_ops; i++)
        n += ops[i].kind == kind && ops[i].file == file;
    return n;
}

int main(void)
{
    char dir[] = "/tmp/mgpu-power-XXXXXX";
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    if (!mkdtemp(dir))
        return 1;
    install();
    ok(store_sqlite_open(dir, &s, &err) == 0, "a new store %s", err.msg);
    if (!s)
        return 1;
    s->ops->destroy(s);
    ok(read_first(dir), "is there");
    is_recording = true;
    ok(store_sqlite_open(dir, &s, &err) == 0 && submit_all(s),
       "F45: %d submits are acknowledged", SUBMITS);
    is_recording = false;
    s->ops->destroy(s);
    ok(count(SYNC, WAL) >= SUBMITS, "each after a sync of the log");
    ok(count(WRITE, DB) > 0 && count(SYNC, DB) > 0,
       "which was moved into the file meanwhile: %zu writes there",
       count(WRITE, DB));
    is_int(losses(dir, true), 0, "the power goes in 300 places: none is lost");
    ok(losses(dir, false) > 0, "on a disk that does not sync some are");
    clean(dir);
    ok(rmdir(dir) == 0, "the store leaves no other files behind");
    for (size_t i = 0; i < n_ops; i++)
        free(ops[i].data);
    free(first.data);
    return tap_done();
}
