/* json_schema.c - the JSON Schema of the specification: it has each key, every
 * shipped specification fits it, and mistakes do not. A validator of the few
 * words that our schema uses is here. */
#include "jobs/schema/json_schema.h"

#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/spec_editor.h"
#include "jobs/text/scalar.h"
#include "tests/tap.h"

static json_t *schema;

/* ---- a validator ----------------------------------------------------------
 */

static const json_t *member(const json_t *o, const char *key)
{
    return json_object_get(o, key);
}

static bool has_word(const json_t *words, const struct node *n)
{
    size_t i;
    json_t *w;
    json_array_foreach(words, i, w)
    {
        if (n->kind == NODE_NULL ? json_is_null(w)
            : n->kind != NODE_SCALAR
                ? false
                : (json_is_string(w) &&
                   strcmp(json_string_value(w), n->text) == 0) ||
                      (json_is_boolean(w) &&
                       strcmp(json_is_true(w) ? "true" : "false", n->text) ==
                           0))
            return true;
    }
    return false;
}

/* The types that the node may be taken for. */
static bool is_of(const struct node *n, const char *type)
{
    int64_t i;
    double x;
    bool b;
    if (n->kind != NODE_SCALAR)
        return strcmp(type, n->kind == NODE_MAP    ? "object"
                            : n->kind == NODE_LIST ? "array"
                                                   : "null") == 0;
    return strcmp(type, "integer") == 0   ? scalar_int(n->text, &i) == 0
           : strcmp(type, "number") == 0  ? scalar_float(n->text, &x) == 0
           : strcmp(type, "boolean") == 0 ? scalar_bool(n->text, &b) == 0
                                          : strcmp(type, "string") == 0;
}

static bool has_type(const json_t *types, const struct node *n)
{
    size_t i;
    json_t *t;
    if (json_is_string(types))
        return is_of(n, json_string_value(types));
    json_array_foreach(types, i, t)
    {
        if (is_of(n, json_string_value(t)))
            return true;
    }
    return types == NULL;
}

static bool is_within(const json_t *s, const struct node *n)
{
    const json_t *lo = member(s, "minimum"), *hi = member(s, "maximum");
    const json_t *above = member(s, "exclusiveMinimum");
    double x = 0;
    if (n->kind != NODE_SCALAR || scalar_float(n->text, &x) < 0)
        return true;
    return (!lo || x >= json_number_value(lo)) &&
           (!above || x > json_number_value(above)) &&
           (!hi || x <= json_number_value(hi));
}

static bool fits(const json_t *s, const struct node *n);

static bool fits_any(const json_t *all, const struct node *n)
{
    size_t i;
    json_t *s;
    json_array_foreach(all, i, s)
    {
        if (fits(s, n))
            return true;
    }
    return all == NULL;
}

static bool fits_members(const json_t *s, const struct node *n)
{
    const json_t *known = member(s, "properties"), *items = member(s, "items");
    const json_t *others = member(s, "additionalProperties");
    bool has_notes = member(member(s, "patternProperties"), "^x-") != NULL;
    size_t i;
    json_t *key;
    json_array_foreach(member(s, "required"), i, key)
    {
        if (!tree_child(n, json_string_value(key)))
            return false;
    }
    for (const struct node *c = n->first; c; c = c->next) {
        const json_t *of = n->kind == NODE_LIST ? items : member(known, c->key);
        bool is_note =
            n->kind == NODE_MAP && has_notes && strncmp(c->key, "x-", 2) == 0;
        if (!of && !is_note && json_is_false(others))
            return false;
        if (!of && json_is_object(others))
            of = others;
        if (of && !fits(of, c))
            return false;
    }
    return true;
}

static bool fits(const json_t *s, const struct node *n)
{
    const json_t *words = member(s, "enum");
    return (!words || has_word(words, n)) && has_type(member(s, "type"), n) &&
           is_within(s, n) && fits_any(member(s, "anyOf"), n) &&
           fits_members(s, n);
}

static bool text_fits(const char *text, size_t len)
{
    struct spec_report r;
    struct node *root = NULL;
    struct error err = ERROR_INIT;
    if (diagnostics_init(&r, &err) < 0)
        return false;
    bool is_good = tree_parse(text, len, &r, &root, &err) == 0 && root &&
                   fits(schema, root);
    tree_destroy(root);
    diagnostics_clear(&r);
    return is_good;
}

/* ---- what it has to say ---------------------------------------------------
 */

static void has_key(void *arg, const char *path, const char *type,
                    const char *def, const char *range, const char *doc)
{
    const json_t *at = schema;
    char copy[200], *rest = copy;
    (void)type, (void)def, (void)range;
    (void)snprintf(copy, sizeof(copy), "%s", path);
    for (char *word; (word = strsep(&rest, "."));)
        at = member(member(at, "properties"), word);
    const char *said = json_string_value(member(at, "description"));
    if (!at || !said || strncmp(said, doc, strlen(doc)) != 0) {
        tap_diag("%s is not described", path);
        ++*(int *)arg;
    }
}

static void test_files(const char *pattern)
{
    const char *src = getenv("MGPU_SRC");
    char path[400];
    glob_t g;
    (void)snprintf(path, sizeof(path), "%s/%s", src ? src : ".", pattern);
    if (!ok(glob(path, 0, NULL, &g) == 0 && g.gl_pathc > 3, "%s", pattern))
        return;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        struct buf text = BUF_INIT;
        struct error err = ERROR_INIT;
        ok(buf_read_file(&text, g.gl_pathv[i], 1 << 20, &err) == 0 &&
               text_fits(text.data, text.len),
           "%s fits %s", strrchr(g.gl_pathv[i], '/') + 1, err.msg);
        buf_clear(&text);
    }
    globfree(&g);
}

static const struct {
    const char *name, *text;
    bool fits;
} rows[] = {
    {"the smallest", "kind: cv\n", true},
    {"no kind", "version: 1\n", false},
    {"another kind", "kind: cvx\n", false},
    {"a key that is misspelt", "kind: cv\ntrain: {batchsize: 3}\n", false},
    {"a section that is", "kind: cv\ntrian: {}\n", false},
    {"notes", "kind: cv\nx-mine: {any: [1]}\n", true},
    {"a number below", "kind: cv\ntrain: {epochs: 0}\n", false},
    {"no number", "kind: cv\ntrain: {epochs: many}\n", false},
    {"a learning rate", "kind: cv\ntrain: {optimizer: {lr: 3e-4}}\n", true},
    {"one of 0", "kind: cv\ntrain: {optimizer: {lr: 0}}\n", false},
    {"a range", "kind: cv\nresources: {gpus: 1..4}\n", true},
    {"a range as a map", "kind: cv\nresources: {gpus: {min: 1, max: 4}}\n",
     true},
    {"a range with a third end",
     "kind: cv\nresources: {gpus: {min: 1, mid: 2}}\n", false},
    {"a word for a number", "kind: cv\npolicy: {priority: high}\n", true},
    {"another word", "kind: cv\npolicy: {priority: highest}\n", false},
    {"null, where it may be", "kind: cv\nresources: {time_limit: null}\n",
     true},
    {"null, where it may not", "kind: cv\ntrain: {epochs: null}\n", false},
    {"on", "kind: cv\ntrain: {shuffle: on}\n", true},
    {"a list", "kind: command\ncommand: [a, 1]\nenv: {A: 1}\n", true},
    {"no list", "kind: command\ncommand: a b\n", false},
    {"a word of a later version", "kind: cv\ntrain: {distribution: fsdp9}\n",
     false},
    {"a key of torchtune", "kind: llm\ntrain: {compile: true}\n", true},
};

int main(void)
{
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    int lacks = 0;
    if (!ok(spec_json_schema(&text, &err) == 0, "written %s", err.msg))
        return tap_done();
    schema = json_loadb(text.data, text.len, 0, NULL);
    buf_clear(&text);
    const char *draft = json_string_value(member(schema, "$schema"));
    is_str(draft ? draft : "", "https://json-schema.org/draft/2020-12/schema",
           "its draft");
    spec_each_key(has_key, &lacks);
    is_int(lacks, 0, "each key of the table is there, with its line");
    test_files("jobs/examples/*.yaml");
    test_files("jobs/paper/*.yaml");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok(text_fits(rows[i].text, strlen(rows[i].text)) == rows[i].fits, "%s",
           rows[i].name);
    json_decref(schema);
    return tap_done();
}
