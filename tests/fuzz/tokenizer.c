/* tokenizer.c - any bytes as a tokenizer's file. One that opens gives the bytes
 * themselves back, through ids that it has, or refuses a byte.
 *
 * A model for libsentencepiece is refused here: that library is not what is
 * tested. */
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

static void check(const struct tokenizer *t, const char *text, size_t len)
{
    struct error err = ERROR_INIT;
    struct buf ids = BUF_INIT, back = BUF_INIT;
    const struct tokenizer_ids *has = tokenizer_ids(t);
    need(has->size > 0 && has->bos < has->size && has->eos < has->size);
    if (tokenizer_encode(t, text, len, 0, &ids, &err) == 0) {
        const int32_t *list = (const void *)buf_str(&ids);
        const size_t n = ids.len / sizeof(*list);
        need(n <= len);
        if (n > 0 && tokenizer_decode(t, list, n, &back, &err) < 0)
            abort();
        need(back.len == len && memcmp(buf_str(&back), text, len) == 0);
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
              size > TEXT ? TEXT : size);
    else
        need(err.code != ERR_NONE && err.msg[0] != '\0' && t == NULL);
    tokenizer_close(t);
    (void)close(fd);
    return 0;
}
