/* schema_doc.c - describe the keys of a table for people: type, range,
 * default; see schema.h. */
#include "jobs/schema/schema_doc.h"

#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"

const char *schema_type_name(const struct schema_key *k)
{
    static const char *const names[] = {
        [KEY_INT] = "int",           [KEY_FLOAT] = "float",
        [KEY_BOOL] = "bool",         [KEY_ENUM] = "enum",
        [KEY_TRISTATE] = "bool",     [KEY_NAME] = "name",
        [KEY_STRING] = "string",     [KEY_WORD] = "word",
        [KEY_PATH] = "path",         [KEY_RANGE] = "range",
        [KEY_DURATION] = "duration", [KEY_SIZE] = "size",
        [KEY_SIZES] = "sizes",       [KEY_NUMBERS] = "floats",
        [KEY_LIST] = "list",         [KEY_MAP] = "map",
        [KEY_MAP_TREE] = "map",      [KEY_LIST_TREE] = "list",
    };
    return names[k->type];
}

static const char *show_number(const struct schema_key *k, double v,
                               char out[SCALAR_CAP])
{
    if (k->type == KEY_DURATION)
        return scalar_show_duration(out, v);
    if (k->type == KEY_SIZE || k->type == KEY_SIZES)
        return scalar_show_size(out, (int64_t)v);
    return scalar_show_float(out, v);
}

const char *schema_range(const struct schema_key *k, char out[RANGE_CAP])
{
    char lo[SCALAR_CAP], hi[SCALAR_CAP];
    size_t len = 0;
    out[0] = '\0';
    if (k->type == KEY_TRISTATE)
        (void)snprintf(out, RANGE_CAP, "auto, true, false");
    else if (k->name_only || (k->type == KEY_NAME && !k->words))
        (void)snprintf(out, RANGE_CAP, "[A-Za-z0-9][A-Za-z0-9._-]{0,62}");
    else if (k->min == k->max && k->max != 0)
        (void)snprintf(out, RANGE_CAP, "%s", show_number(k, k->min, lo));
    else if (k->min != 0 || k->max != 0)
        (void)snprintf(out, RANGE_CAP, "%s%s..%s", k->above_min ? "above " : "",
                       show_number(k, k->min, lo), show_number(k, k->max, hi));
    for (size_t i = 0; k->words && k->words[i].name; i++) {
        len = strlen(out);
        if (!k->words[i].later)
            (void)snprintf(out + len, RANGE_CAP - len, "%s%s", len ? ", " : "",
                           k->words[i].name);
    }
    len = strlen(out);
    if (k->null_ok)
        (void)snprintf(out + len, RANGE_CAP - len, "%snull", len ? ", " : "");
    return out;
}

const char *schema_default(const struct schema *s, const struct schema_key *k,
                           char out[RANGE_CAP])
{
    const char *def = k->def ? k->def : k->required ? "required" : "";
    size_t len =
        (size_t)snprintf(out, RANGE_CAP, "%s%s", k->like ? "that of " : "",
                         k->like ? k->like : def);
    for (const struct schema_def *d = k->defs; d && d->def && len < RANGE_CAP;
         d++)
        len += (size_t)snprintf(out + len, RANGE_CAP - len, "; %s: %s",
                                s->cases[d->when], d->def);
    return out;
}

void schema_each(const struct schema *s,
                 void (*each)(void *arg, const char *path, const char *type,
                              const char *def, const char *range,
                              const char *doc),
                 void *arg)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct schema_key *k = &s->keys[i];
        char def[RANGE_CAP], range[RANGE_CAP];
        each(arg, k->path, schema_type_name(k), schema_default(s, k, def),
             schema_range(k, range), k->doc);
    }
}
