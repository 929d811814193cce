/* schema_value.c - read one value into its member, or add a finding with what
 * was expected. See schema.h.
 *
 * A message has the key, what it accepts and the actual value; the hint has
 * what to write instead. */
#include "jobs/schema/schema_setter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/schema/schema_doc.h"
#include "jobs/text/scalar.h"
#include "jobs/text/text.h"

void schema_complain(struct setter *t, const char *code, const char *hint,
                     const char *what)
{
    diagnostics_add(t->report, code, t->v->at, t->k->path, hint, "%s", what);
    t->bad = true;
}

void schema_refuse(struct setter *t, const char *hint, const char *must_be)
{
    char q[TEXT_QUOTE_CAP], what[400];
    (void)snprintf(what, sizeof(what), "'%s' must be %s, not '%s'", t->k->path,
                   must_be, text_quote(q, sizeof(q), t->v->text));
    schema_complain(t, t->k->code, hint, what);
}

void schema_not_a(struct setter *t, const char *wanted)
{
    static const char *const kinds[] = {[NODE_NULL] = "nothing",
                                        [NODE_SCALAR] = "a single value",
                                        [NODE_LIST] = "a list",
                                        [NODE_MAP] = "a mapping",
                                        [NODE_BAD] = "a bad value"};
    char what[240];
    (void)snprintf(what, sizeof(what), "'%s' must be %s, not %s", t->k->path,
                   wanted, kinds[t->v->kind]);
    schema_complain(
        t, "E011",
        t->v->kind == NODE_NULL ? "leave the key out for its default" : NULL,
        what);
}

/* ---- numbers ------------------------------------------------------------- */

static bool in_range(const struct schema_key *k, double v)
{
    if (k->min == 0 && k->max == 0)
        return true;
    return v >= k->min && v <= k->max && !(k->above_min && v == k->min);
}

static void store_number(struct setter *t, double v)
{
    switch (t->k->type) {
    case KEY_INT:
        if (t->k->size == sizeof(int32_t))
            *(int32_t *)t->member = (int32_t)v;
        else
            *(int64_t *)t->member = (int64_t)v;
        break;
    case KEY_SIZE:
        *(int64_t *)t->member = (int64_t)v;
        break;
    case KEY_ENUM: {
        const int word = (int)v;
        memcpy(t->member, &word, sizeof(word));
        break;
    }
    default:
        *(double *)t->member = v;
        break;
    }
}

static const struct schema_word *find_word(const struct schema_key *k,
                                           const char *s)
{
    for (const struct schema_word *w = k->words; w && w->name; w++)
        if (strcmp(w->name, s) == 0)
            return w;
    return NULL;
}

static void set_int(struct setter *t)
{
    const struct schema_word *w = find_word(t->k, t->v->text);
    char range[RANGE_CAP];
    int64_t n = 0;

    if (w)
        store_number(t, w->value);
    else if (scalar_int(t->v->text, &n) < 0)
        schema_refuse(t, schema_range(t->k, range), "a whole number");
    else if (!in_range(t->k, (double)n))
        schema_refuse(t, NULL, schema_range(t->k, range));
    else
        store_number(t, (double)n);
}

static void set_float(struct setter *t)
{
    char range[RANGE_CAP];
    double v = 0;
    if (scalar_float(t->v->text, &v) < 0)
        schema_refuse(t, "write 0.0003, .0003 or 3e-4", "a number");
    else if (!isfinite(v) || !in_range(t->k, v))
        schema_refuse(t, NULL, schema_range(t->k, range));
    else
        store_number(t, v);
}

static void set_unit(struct setter *t)
{
    char range[RANGE_CAP], hint[SCALAR_HINT_CAP], what[240];
    struct error why = ERROR_INIT;
    double v = 0;
    int64_t n = 0;
    bool is_size = t->k->type == KEY_SIZE;
    int rc = is_size ? scalar_size(t->v->text, &n, hint, &why)
                     : scalar_duration(t->v->text, &v, hint, &why);
    if (is_size)
        v = (double)n;
    if (rc < 0) {
        bool is_word = t->k->null_ok && !strpbrk(t->v->text, "0123456789");
        (void)snprintf(what, sizeof(what), "'%s': %.180s", t->k->path, why.msg);
        schema_complain(t, is_size ? t->k->code : "E024",
                        is_word ? "leave the key out, or write null, for none"
                                : hint,
                        what);
    } else if (!in_range(t->k, v))
        schema_refuse(t, NULL, schema_range(t->k, range));
    else
        store_number(t, v);
}

/* ---- ranges -------------------------------------------------------------- */

static int range_end(const char *s, int32_t *ret)
{
    int64_t n = 0;
    if (scalar_int(s, &n) < 0 || n < INT32_MIN || n > INT32_MAX)
        return -1;
    *ret = (int32_t)n;
    return 0;
}

/* `2` and `1..4`. */
static int range_text(const char *s, struct spec_range *ret)
{
    char low[16];
    const char *dots = strstr(s, "..");
    if (!dots) {
        if (range_end(s, &ret->min) < 0)
            return -1;
        ret->max = ret->min;
        return 0;
    }
    if (dots - s >= (ptrdiff_t)sizeof(low))
        return -1;
    (void)snprintf(low, sizeof(low), "%.*s", (int)(dots - s), s);
    return range_end(low, &ret->min) < 0 || range_end(dots + 2, &ret->max) < 0
               ? -1
               : 0;
}

/* {min: 1, max: 4}; both are required. */
static bool range_map(struct setter *t, struct spec_range *ret)
{
    int seen = 0;
    for (const struct node *c = t->v->first; c; c = c->next) {
        char path[PATH_CAP], q[TEXT_QUOTE_CAP];
        bool is_min = strcmp(c->key, "min") == 0;
        (void)snprintf(path, sizeof(path), "%s.%s", t->k->path,
                       text_quote(q, sizeof(q), c->key));
        if (!is_min && strcmp(c->key, "max") != 0) {
            diagnostics_add(t->report, "E010", c->key_at, path,
                            "write {min: 1, max: 4}", "unknown key '%s'", path);
            t->bad = true;
        } else if (c->kind != NODE_SCALAR ||
                   range_end(c->text, is_min ? &ret->min : &ret->max) < 0) {
            diagnostics_add(t->report, t->k->code, c->at, path, NULL,
                            "'%s' must be a whole number", path);
            t->bad = true;
        } else
            seen++;
    }
    if (!t->bad && seen != 2) {
        char what[240];
        (void)snprintf(what, sizeof(what), "'%s' needs both min and max",
                       t->k->path);
        schema_complain(t, t->k->code, "write {min: 1, max: 4}, or 1..4", what);
    }
    return !t->bad;
}

static void set_range(struct setter *t)
{
    struct spec_range r = {0, 0};
    char range[RANGE_CAP], what[240], both[16];
    if (t->v->kind == NODE_MAP) {
        if (!range_map(t, &r))
            return;
    } else if (t->v->kind != NODE_SCALAR) {
        schema_not_a(t, "a number or a range");
        return;
    } else if (range_text(t->v->text, &r) < 0) {
        schema_refuse(t, "write 2, 1..4 or {min: 1, max: 4}",
                      "a whole number or a range of them");
        return;
    }
    if (!in_range(t->k, r.min) || !in_range(t->k, r.max)) {
        (void)snprintf(both, sizeof(both), "..%d", r.max);
        (void)snprintf(what, sizeof(what), "'%s' must be within %s, not %d%s",
                       t->k->path, schema_range(t->k, range), r.min,
                       r.min == r.max ? "" : both);
        schema_complain(t, t->k->code, NULL, what);
    } else if (r.min > r.max || (r.min == 0 && r.max > 0)) {
        (void)snprintf(what, sizeof(what), "'%s': %d..%d %s", t->k->path, r.min,
                       r.max,
                       r.min > r.max ? "has its larger end first"
                                     : "mixes 0 (CPU only) with GPUs");
        schema_complain(t, t->k->code, NULL, what);
    } else
        *(struct spec_range *)t->member = r;
}

/* ---- numbers --------------------------------------------------------------
 */

static void set_numbers(struct setter *t)
{
    struct spec_numbers x = {.n = 0};
    char range[RANGE_CAP], what[240];
    if (t->v->kind != NODE_LIST && t->v->kind != NODE_NULL) {
        schema_not_a(t, "a list of numbers, [1, 2]");
        return;
    }
    for (const struct node *c = t->v->first; c; c = c->next) {
        double v = 0;
        if (x.n == SPEC_NUMBERS_CAP || c->kind != NODE_SCALAR ||
            scalar_float(c->text, &v) < 0 || !isfinite(v) ||
            !in_range(t->k, v)) {
            (void)snprintf(
                what, sizeof(what), "'%s' must be at most %d numbers, each %s",
                t->k->path, SPEC_NUMBERS_CAP, schema_range(t->k, range));
            diagnostics_add(t->report, t->k->code, c->at, t->k->path, NULL,
                            "%s", what);
            t->bad = true;
            return;
        }
        x.v[x.n++] = v;
    }
    *(struct spec_numbers *)t->member = x;
}

/* ---- words --------------------------------------------------------------- */

static void set_enum(struct setter *t)
{
    const struct schema_word *w = find_word(t->k, t->v->text);
    char range[RANGE_CAP], hint[RANGE_CAP + 16], what[RANGE_CAP + 16];
    int best = 3;

    if (w && !w->later) {
        if (t->k->type == KEY_NAME)
            (void)snprintf(t->member, SPEC_NAME_CAP, "%s", w->name);
        else
            memcpy(t->member, &w->value, sizeof(w->value));
        return;
    }
    if (w && w->elsewhere) {
        (void)snprintf(what, sizeof(what), "'%s: %s' cannot be submitted",
                       t->k->path, w->name);
        schema_complain(t, t->k->code, w->elsewhere, what);
        return;
    }
    if (w) {
        (void)snprintf(what, sizeof(what),
                       "'%s: %s' is not supported by this version", t->k->path,
                       w->name);
        (void)snprintf(hint, sizeof(hint), "supported: %s",
                       schema_range(t->k, range));
        schema_complain(t, "E018", hint, what);
        return;
    }
    hint[0] = '\0';
    for (w = t->k->words; w->name; w++) {
        int d = strcasecmp(w->name, t->v->text) == 0
                    ? 0
                    : text_distance(w->name, t->v->text);
        if (!w->later && d < best && (size_t)d < strlen(w->name)) {
            best = d;
            (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", w->name);
        }
    }
    (void)snprintf(what, sizeof(what), "one of: %s", schema_range(t->k, range));
    schema_refuse(t, hint, what);
}

static void set_bool(struct setter *t)
{
    bool v = false;
    bool is_tri = t->k->type == KEY_TRISTATE;
    const char *s = t->v->text;
    int rc = 0;

    if (is_tri && strcmp(s, "auto") == 0) {
        *(enum spec_tristate *)t->member = TRI_AUTO;
        return;
    }
    if (find_word(t->k, s))
        v = true;
    else
        rc = scalar_bool(s, &v);
    if (rc < 0)
        schema_refuse(t, "yes, no, on and off are fine too",
                      is_tri ? "true, false or auto" : "true or false");
    else if (is_tri)
        *(enum spec_tristate *)t->member = v ? TRI_TRUE : TRI_FALSE;
    else
        *(bool *)t->member = v;
}

/* Its owner validates the contents. */
static void check_tree(struct setter *t)
{
    bool is_map = t->k->type == KEY_MAP_TREE;
    if (t->v->kind != NODE_NULL &&
        t->v->kind != (is_map ? NODE_MAP : NODE_LIST))
        schema_not_a(t, is_map ? "a mapping (key: values)" : "a list");
}

/* ---- the list ------------------------------------------------------------ */

static int set_null(struct setter *t)
{
    switch (t->k->type) {
    case KEY_STRING:
    case KEY_WORD:
    case KEY_PATH:
        free(*(char **)t->member);
        *(char **)t->member = NULL;
        break;
    default:
        store_number(t, t->k->none_value);
        break;
    }
    return 0;
}

static int set_scalar(struct setter *t)
{
    switch (t->k->type) {
    case KEY_INT:
        set_int(t);
        return 0;
    case KEY_FLOAT:
        set_float(t);
        return 0;
    case KEY_DURATION:
    case KEY_SIZE:
        set_unit(t);
        return 0;
    case KEY_BOOL:
    case KEY_TRISTATE:
        set_bool(t);
        return 0;
    case KEY_ENUM:
        set_enum(t);
        return 0;
    case KEY_NAME:
        if (t->k->words)
            set_enum(t);
        else
            schema_name(t);
        return 0;
    case KEY_PATH:
        return schema_path(t);
    case KEY_WORD:
        return schema_set_word(t);
    default:
        return schema_string(t);
    }
}

int schema_set(const struct schema_key *k, const struct node *value,
               const struct schema_base *base, void *obj,
               struct spec_report *report, bool *ret_bad, struct error *err)
{
    struct setter t = {
        .k = k,
        .v = value,
        .base = base,
        .member = (char *)obj + k->at,
        .report = report,
        .err = err,
    };
    int rc = 0;
    if (k->type == KEY_MAP_TREE || k->type == KEY_LIST_TREE)
        check_tree(&t);
    else if (k->type == KEY_RANGE)
        set_range(&t);
    else if (k->type == KEY_SIZES)
        setter_sizes(&t);
    else if (k->type == KEY_NUMBERS)
        set_numbers(&t);
    else if (k->type == KEY_LIST)
        rc = schema_list(&t);
    else if (k->type == KEY_MAP)
        rc = schema_map(&t);
    else if (value->kind == NODE_NULL && k->null_ok)
        rc = set_null(&t);
    else if (value->kind != NODE_SCALAR)
        schema_not_a(&t, "a single value");
    else if (!schema_cannot_fill(&t, value))
        rc = set_scalar(&t);
    if (rc == 0)
        *ret_bad = t.bad;
    return rc;
}
