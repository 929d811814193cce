/* hf_index.c - libFuzzer: any text as the index of a model's shards. Files that
 * are accepted are in the directory itself, and an index is read as the same
 * again when it is written. */
#include "worker/llm/files/hf_index.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct hf_index *x)
{
    for (size_t i = 0; i < x->n_files; i++)
        if (x->files[i][0] == '.' || x->files[i][0] == '\0' ||
            strchr(x->files[i], '/') != NULL)
            abort();
    for (size_t i = 0; i < x->n; i++)
        if (x->entries[i].file >= x->n_files ||
            (i > 0 && strcmp(x->entries[i - 1].name, x->entries[i].name) >= 0))
            abort();
}

static void check_same(const struct hf_index *x, const struct hf_index *y)
{
    if (x->n != y->n || x->n_files != y->n_files)
        abort();
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->entries[i].name, y->entries[i].name) != 0 ||
            strcmp(x->files[x->entries[i].file],
                   y->files[y->entries[i].file]) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_index x = {.n = 0}, again = {.n = 0};
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT;
    if (hf_index_parse((const char *)data, size, &x, &err) < 0) {
        if (err.code == ERR_NONE || err.msg[0] == '\0' || x.entries != NULL)
            abort();
        return 0;
    }
    check(&x);
    if (hf_index_encode(&x, (int64_t)size, &text, &err) < 0 ||
        hf_index_parse(buf_str(&text), text.len, &again, &err) < 0)
        abort();
    check_same(&x, &again);
    hf_index_clear(&x);
    hf_index_clear(&again);
    buf_clear(&text);
    return 0;
}
