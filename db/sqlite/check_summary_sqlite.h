/* check_summary_sqlite.h - verify the summary lines of archived jobs. */
#ifndef MGPU_DB_SQLITE_CHECK_SUMMARY_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_SUMMARY_SQLITE_H

#include "db/sqlite/check_log_sqlite.h"
#include "db/sqlite/db_sqlite.h"

/* Checks that each member of a line agrees with the job's rows and events, and
 * that none is missing. */
int check_lines(struct findings *f, const struct db *d,
                struct error *err) MUST_CHECK;

#endif
