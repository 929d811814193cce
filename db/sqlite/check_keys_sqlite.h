/* check_keys_sqlite.h - whether the keys beside a store fit its jobs; for
 * check_sqlite.c. */
#ifndef MGPU_DB_SQLITE_CHECK_KEYS_SQLITE_H
#define MGPU_DB_SQLITE_CHECK_KEYS_SQLITE_H

#include "db/sqlite/check_log_sqlite.h"

/* What is wrong with DIR/keys (scheduler/ctld/maintenance/env_keys.h): its
 * owner, its mode, and those of its files, their size; a key that no job needs
 * which may still run; such a job whose key is not there. Of a backup, which
 * has none, nothing is. A daemon may be at work: what has changed in ten
 * minutes may be on its way. err  of state.db */
int check_keys(struct findings *f, const struct db *d, const char *dir,
               struct error *err) MUST_CHECK;

#endif
