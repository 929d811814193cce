/* put_aside.h - rename a damaged metrics.db, so that a new one can be
 * created. */
#ifndef MGPU_DB_PUT_ASIDE_H
#define MGPU_DB_PUT_ASIDE_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Renames metrics.db in dir, and its -wal and -shm, to
 * metrics.db.damaged-20261124T090210Z (and -wal, -shm), by the time in UTC;
 * skips missing ones. Removes the mark. No connection may have the database
 * open.
 * err  of the files */
int put_aside(const char *dir, struct error *err) MUST_CHECK;

/* Creates the mark metrics.db.damaged, which makes the next start do that.
 * True: it exists. */
bool put_aside_mark(const char *dir);
bool put_aside_is_marked(const char *dir);

#endif
