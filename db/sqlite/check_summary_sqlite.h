/* check_summary_sqlite.h - lines of archived jobs against what they were made
 * of. */
#ifndef MGPU_DB_SQLITE_CHECK_SUMMARY_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_SUMMARY_SQLITE_H

#include "db/sqlite/check_log_sqlite.h"
#include "db/sqlite/db_sqlite.h"

/* Each member that a line has is what the job's rows and events say, and none
 * is missing that they say. */
int check_lines(struct findings *f, const struct db *d,
                struct error *err) MUST_CHECK;

#endif
