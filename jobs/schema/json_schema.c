/* json_schema.c - see json_schema.h. jansson's functions take NULL for a value
 * that could not be made and fail, so one check at the end finds all of
 * them. */
#include "jobs/schema/json_schema.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/schema/schema_doc.h"

struct writer {
    const struct schema *s;
    json_schema_only *only;
    bool failed;
};

static void put(struct writer *w, json_t *object, const char *key, json_t *own)
{
    w->failed |= json_object_set_new(object, key, own) < 0;
}

static void add(struct writer *w, json_t *array, json_t *own)
{
    w->failed |= json_array_append_new(array, own) < 0;
}

/* ---- one value --------------------------------------------------------------
 */

/* {"type":["integer","null"]} of "integer null". */
static json_t *type_of(struct writer *w, const char *words)
{
    json_t *o = json_object(), *types = json_array();
    while (*words) {
        size_t n = strcspn(words, " ");
        add(w, types, json_stringn(words, n));
        words += n + (words[n] == ' ');
    }
    put(w, o, "type", types);
    return o;
}

static json_t *number(double v)
{
    return v == floor(v) && fabs(v) < 9e15 ? json_integer((json_int_t)v)
                                           : json_real(v);
}

static void add_bounds(struct writer *w, const struct schema_key *k, json_t *o)
{
    if (k->min == 0 && k->max == 0)
        return;
    put(w, o, k->above_min ? "exclusiveMinimum" : "minimum", number(k->min));
    put(w, o, "maximum", number(k->max));
}

static json_t *words_of(struct writer *w, const struct schema_key *k)
{
    json_t *all = json_array();
    for (const struct schema_word *v = k->words; v && v->name; v++)
        if (!v->later)
            add(w, all, json_string(v->name));
    return all;
}

/* One of these words. */
static json_t *one_of(struct writer *w, json_t *own_words, bool null_ok)
{
    json_t *o = json_object();
    if (null_ok)
        add(w, own_words, json_null());
    put(w, o, "enum", own_words);
    return o;
}

static json_t *either(struct writer *w, json_t *own_a, json_t *own_b)
{
    json_t *o = json_object(), *any = json_array();
    add(w, any, own_a);
    add(w, any, own_b);
    put(w, o, "anyOf", any);
    return o;
}

/* {min: 1, max: 4} */
static json_t *ends(struct writer *w, const char *type)
{
    json_t *o = type_of(w, "object"), *p = json_object();
    put(w, p, "min", type_of(w, type));
    put(w, p, "max", type_of(w, type));
    put(w, o, "properties", p);
    put(w, o, "additionalProperties", json_false());
    return o;
}

/* Scalars get their types from the table, so a list of texts may say 1. */
static json_t *items(struct writer *w, const char *whole, const char *member,
                     const char *types)
{
    json_t *o = type_of(w, whole);
    put(w, o, member, type_of(w, types));
    return o;
}

static json_t *bool_of(struct writer *w, const struct schema_key *k)
{
    json_t *all = words_of(w, k);
    add(w, all, json_true());
    add(w, all, json_false());
    /* YAML 1.2 has no others, but the specification has. */
    static const char *const more[] = {"yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        add(w, all, json_string(more[i]));
    if (k->type == KEY_TRISTATE)
        add(w, all, json_string("auto"));
    return one_of(w, all, k->null_ok);
}

static json_t *int_of(struct writer *w, const struct schema_key *k)
{
    json_t *o = type_of(w, k->null_ok ? "integer null" : "integer");
    add_bounds(w, k, o);
    return k->words ? either(w, o, one_of(w, words_of(w, k), false)) : o;
}

static json_t *float_of(struct writer *w, const struct schema_key *k)
{
    json_t *o = type_of(w, k->null_ok ? "number null" : "number");
    add_bounds(w, k, o);
    return o;
}

static json_t *text_of(struct writer *w, const struct schema_key *k)
{
    static const char *const types[2][2] = {
        {"string", "string null"},
        {"string number boolean", "string number boolean null"}};
    bool is_any =
        k->type == KEY_NAME || k->type == KEY_WORD || k->type == KEY_STRING;
    if (k->words)
        return one_of(w, words_of(w, k), k->null_ok);
    if (k->job_ok)
        return type_of(w, "string integer null");
    return type_of(w, types[is_any][k->null_ok]);
}

static json_t *value_of(struct writer *w, const struct schema_key *k)
{
    switch (k->type) {
    case KEY_INT:
        return int_of(w, k);
    case KEY_FLOAT:
        return float_of(w, k);
    case KEY_BOOL:
    case KEY_TRISTATE:
        return bool_of(w, k);
    case KEY_ENUM:
        return one_of(w, words_of(w, k), k->null_ok);
    case KEY_RANGE:
        return either(w, type_of(w, "integer string"), ends(w, "integer"));
    case KEY_SIZE:
        return type_of(w,
                       k->null_ok ? "string integer null" : "string integer");
    case KEY_SIZES:
        return either(w, type_of(w, "string integer null"),
                      ends(w, "string integer"));
    case KEY_NUMBERS:
        return items(w, "array null", "items", "number");
    case KEY_LIST:
        return items(w, "array null", "items", "string number boolean");
    case KEY_MAP:
        return items(w, "object null", "additionalProperties",
                     "string number boolean null");
    case KEY_MAP_TREE:
        return type_of(w, "object null");
    case KEY_LIST_TREE:
        return type_of(w, "array null");
    default:
        return text_of(w, k);
    }
}

/* ---- the document -----------------------------------------------------------
 */

static void describe(struct writer *w, const struct schema_key *k, json_t *o)
{
    char only[160] = "", def[RANGE_CAP], text[800];
    w->only(k->when, only, sizeof(only));
    (void)schema_default(w->s, k, def);
    bool has_cases = k->defs || k->like;
    (void)snprintf(text, sizeof(text), "%s%s%s%s%s", k->doc,
                   only[0] ? ". Only for " : "", only,
                   has_cases ? ". Default: " : "", has_cases ? def : "");
    put(w, o, "description", json_string(text));
    /* A default that JSON has, too: numbers, true, null and words. */
    json_t *v = k->def ? json_loads(k->def, JSON_DECODE_ANY, NULL) : NULL;
    if (!v && k->def && k->type != KEY_LIST && k->type != KEY_MAP)
        v = json_string(k->def);
    if (v)
        put(w, o, "default", v);
}

/* The object of a section; it is made if it is not there.
 * borrowed  the result */
static json_t *section(struct writer *w, json_t *parent, const char *name,
                       size_t len)
{
    char key[64];
    json_t *all = json_object_get(parent, "properties"), *o;
    (void)snprintf(key, sizeof(key), "%.*s", (int)len, name);
    o = json_object_get(all, key);
    if (o)
        return o;
    o = type_of(w, "object");
    put(w, o, "properties", json_object());
    put(w, o, "additionalProperties", json_false());
    put(w, all, key, o);
    return json_object_get(all, key);
}

static void put_path(struct writer *w, json_t *root, const char *path,
                     json_t *own)
{
    const char *dot;
    json_t *at = root;
    while ((dot = strchr(path, '.'))) {
        at = section(w, at, path, (size_t)(dot - path));
        path = dot + 1;
    }
    put(w, json_object_get(at, "properties"), path, own);
}

static void add_keys(struct writer *w, json_t *root)
{
    json_t *required = json_array();
    for (size_t i = 0; i < w->s->n; i++) {
        const struct schema_key *k = &w->s->keys[i];
        json_t *o = value_of(w, k);
        describe(w, k, o);
        put_path(w, root, k->path, o);
        if (k->required && k->when == 0 && !strchr(k->path, '.'))
            add(w, required, json_string(k->path));
    }
    put(w, root, "required", required);
    for (const char *const *p = w->s->extra; p && *p; p++) {
        json_t *o = json_object();
        put(w, o, "description", json_string("Read for other programs' files"));
        put_path(w, root, *p, o);
    }
}

int json_schema(const struct schema *s, const char *title,
                json_schema_only *only, struct buf *out, struct error *err)
{
    struct writer w = {.s = s, .only = only};
    json_t *root = json_object();
    put(&w, root, "$schema",
        json_string("https://json-schema.org/draft/2020-12/schema"));
    put(&w, root, "title", json_string(title));
    put(&w, root, "type", json_string("object"));
    put(&w, root, "properties", json_object());
    add_keys(&w, root);
    if (s->notes) {
        char pattern[40];
        json_t *notes = json_object();
        (void)snprintf(pattern, sizeof(pattern), "^%s", s->notes);
        put(&w, notes, pattern, json_object());
        put(&w, root, "patternProperties", notes);
    }
    put(&w, root, "additionalProperties", json_false());
    char *text = w.failed ? NULL : json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    int rc = text ? buf_addf(out, err, "%s\n", text)
                  : error_set(err, ERR_NOMEM, "JSON Schema");
    free(text);
    return rc;
}
