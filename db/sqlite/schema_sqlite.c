/* schema_sqlite.c - see schema_sqlite.h.
 *
 * A schema consists of numbered files, which the assembler embeds in the
 * program. Each ends by setting user_version to the next number, so a file's
 * version says which steps it has run. Never edit a step that users have run:
 * add a new file and a new line below. */
#include "db/sqlite/schema_sqlite.h"

#include <string.h>

#define EMBED(symbol, file)                             \
    __asm__(".section .rodata\n" #symbol ":\n"          \
            ".incbin \"db/schema/" file "\"\n.byte 0\n" \
            ".previous\n");                             \
    extern const char symbol[]

EMBED(schema_state_001, "001-state.sql");
EMBED(schema_metrics_001, "001-metrics.sql");
EMBED(schema_state_002, "002-state.sql");
EMBED(schema_metrics_002, "002-metrics.sql");
EMBED(schema_state_003, "003-state.sql");

enum { STEPS_MAX = 16 };

struct schema {
    int64_t application_id;       /* as the first step sets it */
    int64_t first;                /* the version that the first step sets */
    int64_t check_max_bytes;      /* larger files: no quick_check */
    const char *steps[STEPS_MAX]; /* NULL after the last */
};

const struct schema schema_state = {
    .application_id = 0x6d677073,
    .first = 13,
    .check_max_bytes = INT64_MAX,
    .steps = {schema_state_001, schema_state_002, schema_state_003},
};

/* quick_check reads the whole file, 0.5 GB a second at best. A daemon must not
 * be down for minutes because of old curves; SQLite reports damage when it
 * reads the damaged page. */
const struct schema schema_metrics = {
    .application_id = 0x6d67706d,
    .first = 7,
    .check_max_bytes = 512 << 20,
    .steps = {schema_metrics_001, schema_metrics_002},
};

static int64_t newest(const struct schema *s)
{
    int64_t n = 0;

    while (s->steps[n])
        n++;
    return s->first + n - 1;
}

static int check_pages(const struct db *d, const struct schema *s,
                       struct error *err)
{
    int64_t pages, page_size;
    char line[120];

    if (db_get_int(d, "PRAGMA page_count", &pages, err) < 0 ||
        db_get_int(d, "PRAGMA page_size", &page_size, err) < 0)
        return -1;
    if (pages > s->check_max_bytes / page_size)
        return 0;
    if (db_get_text(d, "PRAGMA quick_check(1)", line, sizeof(line), err) < 0)
        return -1;
    if (strcmp(line, "ok") == 0)
        return 0;
    /* The first line only says "*** in database main ***". */
    const char *second = strchr(line, '\n');
    const char *what = line[0] == '*' && second ? second + 1 : line;
    db_note_damage(d);
    return error_set(err, ERR_IO, "%s: damaged: %.*s", d->name,
                     (int)strcspn(what, "\n"), what);
}

int schema_check(const struct db *d, const struct schema *s, struct error *err)
{
    int64_t version, id, objects;

    if (db_get_int(d, "PRAGMA user_version", &version, err) < 0 ||
        db_get_int(d, "PRAGMA application_id", &id, err) < 0 ||
        db_get_int(d, "SELECT count(*) FROM sqlite_schema", &objects, err) < 0)
        return -1;
    if (id != s->application_id && (id != 0 || version != 0 || objects != 0))
        return error_set(err, ERR_CONFIG, "%s: another program's database",
                         d->name);
    if (version > 0 && version < s->first)
        return error_set(err, ERR_CONFIG,
                         "%s: has schema version %lld, of an mgpu before the "
                         "first release: let its jobs end with that mgpu, and "
                         "start this one with an empty directory",
                         d->name, (long long)version);
    if (version > newest(s))
        return error_set(err, ERR_CONFIG,
                         "%s: has schema version %lld, this mgpu knows up to "
                         "%lld: start the newer mgpu that wrote it",
                         d->name, (long long)version, (long long)newest(s));
    return check_pages(d, s, err);
}

/* in  from  the file's version; 0: it is empty */
static int run_steps(const struct db *d, const struct schema *s, int64_t from,
                     struct error *err)
{
    for (int64_t v = from == 0 ? s->first : from + 1; v <= newest(s); v++) {
        int64_t now;
        if (db_exec(d, s->steps[v - s->first], err) < 0 ||
            db_get_int(d, "PRAGMA user_version", &now, err) < 0)
            return error_wrap(err, "schema version %lld", (long long)v);
        if (now != v)
            return error_set(err, ERR_INTERNAL,
                             "the step to version %lld made version %lld",
                             (long long)v, (long long)now);
    }
    return db_commit(d, err);
}

int schema_migrate(const struct db *d, const struct schema *s,
                   struct error *err)
{
    int64_t version;

    if (db_get_int(d, "PRAGMA user_version", &version, err) < 0)
        return -1;
    if (version == newest(s))
        return 0;
    if (db_begin(d, err) < 0)
        return -1;
    if (run_steps(d, s, version, err) < 0) {
        db_rollback(d);
        return -1;
    }
    return 0;
}
