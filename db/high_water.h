/* high_water.h - how far a store has come, written beside it.
 *
 * A log that lost its end looks sound: SQLite takes what is there for all. The
 * file "stored" in the directory holds the number of the last event and of the
 * highest job that a transaction has made durable. It is written after each,
 * so it is never ahead; it is synced each MARK_SYNC_IDS jobs and at the end, so
 * a crash of the machine may leave it that many jobs behind, but not one of the
 * daemon.
 */
#ifndef MGPU_DB_HIGH_WATER_H
#define MGPU_DB_HIGH_WATER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { MARK_SYNC_IDS = 256 };

struct mark {
    uint64_t job, seq; /* 0: none, or not known */
};

/* Makes the file when it is missing. */
int mark_open(const char *dir, int *ret_fd, struct error *err) MUST_CHECK;
/* A failure is no failure of the transaction: the file stays behind. */
void mark_write(int fd, const struct mark *m, bool sync);
/* All 0: there is none that can be read. */
struct mark mark_read(const char *dir);

#endif
