/* hf_index.c - see hf_index.h. */
#include "worker/llm/files/hf_index.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int hf_index_check_file(const char *name, struct error *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > 255 || name[0] == '.' || strchr(name, '/') != NULL)
        return error_set(err, ERR_INVAL,
                         "'%.60s' is not the name of a file in the directory",
                         name);
    return 0;
}

/* The number of the file `name`; `seen` has those before: name to number. */
static int add_file(struct hf_index *x, json_t *seen, const char *name,
                    size_t *ret, struct error *err)
{
    const json_t *old = json_object_get(seen, name);
    if (old != NULL) {
        *ret = (size_t)json_integer_value(old);
        return 0;
    }
    if (hf_index_check_file(name, err) < 0)
        return -1;
    char *copy = strdup(name);
    if (copy == NULL ||
        json_object_set_new(seen, name, json_integer((json_int_t)x->n_files)) <
            0) {
        free(copy);
        return error_set(err, ERR_NOMEM, "'%.60s'", name);
    }
    *ret = x->n_files;
    x->files[x->n_files++] = copy;
    return 0;
}

static int add_entry(struct hf_index *x, json_t *seen, const char *name,
                     const json_t *file, struct error *err)
{
    struct hf_index_entry *e = &x->entries[x->n];
    if (!json_is_string(file))
        return error_set(err, ERR_INVAL, "'%.80s': no name of a file", name);
    if (add_file(x, seen, json_string_value(file), &e->file, err) < 0)
        return error_wrap(err, "'%.80s'", name);
    e->name = strdup(name);
    if (e->name == NULL)
        return error_set(err, ERR_NOMEM, "'%.80s'", name);
    x->n++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct hf_index_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int read_map(struct hf_index *x, json_t *map, struct error *err)
{
    size_t n = json_object_size(map);
    const char *name;
    json_t *file;
    int rc = 0;
    if (!json_is_object(map) || n == 0)
        return error_set(err, ERR_INVAL,
                         "weight_map must be an object with tensors");
    json_t *seen = json_object();
    x->entries = calloc(n, sizeof(*x->entries));
    x->files = calloc(n, sizeof(*x->files));
    if (seen == NULL || x->entries == NULL || x->files == NULL)
        rc = error_set(err, ERR_NOMEM, "weight_map");
    else
        json_object_foreach(map, name, file)
        {
            rc = add_entry(x, seen, name, file, err);
            if (rc < 0)
                break;
        }
    json_decref(seen);
    if (rc == 0)
        qsort(x->entries, x->n, sizeof(*x->entries), by_name);
    return rc;
}

int hf_index_parse(const char *text, size_t len, struct hf_index *ret,
                   struct error *err)
{
    struct hf_index x = {.n = 0};
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (o == NULL)
        return error_set(err, ERR_INVAL, "line %d: %.100s", why.line, why.text);
    int rc = read_map(&x, json_object_get(o, "weight_map"), err);
    json_decref(o);
    if (rc < 0) {
        hf_index_clear(&x);
        return -1;
    }
    *ret = x;
    return 0;
}

void hf_index_clear(struct hf_index *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->entries[i].name);
    for (size_t i = 0; i < x->n_files; i++)
        free(x->files[i]);
    free(x->entries);
    free(x->files);
    *x = (struct hf_index){.n = 0};
}

int hf_index_encode(const struct hf_index *x, int64_t bytes, struct buf *out,
                    struct error *err)
{
    json_t *map = json_object();
    int rc = map != NULL ? 0 : -1;
    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = json_object_set_new(map, x->entries[i].name,
                                 json_string(x->files[x->entries[i].file]));
    json_t *o = json_pack("{s:{s:I},s:O}", "metadata", "total_size",
                          (json_int_t)bytes, "weight_map", map);
    char *text = rc == 0 && o != NULL ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(map);
    json_decref(o);
    if (text == NULL)
        return error_set(err, ERR_NOMEM, "index");
    rc = buf_addf(out, err, "%s\n", text);
    free(text);
    return rc;
}
