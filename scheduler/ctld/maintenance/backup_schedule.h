/* backup_schedule.h - the backups that store.backup asks for, and the thread
 * that takes them. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_BACKUP_SCHEDULE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_BACKUP_SCHEDULE_H

#include <jansson.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;

int backup_schedule_init(struct ctld *c, struct error *err) MUST_CHECK;
/* After its thread has ended. */
void backup_schedule_clear(struct ctld *c);
/* Creates the thread of the backups, unless it exists. */
int backup_schedule_need_thread(struct ctld *c, struct error *err) MUST_CHECK;
/* The configuration has changed: looks whether a backup is due. Before _init()
 * this does nothing. */
void backup_schedule_restart(struct ctld *c);

struct backup_counts {
    int32_t n;         /* in the directory, at the last look */
    uint64_t n_failed; /* since the start */
    double last_s;     /* the newest, since 1970; NAN: not known, or none */
};
struct backup_counts backup_schedule_counts(const struct ctld *c);
/* "backup" of mgpu.status/1; null: the configuration asks for none */
json_t *backup_schedule_json(const struct ctld *c);

#endif
