/* safetensors_write.c - the writer; see safetensors.h. The header says where
 * each tensor lies, so all are declared before the first byte of data; the
 * data is then streamed, and never held a second time. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "worker/checkpoint/crc64.h"
#include "worker/checkpoint/safetensors.h"

void safetensors_writer_init(struct st_writer *w, int fd)
{
    *w = (struct st_writer){.fd = fd};
    buf_init(&w->header);
}

void safetensors_writer_clear(struct st_writer *w)
{
    buf_clear(&w->header);
}

/* Names go into the header as they are. */
static void check_name(const char *name)
{
    assert(name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                             "VWXYZ0123456789._-")] == '\0');
}

int safetensors_declare_format(struct st_writer *w, const char *format,
                               struct error *err)
{
    assert(w->header.len == 0);
    check_name(format);
    return buf_addf(&w->header, err, "{\"__metadata__\":{\"format\":\"%s\"}",
                    format);
}

int safetensors_declare(struct st_writer *w, const char *name,
                        enum st_type type, const int64_t *shape, int32_t dims,
                        struct error *err)
{
    int64_t bytes = st_types[type].bytes;
    check_name(name);
    if (buf_addf(&w->header, err, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                 w->header.len > 0 ? "," : "{", name, st_types[type].word) < 0)
        return -1;
    for (int32_t i = 0; i < dims; i++) {
        bytes *= shape[i];
        if (buf_addf(&w->header, err, "%s%lld", i > 0 ? "," : "",
                     (long long)shape[i]) < 0)
            return -1;
    }
    int64_t first = w->declared;
    w->declared += bytes;
    return buf_addf(&w->header, err, "],\"data_offsets\":[%lld,%lld]}",
                    (long long)first, (long long)w->declared);
}

static int write_all(struct st_writer *w, const void *data, size_t n,
                     struct error *err)
{
    const char *p = data;
    w->crc = crc64(w->crc, data, n);
    while (n > 0) {
        ssize_t k = write(w->fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_sys(err, errno, "write");
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int safetensors_begin(struct st_writer *w, struct error *err)
{
    unsigned char length[8];
    if (buf_addstr(&w->header, w->header.len > 0 ? "}" : "{}", err) < 0)
        return -1;
    /* Spaces align the data to 8 bytes, as the reference writer does. */
    while (w->header.len % 8 != 0)
        if (buf_addstr(&w->header, " ", err) < 0)
            return -1;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)w->header.len >> (8 * i));
    if (write_all(w, length, sizeof(length), err) < 0)
        return -1;
    return write_all(w, buf_str(&w->header), w->header.len, err);
}

int st_write(struct st_writer *w, const void *data, size_t bytes,
             struct error *err)
{
    w->written += (int64_t)bytes;
    return write_all(w, data, bytes, err);
}

int safetensors_end(struct st_writer *w, struct error *err)
{
    if (w->written != w->declared)
        return error_set(err, ERR_INTERNAL,
                         "safetensors: %lld bytes declared, %lld written",
                         (long long)w->declared, (long long)w->written);
    return 0;
}
