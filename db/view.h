/* view.h - the views of mgpu-db(5): their names, columns and filters.
 *
 * The SQL in db/schema/ defines the same columns; tests/unit/db/view.c compares
 * the two. */
#ifndef MGPU_DB_VIEW_H
#define MGPU_DB_VIEW_H

#include <stdbool.h>

#include "db/metric_store.h"

enum { VIEW_COLUMNS_MAX = 28 };

struct view {
    const char *name;
    bool of_jobs, of_attempts, of_ranks;   /* which filters of a query apply */
    const char *columns[VIEW_COLUMNS_MAX]; /* NULL after the last */
};

extern const struct view views[VIEW_N];

/* err  ERR_INVAL no such view or column, or a negative limit */
int view_check_query(const struct store_query *q, struct error *err) MUST_CHECK;

#endif
