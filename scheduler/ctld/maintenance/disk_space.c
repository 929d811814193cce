/* disk_space.c - refuse submits while free space is below store.min_free.
 *
 * Running jobs need the rest: for their events, their rows, and maybe their
 * checkpoints. A full disk refuses submits as well, but with them everything
 * else. Whoever needs the number asks the file system, at most once a second,
 * so the daemon accepts jobs again without any action when space is free
 * again. The file system is a local one (db/store_dir.c), whose numbers are in
 * memory.
 */
#include "scheduler/ctld/maintenance/disk_space.h"

#include <math.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "jobs/base/log.h"
#include "jobs/text/scalar.h"
#include "scheduler/ctld/ctld_internal.h"

static const double ASK_EVERY_S = 1;

struct disk_space {
    double asked_s;     /* NAN: not yet */
    int64_t free_bytes; /* -1: not known */
    bool is_short;
};

static void ask(struct disk_space *r, const char *dir)
{
    struct statvfs fs;
    r->free_bytes = statvfs(dir, &fs) < 0
                        ? -1
                        : (int64_t)(fs.f_bavail) * (int64_t)fs.f_frsize;
}

/* In whole MiB. */
static const char *show(char out[SCALAR_CAP], int64_t bytes)
{
    const int64_t mib = 1 << 20;
    return scalar_show_size(out, bytes < mib ? bytes : bytes / mib * mib);
}

static void tell(const struct disk_space *r, int64_t min_bytes)
{
    char is[SCALAR_CAP], min[SCALAR_CAP];
    if (r->is_short)
        log_err("store",
                "the disk is nearly full, the daemon accepts no job free=%s "
                "min_free=%s",
                show(is, r->free_bytes), show(min, min_bytes));
    else
        log_notice("store", "the disk has room again, the daemon accepts jobs");
}

/* Asks the file system unless the last answer is young. */
static const struct disk_space *look(struct ctld *c)
{
    struct disk_space *r = c->disk_space;
    const struct ctld_conf *conf = c->parts.conf;
    double now_s = c->parts.clock->now_s(c->parts.clock);
    if (isnan(r->asked_s) || now_s - r->asked_s >= ASK_EVERY_S) {
        r->asked_s = now_s;
        ask(r, conf->state_dir);
    }
    /* If statvfs() fails, accept: losing a submit is worse than a full disk. */
    bool is_short = r->free_bytes >= 0 && r->free_bytes < conf->min_free_bytes;
    if (is_short != r->is_short) {
        r->is_short = is_short;
        tell(r, conf->min_free_bytes);
    }
    return r;
}

int64_t disk_space_free_bytes(struct ctld *c)
{
    return look(c)->free_bytes;
}

bool disk_space_is_short(struct ctld *c)
{
    return look(c)->is_short;
}

int disk_space_check(struct ctld *c, struct error *err)
{
    const struct disk_space *r = look(c);
    char is[SCALAR_CAP], min[SCALAR_CAP];
    return r->is_short
               ? error_set(err, ERR_LIMIT,
                           "nothing is accepted now: the state directory's "
                           "disk has %s free, and store.min_free is %s; an "
                           "administrator can make room or change the limit, "
                           "what runs goes on",
                           show(is, r->free_bytes),
                           show(min, c->parts.conf->min_free_bytes))
               : 0;
}

json_t *disk_space_json(struct ctld *c)
{
    const struct disk_space *r = look(c);
    int64_t min = c->parts.conf->min_free_bytes;
    return json_pack(
        "{s:o, s:o, s:b}", "free_bytes",
        r->free_bytes < 0 ? json_null() : json_integer(r->free_bytes),
        "min_free_bytes", min > 0 ? json_integer(min) : json_null(), "is_short",
        r->is_short);
}

int disk_space_init(struct ctld *c, struct error *err)
{
    c->disk_space = calloc(1, sizeof(*c->disk_space));
    if (!c->disk_space)
        return error_set(err, ERR_NOMEM, "disk space");
    c->disk_space->asked_s = NAN;
    return 0;
}

void disk_space_clear(struct ctld *c)
{
    free(c->disk_space);
    c->disk_space = NULL;
}
