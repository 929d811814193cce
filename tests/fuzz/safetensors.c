/* safetensors.c - any bytes as a file of tensors: what is found lies within the
 * file, and is as large as its shape says. */
#include "worker/checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(const struct safetensors *s)
{
    volatile unsigned sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct st_tensor *t = &s->tensors[i];
        size_t bytes = (size_t)st_types[t->type].bytes;
        for (int32_t k = 0; k < t->dims; k++)
            bytes *= (size_t)t->shape[k];
        if (bytes != t->bytes || safetensors_find(s, t->name) != t)
            abort();
        for (size_t k = 0; k < t->bytes; k++)
            sum += ((const unsigned char *)t->data)[k];
    }
    if (safetensors_find(s, "no tensor has this name, surely"))
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct safetensors s = {.n = 0};
    struct error err = ERROR_INIT;
    char path[64];
    int fd = memfd_create("safetensors", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (safetensors_open(path, 1 << 20, &s, &err) == 0)
        check(&s);
    else if (err.code == ERR_NONE || err.msg[0] == '\0' || s.tensors)
        abort();
    safetensors_close(&s);
    (void)close(fd);
    return 0;
}
