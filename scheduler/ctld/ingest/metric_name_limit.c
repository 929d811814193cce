/* metric_name_limit.c - limit distinct metric names per attempt (256), to bound
 * the cardinality of series.
 *
 * A program names its metrics itself. If it puts a number into the name, each
 * value becomes a series of its own, and a row of the database that nobody
 * finds. So the first NAMES_MAX names of values are accepted, and as many of a
 * profile; rows under other names are dropped and counted. A row that comes
 * again is treated as before. After a restart of the daemon the count begins
 * anew.
 *
 * Only the writer's thread reads the names; the loop takes and releases the
 * references.
 */
#include "scheduler/ctld/ingest/metric_name_limit.h"

#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

enum { NAMES_MAX = 256 };

struct seen {
    size_t n;
    uint64_t of[NAMES_MAX]; /* FNV-1a of the names: two of 256 that agree are
                               not to be expected, and cost nothing */
};

struct metric_name_limit {
    int refs;
    struct seen values, profiles;
};

struct metric_name_limit *metric_name_limit_create(void)
{
    struct metric_name_limit *n = calloc(1, sizeof(*n));
    if (n)
        n->refs = 1;
    return n;
}

struct metric_name_limit *metric_name_limit_ref(struct metric_name_limit *n)
{
    n->refs++;
    return n;
}

void metric_name_limit_unref(struct metric_name_limit *n)
{
    if (n && --n->refs == 0)
        free(n);
}

static uint64_t hash_of(const char *name)
{
    uint64_t h = 14695981039346656037u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

static bool take(struct seen *s, const char *name)
{
    uint64_t h = hash_of(name);
    for (size_t i = 0; i < s->n; i++)
        if (s->of[i] == h)
            return true;
    if (s->n == NAMES_MAX)
        return false;
    s->of[s->n++] = h;
    return true;
}

bool metric_name_limit_take(struct metric_name_limit *n,
                            const struct metric_row *row)
{
    if (row->kind == METRIC_VALUE)
        return take(&n->values, row->value.name);
    return row->kind != METRIC_PROFILE ||
           take(&n->profiles, row->profile.metric);
}
