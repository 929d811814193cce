/* lost_files.h - databases that were removed, replaced or truncated under the
 * running daemon. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_LOST_FILES_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_LOST_FILES_H

#include <jansson.h>
#include <stdbool.h>

#include "db/metric_store.h"
#include "jobs/base/error.h"

struct ctld;

/* Looks each second from then on, and rescues what is lost. */
int lost_files_init(struct ctld *c, struct error *err) MUST_CHECK;
/* After the thread of the backups; rescues what is not rescued yet. */
void lost_files_clear(struct ctld *c);
/* Looks now. True: the database is not the one any more that the daemon has
 * open; err, which may be NULL, says what happened. */
bool lost_files_is(struct ctld *c, enum store_file f, struct error *err);
/* A backup opens the databases by their names.
 * err  ERR_IO one of both is lost */
int lost_files_check(struct ctld *c, struct error *err) MUST_CHECK;
/* "lost" of mgpu.status/1 */
json_t *lost_files_json(struct ctld *c);

#endif
