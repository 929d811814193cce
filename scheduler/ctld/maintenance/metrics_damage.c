/* metrics_damage.c - a metrics.db that was damaged: what the log and the status
 * say of it.
 *
 * The store has put it aside or will at the next start (store.h); until the
 * file is moved away, it is an administrator's to look at. Jobs go on either
 * way: rows that are not taken stay in their spools, as on a full disk.
 */
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"

static void tell(const struct store_damage *d)
{
    if (d->is_waiting)
        log_err("metrics",
                "metrics.db is damaged, jobs go on and their rows are not "
                "stored: the next start of the daemon puts it aside and "
                "begins a new one");
    else if (d->file[0])
        log_err("metrics",
                "metrics.db was damaged, it was put aside and a new one "
                "begun: move it away when its rows are not wanted any more "
                "file=\"%s\"",
                d->file);
    else
        log_notice("metrics", "the damaged metrics.db was moved away");
}

const struct store_damage *ctld_metrics_damage(struct ctld *c)
{
    struct store_damage now = {.file = ""};
    struct store_damage *d = &c->metrics_damage;
    if (c->parts.damage)
        (void)c->parts.damage(c->parts.conf->state_dir, &now);
    if (now.is_waiting != d->is_waiting || strcmp(now.file, d->file) != 0) {
        *d = now;
        tell(d);
    }
    return d;
}

json_t *ctld_metrics_damage_json(struct ctld *c)
{
    const struct store_damage *d = ctld_metrics_damage(c);
    return d->is_waiting || d->file[0]
               ? json_pack("{s:o, s:b}", "file", ctld_text(d->file),
                           "is_waiting", d->is_waiting)
               : json_null();
}
