/* check_sum_sqlite.h - verify the checksums of rows, and data that is stored
 * twice. */
#ifndef MGPU_DB_SQLITE_CHECK_SUM_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_SUM_SQLITE_H

#include "db/sqlite/check_log_sqlite.h"

/* Checks state.db, as check_log(). Rows from before checksums have none. */
int check_sums(struct findings *f, const struct db *d,
               struct error *err) MUST_CHECK;

#endif
