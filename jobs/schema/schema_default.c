/* schema_default.c - the defaults of a table of keys; see schema.h.
 *
 * A default is a text like a user's value. One that depends on other values is
 * set when those are known, where the user wrote none. */
#include "jobs/schema/schema_doc.h"

#include <assert.h>
#include <string.h>

static int set_default(const struct schema_key *k, const char *def, void *obj,
                       struct spec_report *report, struct error *err)
{
    static const struct schema_base top = {.dir = "/"};
    struct node *v = NULL;
    bool bad = false;
    int rc = tree_parse_value(k->path, def, report, &v, err);
    if (rc == 0 && v)
        rc = schema_set(k, v, &top, obj, report, &bad, err);
    assert(rc < 0 || (v && !bad)); /* the table is ours */
    tree_destroy(v);
    return rc;
}

int schema_defaults(const struct schema *s, void *obj, struct error *err)
{
    struct spec_report report;
    int rc = diagnostics_init(&report, err);
    if (rc < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < s->n; i++)
        if (s->keys[i].def)
            rc = set_default(&s->keys[i], s->keys[i].def, obj, &report, err);
    diagnostics_clear(&report);
    return rc;
}

const struct schema_def *schema_default_in_case(const struct schema *s,
                                                const struct schema_key *k,
                                                const void *obj)
{
    const struct schema_def *last = NULL;
    for (const struct schema_def *d = k->defs; d && d->def; d++)
        if (s->holds(d->when, obj))
            last = d;
    return last;
}

int schema_defaults_by_case(const struct schema *s,
                            const struct schema_from *from, void *obj,
                            struct error *err)
{
    struct spec_report report;
    int rc = diagnostics_init(&report, err);
    if (rc < 0)
        return -1;
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const struct schema_key *k = &s->keys[i];
        if (from[i].node)
            continue;
        const struct schema_def *d = schema_default_in_case(s, k, obj);
        if (d)
            rc = set_default(k, d->def, obj, &report, err);
        else if (k->like)
            memcpy((char *)obj + k->at,
                   (char *)obj + schema_find(s, k->like)->at, k->size);
    }
    diagnostics_clear(&report);
    return rc;
}
