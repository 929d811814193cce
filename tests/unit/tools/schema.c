/* schema.c - the documents that the daemon and the tools print are what
 * scheduler/schema/documents says, and say nothing that it does not.
 *
 *   schema                  tests itself, and the file
 *   schema FILE...          checks documents, or lines of them
 *
 * Of JSON Schema only what the file uses is understood; another keyword in
 * it is an error, so that nothing is passed over. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

static json_t *schema;
static char why[400];

static bool refuse(const char *path, const char *what)
{
    if (!why[0])
        (void)snprintf(why, sizeof(why), "%s: %s", path[0] ? path : "/", what);
    return false;
}

static bool is_type(const json_t *v, const char *type)
{
    return strcmp(type, "string") == 0    ? json_is_string(v)
           : strcmp(type, "integer") == 0 ? json_is_integer(v)
           : strcmp(type, "number") == 0  ? json_is_number(v)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(v)
           : strcmp(type, "null") == 0    ? json_is_null(v)
           : strcmp(type, "array") == 0   ? json_is_array(v)
           : strcmp(type, "object") == 0  ? json_is_object(v)
                                          : false;
}

static bool fits_type(const json_t *v, const json_t *type)
{
    size_t i;
    json_t *one;
    if (json_is_string(type))
        return is_type(v, json_string_value(type));
    json_array_foreach(type, i, one)
    {
        if (is_type(v, json_string_value(one)))
            return true;
    }
    return type == NULL;
}

static bool fits(const json_t *v, const json_t *s, const char *path);

static bool fits_object(json_t *v, const json_t *s, const char *path)
{
    const json_t *known = json_object_get(s, "properties");
    const json_t *others = json_object_get(s, "additionalProperties");
    const char *key;
    char at[300];
    size_t i;
    json_t *member, *name;
    json_array_foreach(json_object_get(s, "required"), i, name)
    {
        if (!json_object_get(v, json_string_value(name)))
            return refuse(path, json_string_value(name));
    }
    json_object_foreach(v, key, member)
    {
        const json_t *of = json_object_get(known, key);
        (void)snprintf(at, sizeof(at), "%.200s/%.80s", path, key);
        if (!of && !others)
            return refuse(at, "is not in the schema");
        if (!of)
            of = others;
        if (!json_is_true(of) && !fits(member, of, at))
            return false;
    }
    return true;
}

static const json_t *resolve(const json_t *s)
{
    const char *ref = json_string_value(json_object_get(s, "$ref"));
    return ref && strncmp(ref, "#/$defs/", 8) == 0
               ? json_object_get(json_object_get(schema, "$defs"), ref + 8)
               : s;
}

static bool fits(const json_t *v, const json_t *s, const char *path)
{
    char at[300];
    size_t i;
    json_t *one;
    s = resolve(s);
    const json_t *fixed = json_object_get(s, "const");
    const json_t *words = json_object_get(s, "enum");
    const json_t *items = json_object_get(s, "items");
    if (fixed && !json_equal(v, fixed))
        return refuse(path, "another constant");
    if (!fits_type(v, json_object_get(s, "type")))
        return refuse(path, "another type");
    bool is_word = words == NULL;
    json_array_foreach(words, i, one)
    {
        is_word = is_word || json_equal(v, one);
    }
    if (!is_word)
        return refuse(path, "another word");
    json_array_foreach(v, i, one)
    {
        (void)snprintf(at, sizeof(at), "%.200s[%zu]", path, i);
        if (items && !fits(one, items, at))
            return false;
    }
    return !json_is_object(v) || fits_object((json_t *)(void *)v, s, path);
}

/* By the name that the document gives itself. */
static bool is_document(const json_t *v)
{
    const json_t *name = json_object_get(v, "schema");
    size_t i;
    json_t *one;
    why[0] = '\0';
    json_array_foreach(json_object_get(schema, "oneOf"), i, one)
    {
        const json_t *of = json_object_get(
            json_object_get(json_object_get(resolve(one), "properties"),
                            "schema"),
            "const");
        if (of && name && json_equal(of, name))
            return fits(v, one, "");
    }
    return refuse("schema", name ? json_string_value(name) : "none");
}

static void load(void)
{
    const char *bin = getenv("MGPU_BIN");
    char path[512];
    json_error_t err;
    (void)snprintf(path, sizeof(path), "%s/../share/mgpu.schema.json",
                   bin ? bin : "build/release/bin");
    schema = json_load_file(path, JSON_REJECT_DUPLICATES, &err);
    if (!schema) {
        (void)fprintf(stderr, "%s: %s\n", path, err.text);
        exit(1);
    }
}

/* One document, or one in each line. */
static int check_file(const char *path)
{
    FILE *f = fopen(path, "re");
    int n = 0, bad = 0;
    json_error_t err;
    if (!f) {
        perror(path);
        return 1;
    }
    for (json_t *o; (o = json_loadf(f, JSON_DISABLE_EOF_CHECK, &err)); n++) {
        if (!is_document(o)) {
            bad++;
            (void)fprintf(stderr, "%s: %s\n", path, why);
        }
        json_decref(o);
    }
    (void)fclose(f);
    if (n == 0)
        (void)fprintf(stderr, "%s: no document: %s\n", path, err.text);
    return bad > 0 || n == 0;
}

/* ---- of itself -----------------------------------------------------------
 */

static int unknown_words(const json_t *s, bool is_map)
{
    static const char *const known[] = {"$schema",
                                        "title",
                                        "description",
                                        "oneOf",
                                        "$defs",
                                        "$ref",
                                        "type",
                                        "const",
                                        "enum",
                                        "properties",
                                        "required",
                                        "items",
                                        "additionalProperties",
                                        "format"};
    const char *key;
    json_t *v, *one;
    size_t i;
    int n = 0;
    json_object_foreach((json_t *)(void *)s, key, v)
    {
        bool is_known = is_map;
        for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            is_known = is_known || strcmp(known[i], key) == 0;
        n += !is_known;
        if (!is_known)
            tap_diag("'%s'", key);
        bool maps = !is_map && (strcmp(key, "properties") == 0 ||
                                strcmp(key, "$defs") == 0);
        n += json_is_object(v) ? unknown_words(v, maps) : 0;
        if (json_is_object(v) && json_object_get(v, "$ref") && !maps)
            n += resolve(v) == NULL;
        json_array_foreach(v, i, one)
        {
            n += json_is_object(one) ? unknown_words(one, false) : 0;
        }
    }
    return n;
}

static const struct {
    const char *text;
    bool is_good;
    const char *why;
} documents[] = {
    {"{\"schema\":\"mgpu.error/1\",\"error\":{\"code\":\"USAGE\",\"message\":"
     "\"m\"}}",
     true, ""},
    {"{\"schema\":\"mgpu.error/1\",\"error\":{\"code\":\"USAGE\"}}", false,
     "/error: message"},
    {"{\"schema\":\"mgpu.error/1\",\"error\":{\"code\":7,\"message\":\"\"}}",
     false, "/error/code: another type"},
    {"{\"schema\":\"mgpu.error/2\"}", false, "schema: mgpu.error/2"},
    {"{}", false, "schema: none"},
    {"{\"schema\":\"mgpu.submitted/1\",\"id\":1,\"more\":2}", false,
     "/more: is not in the schema"},
    {"{\"schema\":\"mgpu.cancel/1\",\"jobs\":[{\"id\":1,\"display_id\":\"1\","
     "\"state\":\"LOST\"}]}",
     false, "/jobs[0]/state: another word"},
    {"{\"schema\":\"mgpu.epochs/"
     "1\",\"job\":1,\"columns\":[],\"rows\":[[true]]}",
     false, "/rows[0][0]: another type"},
};

int main(int argc, char **argv)
{
    int bad = 0;
    load();
    for (int i = 1; i < argc; i++)
        bad |= check_file(argv[i]);
    if (argc > 1) {
        json_decref(schema);
        return bad;
    }
    is_int(unknown_words(schema, false), 0, "nothing that is not understood");
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        json_t *o = json_loads(documents[i].text, 0, NULL);
        ok(o != NULL && is_document(o) == documents[i].is_good, "document %zu",
           i);
        is_str(why, documents[i].why, "and why not");
        json_decref(o);
    }
    json_decref(schema);
    return tap_done();
}
