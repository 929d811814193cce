/* put_aside.h - a metrics.db that is damaged makes way for a new one. */
#ifndef MGPU_DB_PUT_ASIDE_H
#define MGPU_DB_PUT_ASIDE_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Renames metrics.db in dir, and its -wal and -shm, to
 * metrics.db.damaged-20261124T090210Z (and -wal, -shm), by the time in UTC;
 * what is not there is left out. The mark goes. No connection may have it open.
 * err  of the files */
int put_aside(const char *dir, struct error *err) MUST_CHECK;

/* That this is to be done at the next start: the file metrics.db.damaged. True:
 * it is there. */
bool put_aside_mark(const char *dir);
bool put_aside_is_marked(const char *dir);

#endif
