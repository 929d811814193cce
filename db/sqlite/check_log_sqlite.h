/* check_log_sqlite.h - the log of events held against what must always be so.
 *
 * By the ids of docs/reliability.md: I2 a key brings one job, I3 attempts grow
 * by one and are claimed once, I4 a GPU has one holder, I5 what has ended stays
 * so, I6 every move is in the table of jobs/state.c and the rows say what the
 * log says.
 */
#ifndef MGPU_DB_SQLITE_CHECK_LOG_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_LOG_SQLITE_H

#include "db/sqlite/db_sqlite.h"

struct findings {
    void (*each)(void *arg, const char *finding);
    void *arg;
    int n;
};

void finding(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Of state.db, in one transaction of the caller's.
 * err  what cannot be read at all; that is no finding yet */
int check_log(struct findings *f, const struct db *d,
              struct error *err) MUST_CHECK;

#endif
