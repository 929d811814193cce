/* tokenizer.c - any bytes as a tokenizer's file. One that opens gives the bytes
 * themselves back, through ids that it has, or refuses a byte. One that changes
 * texts gives some text back.
 *
 * A model for libsentencepiece is refused here: that library is not what is
 * tested. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/data/tokenizer/tokenizer_internal.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int tokenizer_spm_open(const struct buf *file, struct tokenizer **ret,
                       struct error *err)
{
    (void)file;
    (void)ret;
    return error_set(err, ERR_INVAL, "a model");
}

static void need(bool holds)
{
    if (!holds)
        abort();
}

/* Whether the file's steps change no text: it has no normalizer, tokens of
 * bytes, and no added token that swallows white space. */
static bool is_exact(const unsigned char *data, size_t size)
{
    json_t *root = json_loadb((const char *)data, size, 0, NULL), *v;
    size_t i;
    bool rc = root == NULL ||
              ((json_object_get(root, "normalizer") == NULL ||
                json_is_null(json_object_get(root, "normalizer"))) &&
               !json_is_true(json_object_get(json_object_get(root, "model"),
                                             "byte_fallback")));
    json_array_foreach(json_object_get(root, "added_tokens"), i, v)
    {
        rc = rc && !json_is_true(json_object_get(v, "lstrip")) &&
             !json_is_true(json_object_get(v, "rstrip"));
    }
    json_decref(root);
    return rc;
}

static void check(const struct tokenizer *t, const char *text, size_t len,
                  bool exact)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    const struct tokenizer_ids *has = tokenizer_ids(t);
    need(has->size > 0 && has->bos < has->size && has->eos < has->size);
    if (tokenizer_encode(t, text, len, 0, &ids, &err) == 0) {
        const int32_t *list = (const void *)buf_str(&ids);
        const size_t n = ids.len / sizeof(*list);
        need(!exact || n <= len);
        if (n > 0 && tokenizer_decode(t, list, n, &back, &err) < 0)
            abort();
        need(!exact ||
             (back.len == len && memcmp(buf_str(&back), text, len) == 0));
    } else {
        need(err.code == ERR_INVAL && err.msg[0] != '\0' && ids.len == 0);
    }
    buf_clear(&ids);
    buf_clear(&back);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    enum { TEXT = 300 };
    struct error err = ERROR_INIT;
    struct tokenizer *t = NULL;
    char path[64];
    int fd = memfd_create("tokenizer", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (tokenizer_open(path, &t, &err) == 0)
        check(t, (const char *)data + (size > TEXT ? size - TEXT : 0),
              size > TEXT ? TEXT : size, is_exact(data, size));
    else
        need(err.code != ERR_NONE && err.msg[0] != '\0' && t == NULL);
    tokenizer_close(t);
    (void)close(fd);
    return 0;
}
