/* metrics_damage.c - report a damaged metrics.db in the log and in the status.
 *
 * The store has put the file aside, or does at the next start (metric_store.h).
 * It stays there until an administrator moves it away. Jobs go on either way:
 * rows that the store does not take stay in their spools, as on a full disk.
 */
#include "scheduler/ctld/maintenance/metrics_damage.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/request/reply.h"

struct metrics_damage {
    struct store_damage last; /* at the last look */
};

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

static const struct store_damage *look(struct ctld *c)
{
    struct store_damage now = {.file = ""};
    struct store_damage *d = &c->metrics_damage->last;
    if (c->parts.damage)
        (void)c->parts.damage(c->parts.conf->state_dir, &now);
    if (now.is_waiting != d->is_waiting || strcmp(now.file, d->file) != 0) {
        *d = now;
        tell(d);
    }
    return d;
}

bool metrics_damage_look(struct ctld *c)
{
    const struct store_damage *d = look(c);
    return d->is_waiting || d->file[0];
}

json_t *metrics_damage_json(struct ctld *c)
{
    const struct store_damage *d = look(c);
    return d->is_waiting || d->file[0]
               ? json_pack("{s:o, s:b}", "file", ctld_text(d->file),
                           "is_waiting", d->is_waiting)
               : json_null();
}

int metrics_damage_init(struct ctld *c, struct error *err)
{
    c->metrics_damage = calloc(1, sizeof(*c->metrics_damage));
    return c->metrics_damage ? 0
                             : error_set(err, ERR_NOMEM, "damage of metrics");
}

void metrics_damage_clear(struct ctld *c)
{
    free(c->metrics_damage);
    c->metrics_damage = NULL;
}
