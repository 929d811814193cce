/* schema_same.c - compare the value of a key in two structs. */
#include <string.h>

#include "jobs/schema/schema.h"

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_list(const struct spec_list *a, const struct spec_list *b)
{
    bool is_same = a->n == b->n;
    for (size_t i = 0; is_same && i < a->n; i++)
        is_same = same_text(a->items[i], b->items[i]);
    return is_same;
}

static bool same_map(const struct spec_map *a, const struct spec_map *b)
{
    bool is_same = a->n == b->n;
    for (size_t i = 0; is_same && i < a->n; i++)
        is_same = same_text(a->pairs[i].key, b->pairs[i].key) &&
                  same_text(a->pairs[i].value, b->pairs[i].value);
    return is_same;
}

bool schema_same(const struct schema_key *k, const void *a, const void *b)
{
    const void *x = (const char *)a + k->at, *y = (const char *)b + k->at;
    switch (k->type) {
    case KEY_STRING:
    case KEY_WORD:
    case KEY_PATH:
        return same_text(*(char *const *)x, *(char *const *)y);
    case KEY_NAME:
        return same_text(x, y);
    case KEY_LIST:
        return same_list(x, y);
    case KEY_MAP:
        return same_map(x, y);
    default: /* numbers parsed by the same code have equal bytes */
        return memcmp(x, y, k->size) == 0;
    }
}
