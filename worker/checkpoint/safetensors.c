/* safetensors.c - the reader; see safetensors.h. Every number of the header
 * is hostile until compared with the length of the file. */
#include "worker/checkpoint/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"

enum { LENGTH_BYTES = 8 };

const struct st_type_info st_types[ST_TYPE_N] = {
#define X(word, bytes) {#word, bytes},
    ST_TYPES(X)
#undef X
};

static int read_type(const json_t *o, const char *name, enum st_type *ret,
                     struct error *err)
{
    const json_t *v = json_object_get(o, "dtype");
    const char *word = json_is_string(v) ? json_string_value(v) : "";
    for (int i = 0; i < ST_TYPE_N; i++) {
        if (strcmp(st_types[i].word, word) == 0) {
            *ret = (enum st_type)i;
            return 0;
        }
    }
    return error_set(err, ERR_INVAL, "tensor '%.80s': unknown dtype '%.20s'",
                     name, word);
}

/* *ret_bytes is their product times the type's size, kept from wrapping. */
static int read_shape(const json_t *o, struct st_tensor *t, int64_t *ret_bytes,
                      struct error *err)
{
    const json_t *v = json_object_get(o, "shape");
    size_t n = json_array_size(v);
    if (!json_is_array(v) || n > ST_DIMS)
        return error_set(err, ERR_INVAL,
                         "tensor '%.80s': shape must have 0..%d dimensions",
                         t->name, ST_DIMS);
    int64_t bytes = st_types[t->type].bytes;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(v, i);
        int64_t size = json_is_integer(d) ? json_integer_value(d) : -1;
        if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
            return error_set(err, ERR_INVAL,
                             "tensor '%.80s': dimension %zu of its shape is "
                             "not possible",
                             t->name, i);
        t->shape[i] = size;
    }
    t->dims = (int32_t)n;
    *ret_bytes = bytes;
    return 0;
}

static int read_place(const json_t *o, struct st_tensor *t, int64_t bytes,
                      int64_t data_bytes, struct error *err)
{
    const json_t *v = json_object_get(o, "data_offsets");
    const json_t *a = json_array_get(v, 0), *b = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return error_set(err, ERR_INVAL,
                         "tensor '%.80s': data_offsets must be two integers",
                         t->name);
    int64_t first = json_integer_value(a), end = json_integer_value(b);
    if (first < 0 || end < first || end > data_bytes)
        return error_set(err, ERR_INVAL,
                         "tensor '%.80s': offsets %lld..%lld are outside the "
                         "%lld bytes of data",
                         t->name, (long long)first, (long long)end,
                         (long long)data_bytes);
    if (end - first != bytes)
        return error_set(err, ERR_INVAL,
                         "tensor '%.80s': %lld bytes at offset %lld, its dtype "
                         "and shape need %lld",
                         t->name, (long long)(end - first), (long long)first,
                         (long long)bytes);
    t->offset = first;
    t->bytes = (size_t)bytes;
    return 0;
}

static int read_tensor(const char *name, const json_t *o, int64_t data_bytes,
                       struct st_tensor *ret, struct error *err)
{
    int64_t bytes = 0;
    if (!json_is_object(o))
        return error_set(err, ERR_INVAL, "tensor '%.80s' is not an object",
                         name);
    ret->name = strdup(name);
    if (ret->name == NULL)
        return error_set(err, ERR_NOMEM, "tensor '%.80s'", name);
    if (read_type(o, name, &ret->type, err) < 0 ||
        read_shape(o, ret, &bytes, err) < 0)
        return -1;
    return read_place(o, ret, bytes, data_bytes, err);
}

static int by_offset(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) /* an empty one first */
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int check_cover(const struct safetensors *s, int64_t data_bytes,
                       struct error *err)
{
    int64_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];
        if (t->offset != at)
            return error_set(err, ERR_INVAL, "tensor '%.80s' at offset %lld %s",
                             t->name, (long long)t->offset,
                             t->offset < at ? "overlaps the one before"
                                            : "leaves a hole before it");
        at += (int64_t)t->bytes;
    }
    if (at != data_bytes)
        return error_set(err, ERR_INVAL,
                         "%lld bytes of data after offset %lld belong to no "
                         "tensor",
                         (long long)(data_bytes - at), (long long)at);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct st_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int sort_names(struct safetensors *s, struct error *err)
{
    s->by_name = calloc(s->n + 1, sizeof(const struct st_tensor *));
    if (s->by_name == NULL)
        return error_set(err, ERR_NOMEM, "header");
    for (size_t i = 0; i < s->n; i++)
        s->by_name[i] = &s->tensors[i];
    qsort(s->by_name, s->n, sizeof(const struct st_tensor *), by_name);
    return 0;
}

static int read_header(struct safetensors *s, json_t *root, const char *data,
                       int64_t data_bytes, struct error *err)
{
    const char *name;
    json_t *o;
    s->tensors = calloc(json_object_size(root) + 1, sizeof(*s->tensors));
    if (s->tensors == NULL)
        return error_set(err, ERR_NOMEM, "header");
    json_object_foreach(root, name, o)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        struct st_tensor *t = &s->tensors[s->n++];
        if (read_tensor(name, o, data_bytes, t, err) < 0)
            return -1;
    }
    qsort(s->tensors, s->n, sizeof(*s->tensors), by_offset);
    for (size_t i = 0; i < s->n; i++)
        s->tensors[i].data = data + s->tensors[i].offset;
    if (check_cover(s, data_bytes, err) < 0)
        return -1;
    return sort_names(s, err);
}

/* Counts what the parser would make objects of, which takes it some 30 us a
 * tensor: objects and commas outside of strings. */
static int check_counts(const char *text, size_t len, struct error *err)
{
    size_t objects = 0, commas = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += text[i] == '\\';
        else {
            objects += text[i] == '{';
            commas += text[i] == ',';
        }
    }
    /* All of them are in an object, beside that of the metadata. */
    if (objects > ST_TENSORS_MAX + 2)
        return error_set(err, ERR_INVAL,
                         "a header of %zu objects, at most %d tensors are read",
                         objects, ST_TENSORS_MAX);
    if (commas > (size_t)ST_TENSORS_MAX * (ST_DIMS + 8))
        return error_set(err, ERR_INVAL, "a header of %zu values", commas);
    return 0;
}

static int read_map(struct safetensors *s, struct error *err)
{
    const unsigned char *p = s->map;
    size_t size = s->bytes;
    uint64_t len = 0;
    if (size < LENGTH_BYTES)
        return error_set(err, ERR_INVAL, "%zu bytes are too short", size);
    for (int i = 0; i < LENGTH_BYTES; i++)
        len |= (uint64_t)p[i] << (8 * i);
    if (len > ST_HEADER_MAX || len > size - LENGTH_BYTES)
        return error_set(err, ERR_INVAL,
                         "a header of %llu bytes in a file of %zu",
                         (unsigned long long)len, size);
    const char *text = (const char *)s->map + LENGTH_BYTES;
    json_error_t why;
    if (check_counts(text, (size_t)len, err) < 0)
        return -1;
    json_t *root = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(root)) {
        const char *what = root != NULL ? "not an object" : why.text;
        json_decref(root);
        return error_set(err, ERR_INVAL, "header: byte %d: %.100s",
                         why.position + LENGTH_BYTES, what);
    }
    int64_t data_bytes = (int64_t)(size - LENGTH_BYTES - (size_t)len);
    int rc = read_header(s, root, text + len, data_bytes, err);
    json_decref(root);
    return rc;
}

/* An empty file has no map. */
static int map_file(struct safetensors *s, int fd, off_t size, size_t max_bytes,
                    struct error *err)
{
    const size_t n = (size_t)size;
    if (n > max_bytes)
        return error_set(err, ERR_LIMIT, "%zu bytes, at most %zu are allowed",
                         n, max_bytes);
    if (n == 0)
        return 0;
    void *map = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_sys(err, errno, "map %zu bytes", n);
    s->map = map;
    s->bytes = n;
    return 0;
}

int safetensors_open(const char *path, size_t max_bytes,
                     struct safetensors *ret, struct error *err)
{
    struct safetensors s = {.n = 0};
    struct stat st;
    int fd = plain_file_open(path, 0, &st, err);
    if (fd < 0)
        return -1;
    int rc = map_file(&s, fd, st.st_size, max_bytes, err);
    (void)close(fd);
    if (rc < 0 || read_map(&s, err) < 0) {
        safetensors_close(&s);
        return error_wrap(err, "%s", path);
    }
    *ret = s;
    return 0;
}

void safetensors_close(struct safetensors *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->tensors[i].name);
    free(s->tensors);
    free(s->by_name);
    if (s->map != NULL)
        (void)munmap((void *)s->map, s->bytes);
    *s = (struct safetensors){.n = 0};
}

void safetensors_forget(const struct st_tensor *t, size_t first, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)t->data + first;
    const uintptr_t begin = from / page * page; /* in the map, as its header */
    if (bytes > 0)
        (void)madvise((char *)t->data + first - (from - begin),
                      bytes + (from - begin), MADV_DONTNEED);
}

const struct st_tensor *safetensors_find(const struct safetensors *s,
                                         const char *name)
{
    size_t first = 0, end = s->n;
    while (first < end) {
        size_t at = first + (end - first) / 2;
        int c = strcmp(name, s->by_name[at]->name);
        if (c == 0)
            return s->by_name[at];
        if (c < 0)
            end = at;
        else
            first = at + 1;
    }
    return NULL;
}
