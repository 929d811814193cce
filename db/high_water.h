/* high_water.h - the file "stored": the last event and the highest job that the
 * store has made durable.
 *
 * A log that lost its end looks valid: SQLite takes the remaining rows for all.
 * The file "stored" in the directory holds the number of the last event and of
 * the highest job that a transaction has made durable. It is written after each
 * transaction, so it is never ahead. It is synced each MARK_SYNC_IDS jobs and
 * at the end, so a crash of the machine may leave it that many jobs behind; a
 * crash of the daemon does not. */
#ifndef MGPU_DB_HIGH_WATER_H
#define MGPU_DB_HIGH_WATER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { MARK_SYNC_IDS = 256 };

struct mark {
    uint64_t job, seq; /* 0: none, or unknown */
};

/* Creates the file if it is missing. */
int high_water_open(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;
/* A failure does not fail the transaction: the file stays behind. */
void high_water_write(int fd, const struct mark *m, bool sync);
/* All 0: there is no readable one. */
struct mark high_water_read(const char *dir);

#endif
