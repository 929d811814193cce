/* check_log_sqlite.h - verify the invariants of the event log.
 *
 * By the ids of docs/reliability.md: I2 a key creates one job, I3 attempts
 * increase by one and are claimed once, I4 a GPU has one holder, I5 an ended
 * job stays ended, I6 every move is in the table of jobs/state.c and the rows
 * agree with the log. */
#ifndef MGPU_DB_SQLITE_CHECK_LOG_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_LOG_SQLITE_H

#include "db/sqlite/db_sqlite.h"

struct findings {
    void (*each)(void *arg, const char *finding);
    void *arg;
    int n;
};

void check_finding(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Checks state.db, within a transaction of the caller's.
 * err  unreadable data; that is not a finding yet */
int check_log(struct findings *f, const struct db *d,
              struct error *err) MUST_CHECK;

#endif
