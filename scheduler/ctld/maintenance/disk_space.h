/* disk_space.h - the free space of the state directory, and store.min_free. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_DISK_SPACE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_DISK_SPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;

int disk_space_init(struct ctld *c, struct error *err) MUST_CHECK;
void disk_space_clear(struct ctld *c);
/* The free bytes, at most a second old; -1: not known. */
int64_t disk_space_free_bytes(struct ctld *c);
/* Whether less than store.min_free is left. */
bool disk_space_is_short(struct ctld *c);
/* Whether the daemon accepts jobs now.
 * err  ERR_LIMIT too little is left; the text is for the user */
int disk_space_check(struct ctld *c, struct error *err) MUST_CHECK;
/* "storage" of mgpu.status/1 */
json_t *disk_space_json(struct ctld *c);

#endif
