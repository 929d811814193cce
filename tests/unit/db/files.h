/* files.h - the files of a store as a shell sees them, and as they once were.
 */
#ifndef MGPU_TESTS_UNIT_DB_FILES_H
#define MGPU_TESTS_UNIT_DB_FILES_H

#include <fcntl.h>
#include <sqlite3.h>

#include "db/metric_store.h"
#include "jobs/base/buf.h"
#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static inline struct store *must_open(struct tmp *t)
{
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    if (!ok(store_sqlite_open(t->dir, &s, &err) == 0, "opens")) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    return s;
}

static inline int count_event(void *arg, const struct store_event *e,
                              struct error *err)
{
    (void)e;
    (void)err;
    ++*(int *)arg;
    return 0;
}

static inline int count_events(struct store *s)
{
    struct error err = ERROR_INIT;
    int n = 0;

    return s->ops->load(s, count_event, &n, &err) < 0 ? -1 : n;
}

static inline void sql(struct tmp *t, const char *file, const char *text)
{
    sqlite3 *h = NULL;

    if (sqlite3_open(tmp_path(t, file), &h) != SQLITE_OK ||
        sqlite3_exec(h, text, NULL, NULL, NULL) != SQLITE_OK) {
        ok(false, "%s: %s", text, sqlite3_errmsg(h));
        exit(1);
    }
    sqlite3_close(h);
}

#endif
