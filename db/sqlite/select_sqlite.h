/* select_sqlite.h - what bounds a SELECT that somebody wrote, beside the clock.
 *
 * The clock is looked at between the steps of SQLite's machine. These are for
 * what one step may do, and for what is done before the first.
 */
#ifndef MGPU_DB_SQLITE_SELECT_SQLITE_H
#define MGPU_DB_SQLITE_SELECT_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* ---- select_memory_sqlite.c ---------------------------------------------- */
/* Before SQLite is used for the first time; later calls do nothing. */
void select_memory_init(void);
/* From here to the end SQLite has no more memory than this for what the calling
 * thread does, and says that there is none.
 * err  ERR_INTERNAL somebody has used SQLite before select_memory_init() */
int select_memory_begin(int64_t most, struct error *err) MUST_CHECK;
bool select_memory_is_out(void); /* since then: it was refused any */
void select_memory_end(void);    /* fine without a beginning */

/* ---- select_calls_sqlite.c ----------------------------------------------- */
/* In place of SQLite's functions that may take the product of two lengths. */
struct select_calls {
    int (*is_over)(void *arg); /* nobody waits for the statement any more */
    void *arg;
    struct select_trim {
        const struct select_calls *calls;
        bool left, right;
    } trims[3];
};
/* in  c  borrowed while h lives; is_over and arg filled in
 * returns SQLite's code */
int select_calls_add(sqlite3 *h, struct select_calls *c) MUST_CHECK;

#endif
