/* disk_space.c - store.min_free: while the disk of the state directory has
 * less, no job is accepted.
 *
 * What runs needs the rest: its events, its rows, its checkpoints maybe. A full
 * disk refuses submits as well, but with them everything else. The file system
 * is asked at most once a second, by whoever needs to know, so there is nothing
 * to be done when there is room again. It is a local one (db/store_dir.c),
 * whose numbers are in memory.
 */
#include <math.h>
#include <sys/statvfs.h>

#include "jobs/base/log.h"
#include "jobs/text/scalar.h"
#include "scheduler/ctld/ctld_internal.h"

static const double ASK_EVERY_S = 1;

static void ask(struct ctld_room *r, const char *dir)
{
    struct statvfs fs;
    r->free_bytes = statvfs(dir, &fs) < 0
                        ? -1
                        : (int64_t)(fs.f_bavail) * (int64_t)fs.f_frsize;
}

/* In whole MiB: nobody reads more. */
static const char *show(char out[SCALAR_CAP], int64_t bytes)
{
    const int64_t mib = 1 << 20;
    return scalar_show_size(out, bytes < mib ? bytes : bytes / mib * mib);
}

static void tell(const struct ctld_room *r, int64_t min_bytes)
{
    char is[SCALAR_CAP], min[SCALAR_CAP];
    if (r->is_short)
        log_err("store",
                "no job is accepted until there is room free=%s min_free=%s",
                show(is, r->free_bytes), show(min, min_bytes));
    else
        log_notice("store", "there is room again, jobs are accepted");
}

const struct ctld_room *ctld_room(struct ctld *c)
{
    struct ctld_room *r = &c->room;
    const struct ctld_conf *conf = c->parts.conf;
    double now_s = c->parts.clock->now_s(c->parts.clock);
    if (isnan(r->asked_s) || now_s - r->asked_s >= ASK_EVERY_S) {
        r->asked_s = now_s;
        ask(r, conf->state_dir);
    }
    /* Of what the system does not tell nothing is known, and a job is dear. */
    bool is_short = r->free_bytes >= 0 && r->free_bytes < conf->min_free_bytes;
    if (is_short != r->is_short) {
        r->is_short = is_short;
        tell(r, conf->min_free_bytes);
    }
    return r;
}

int ctld_check_room(struct ctld *c, struct error *err)
{
    const struct ctld_room *r = ctld_room(c);
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

json_t *ctld_room_json(struct ctld *c)
{
    const struct ctld_room *r = ctld_room(c);
    int64_t min = c->parts.conf->min_free_bytes;
    return json_pack(
        "{s:o, s:o, s:b}", "free_bytes",
        r->free_bytes < 0 ? json_null() : json_integer(r->free_bytes),
        "min_free_bytes", min > 0 ? json_integer(min) : json_null(), "is_short",
        r->is_short);
}
