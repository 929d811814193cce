/* metric_name_limit.c - how many names of metrics an attempt may have.
 *
 * A program names its metrics itself, and one that puts a number into the name
 * would have a course for each, and a row of the database that nobody finds.
 * So the first NAMES_MAX names of values count, and as many of a profile, and
 * rows under others are dropped and counted. The same row that comes again
 * fares as it did before. A daemon that was started anew begins anew.
 *
 * Only the writer's thread looks into it; references are taken and given back
 * on the loop, as those who hold one live there.
 */
#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

enum { NAMES_MAX = 256 };

struct seen {
    size_t n;
    uint64_t of[NAMES_MAX]; /* FNV-1a of the names: two of 256 that agree are
                               not to be expected, and cost nothing */
};

struct ctld_names {
    int refs;
    struct seen values, profiles;
};

struct ctld_names *ctld_names_create(void)
{
    struct ctld_names *n = calloc(1, sizeof(*n));
    if (n)
        n->refs = 1;
    return n;
}

struct ctld_names *ctld_names_ref(struct ctld_names *n)
{
    n->refs++;
    return n;
}

void ctld_names_unref(struct ctld_names *n)
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

bool ctld_names_take(struct ctld_names *n, const struct metric_row *row)
{
    if (row->kind == METRIC_VALUE)
        return take(&n->values, row->value.name);
    return row->kind != METRIC_PROFILE ||
           take(&n->profiles, row->profile.metric);
}
