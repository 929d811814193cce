/* files.h - the files of a store as a shell sees them, and as they once were.
 */
#ifndef MGPU_TESTS_UNIT_DB_FILES_H
#define MGPU_TESTS_UNIT_DB_FILES_H

#include <fcntl.h>
#include <sqlite3.h>

#include "db/store.h"
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

/* A file as the schema's first version left it. */
static inline void make_first(struct tmp *t, const char *file,
                              const char *schema)
{
    const char *src = getenv("MGPU_SRC");
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    char name[64], path[512];

    for (int i = 0; i < 3; i++) {
        static const char *const ends[] = {"", "-wal", "-shm"};
        (void)snprintf(name, sizeof(name), "%.50s%s", file, ends[i]);
        (void)unlink(tmp_path(t, name));
    }
    (void)snprintf(path, sizeof(path), "%s/db/schema/%s", src ? src : ".",
                   schema);
    int fd = creat(tmp_path(t, file), 0600);
    if (fd < 0 || close(fd) < 0 || buf_read_file(&text, path, 1 << 20, &err)) {
        ok(false, "the schema of version 1 %s", err.msg);
        exit(1);
    }
    sql(t, file, buf_str(&text));
    buf_clear(&text);
}

#endif
