/* drain.c - libFuzzer: what an attempt left in its directory, as the daemon
 * reads it: report.json, then spools, with a line "%%" between them. What the
 * program wrote, and how much of that was read, have the bytes of the report.
 *
 * It comes to an end, keeps nothing that a worker may not say, and a second
 * reading of the same stores nothing anew. Each input is another job's of one
 * store.
 */
#include "scheduler/ctld/ingest/spool_drain.c"

#include <ftw.h>
#include <stdint.h>

#include "db/metric_store.h"
#include "jobs/base/clock.h"
#include "tests/no_sync.h"

enum { FILES_MAX = 9, RANKS = FILES_MAX - 1, SLICES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    const char *text;
    size_t len;
} left[FILES_MAX];

static int read_left(struct files *f, uid_t uid, const char *dir,
                     const char *name, uint64_t offset, void *p, size_t cap,
                     size_t *ret_n, struct error *err)
{
    bool is_spool = strncmp(name, "spool.", 6) == 0;
    size_t i = is_spool ? 1 + (size_t)strtoul(name + 6, NULL, 10) : 0;
    (void)f, (void)uid, (void)dir;
    if (i >= FILES_MAX || !left[i].text)
        return error_set(err, ERR_NOTFOUND, "no %s", name);
    size_t n = offset < left[i].len ? left[i].len - (size_t)offset : 0;
    n = n < cap ? n : cap;
    n = n > 1000 ? 1000 : n; /* "less than cap says nothing" */
    if (n > 0)
        memcpy(p, left[i].text + offset, n);
    *ret_n = n;
    return 0;
}

static void cut(const char *at, size_t size)
{
    const char *end = at + size;
    memset(left, 0, sizeof(left));
    for (int i = 0; i < FILES_MAX && at < end; i++) {
        const char *next = memmem(at, (size_t)(end - at), "\n%%\n", 4);
        left[i].text = at;
        left[i].len = (size_t)((next ? next + 1 : end) - at);
        at = next ? next + 4 : end;
    }
}

/* As often as it has to be, as the loop would. */
static void drain_all(struct ctld *c, uint64_t job, struct drain *d)
{
    d->c = c;
    d->job = job;
    d->attempt = 1;
    d->n_ranks = RANKS;
    d->at = (struct drain_at){.offset = -1};
    for (int i = 0; d->at.rank < RANKS; i++) {
        drain_run(&d->task);
        if (d->rc < 0 || i > SLICES_MAX)
            abort();
    }
}

static void check(const struct drain *d)
{
    if (!d->looked || (d->has_report &&
                       (d->report.exit_code < 0 || d->report.exit_code > 255)))
        abort();
    if (!memchr(d->report.why, '\0', sizeof(d->report.why)))
        abort();
    const struct engine_beat *b = &d->progress.last;
    if (d->has_progress &&
        (b->iteration < 0 || b->epoch < 0 || d->progress.epochs_done < 0))
        abort();
}

/* ---- the store ------------------------------------------------------------
 */
static struct store *store;
static char dir[] = "/tmp/mgpu-drain.XXXXXX";

static int remove_it(const char *path, const struct stat *st, int kind,
                     struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void close_store(void)
{
    store->ops->destroy(store);
    (void)nftw(dir, remove_it, 8, FTW_DEPTH | FTW_PHYS);
}

static void open_store(void)
{
    struct error err = ERROR_INIT;
    if (!mkdtemp(dir) || store_sqlite_open(dir, &store, &err) < 0) {
        (void)fprintf(stderr, "%s: %s\n", dir, err.msg);
        abort();
    }
    (void)atexit(close_store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t job;
    static const struct files_ops ops = {.read = read_left};
    static struct ctld c;
    static struct drain first, again;
    struct files files = {.ops = &ops};
    cut((const char *)data, size);
    memset(&first, 0, sizeof(first));
    memset(&again, 0, sizeof(again));
    first.names = again.names = metric_name_limit_create();
    if (!first.names)
        abort();
    if (job++ == 0)
        open_store();
    c.parts.store = store;
    c.parts.clock = &clock_real;
    c.parts.files = &files;
    drain_all(&c, job, &first);
    check(&first);
    drain_all(&c, job, &again);
    if (again.count.stored > 0 ||
        again.count.repeated != first.count.stored + first.count.repeated ||
        again.has_report != first.has_report)
        abort();
    metric_name_limit_unref(first.names);
    return 0;
}
