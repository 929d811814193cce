/* schema_sizes.c - parse "40G..": a size, or a range of sizes with an open
 * end. */
#include <stdio.h>
#include <string.h>

#include "jobs/schema/schema_doc.h"
#include "jobs/schema/schema_setter.h"
#include "jobs/text/scalar.h"
#include "jobs/text/text.h"

static const char how[] = "write 40G.., 40G..80G or ..80G";

/* Parses one end; false with a finding. */
static bool take_end(struct setter *t, struct mark at, const char *text,
                     int64_t *ret)
{
    char hint[SCALAR_HINT_CAP], range[RANGE_CAP];
    struct error why = ERROR_INIT;
    if (scalar_size(text, ret, hint, &why) < 0)
        diagnostics_add(t->report, t->k->code, at, t->k->path,
                        *hint ? hint : how, "'%s': %.180s", t->k->path,
                        why.msg);
    else if ((double)*ret < t->k->min || (double)*ret > t->k->max)
        diagnostics_add(t->report, t->k->code, at, t->k->path, how,
                        "'%s' must be within %s", t->k->path,
                        schema_range(t->k, range));
    else
        return true;
    t->bad = true;
    return false;
}

static void take_text(struct setter *t, struct spec_sizes *ret)
{
    const char *text = t->v->text, *dots = strstr(text, "..");
    char low[SCALAR_CAP];
    if (!dots) {
        if (take_end(t, t->v->at, text, &ret->min))
            ret->max = ret->min;
        return;
    }
    if ((dots == text && dots[2] == '\0') ||
        dots - text >= (ptrdiff_t)sizeof(low)) {
        schema_refuse(t, how, "a size or a range of sizes");
        return;
    }
    (void)snprintf(low, sizeof(low), "%.*s", (int)(dots - text), text);
    if (low[0] != '\0' && !take_end(t, t->v->at, low, &ret->min))
        return;
    if (dots[2] != '\0')
        (void)take_end(t, t->v->at, dots + 2, &ret->max);
}

static void take_map(struct setter *t, struct spec_sizes *ret)
{
    if (!t->v->first)
        schema_not_a(t, "a size or a range of sizes");
    for (const struct node *c = t->v->first; c; c = c->next) {
        bool is_min = strcmp(c->key, "min") == 0;
        if (!is_min && strcmp(c->key, "max") != 0) {
            char q[TEXT_QUOTE_CAP];
            diagnostics_add(t->report, "E010", c->key_at, t->k->path,
                            "write {min: 40G, max: 80G}", "unknown key '%s.%s'",
                            t->k->path, text_quote(q, sizeof(q), c->key));
            t->bad = true;
        } else if (c->kind != NODE_SCALAR) {
            diagnostics_add(t->report, "E011", c->at, t->k->path, how,
                            "'%s.%s' must be a size", t->k->path, c->key);
            t->bad = true;
        } else if (!take_end(t, c->at, c->text, is_min ? &ret->min : &ret->max))
            return;
    }
}

void setter_sizes(struct setter *t)
{
    struct spec_sizes r = {0, 0};
    if (t->v->kind == NODE_SCALAR)
        take_text(t, &r);
    else if (t->v->kind == NODE_MAP)
        take_map(t, &r);
    else if (t->v->kind != NODE_NULL)
        schema_not_a(t, "a size or a range of sizes");
    if (!t->bad && r.max > 0 && r.min > r.max)
        schema_complain(t, t->k->code, how,
                        "the range has its larger end first");
    if (!t->bad)
        *(struct spec_sizes *)t->member = r;
}
