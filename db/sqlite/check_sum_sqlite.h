/* check_sum_sqlite.h - rows held against the sums with which they were
 * written, and what is written twice against itself. */
#ifndef MGPU_DB_SQLITE_CHECK_SUM_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_SUM_SQLITE_H

#include "db/sqlite/check_log_sqlite.h"

/* Of state.db, as check_log(). Rows from before there were sums have none. */
int check_sums(struct findings *f, const struct db *d,
               struct error *err) MUST_CHECK;

#endif
