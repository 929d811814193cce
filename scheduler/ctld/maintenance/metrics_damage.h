/* metrics_damage.h - a damaged metrics.db, as the log and the status show it.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_METRICS_DAMAGE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_METRICS_DAMAGE_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/error.h"

struct ctld;

int metrics_damage_init(struct ctld *c, struct error *err) MUST_CHECK;
void metrics_damage_clear(struct ctld *c);
/* Looks again, and logs what has changed since the last look. True: metrics.db
 * is damaged, or was and the old file is still there. */
bool metrics_damage_look(struct ctld *c);
/* "metrics_damage" of mgpu.status/1; null: there is none */
json_t *metrics_damage_json(struct ctld *c);

#endif
