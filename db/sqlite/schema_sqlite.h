/* schema_sqlite.h - check a file's schema version, and migrate it to the
 * newest. */
#ifndef MGPU_DB_SQLITE_SCHEMA_SQLITE_H
#define MGPU_DB_SQLITE_SCHEMA_SQLITE_H

#include "db/sqlite/db_sqlite.h"

struct schema; /* db/schema/NNN-<name>.sql, in order */
extern const struct schema schema_state, schema_metrics;

/* Only reads: does not change a file that is not ours.
 * err  ERR_CONFIG a newer version, one of before the first release, or another
 *      program's database;
 *      ERR_IO damaged, with quick_check's first line */
int schema_check(const struct db *d, const struct schema *s,
                 struct error *err) MUST_CHECK;

/* Runs all missing steps in one transaction. */
int schema_migrate(const struct db *d, const struct schema *s,
                   struct error *err) MUST_CHECK;

#endif
