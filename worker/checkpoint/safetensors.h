/* safetensors.h - named tensors in a file, as Hugging Face defines it:
 * a length (u64, little endian), a JSON header of that length, the data.
 *
 * The reader trusts nothing: lengths and offsets are checked against the
 * file, shapes against offsets, and the tensors must cover the data without
 * hole or overlap. An error names the tensor and the offset.
 *
 * A file is mapped, not read: a tensor costs memory while its pages are used,
 * and the kernel can drop them again. Do not change a file while it is open
 * here: the tensors would change with it, and a read past the end of a file
 * that was cut short ends the process with SIGBUS, as does a disk that fails
 * (read the file first where that matters). To replace a file, write a
 * new one and rename it; the map keeps the old one.
 */
#ifndef MGPU_WORKER_CHECKPOINT_SAFETENSORS_H
#define MGPU_WORKER_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* X(word in the file, bytes of an element) */
#define ST_TYPES(X) \
    X(F64, 8)       \
    X(F32, 4)       \
    X(F16, 2)       \
    X(BF16, 2)      \
    X(I64, 8)       \
    X(I32, 4)       \
    X(I16, 2)       \
    X(I8, 1)        \
    X(U8, 1)        \
    X(BOOL, 1)
enum st_type {
#define X(word, bytes) ST_##word,
    ST_TYPES(X)
#undef X
        ST_TYPE_N
};

struct st_type_info {
    const char *word;
    int64_t bytes; /* of an element */
};
extern const struct st_type_info st_types[ST_TYPE_N];

/* The reference implementation's own cap on the header. */
enum { ST_DIMS = 8, ST_HEADER_MAX = 100 * 1000 * 1000 };
/* Files of models have some thousands: a header at that cap could have
 * millions, which take minutes to read. */
enum { ST_TENSORS_MAX = 100000 };

struct st_tensor {
    char *name;
    enum st_type type;
    int32_t dims;
    int64_t shape[ST_DIMS];
    int64_t offset; /* in the data */
    size_t bytes;
    const void *data; /* in the map, read only; need not be aligned */
};

struct safetensors {
    struct st_tensor *tensors; /* by offset */
    size_t n;
    const struct st_tensor **by_name; /* sorted, for safetensors_find() */
    const void *map;                  /* the whole file */
    size_t bytes;
};

/* Maps the file and reads its header.
 * err  ERR_INVAL not as above, or no regular file, or more than ST_TENSORS_MAX
 *      tensors; ERR_IO, ERR_NOTFOUND;
 *      ERR_LIMIT longer than max_bytes */
int safetensors_open(const char *path, size_t max_bytes,
                     struct safetensors *ret, struct error *err) MUST_CHECK;
void safetensors_close(struct safetensors *s); /* zeroed is fine */
/* These bytes of a tensor were used: their pages no longer count as memory of
 * this process. Used again, they are read from the file again. */
void safetensors_forget(const struct st_tensor *t, size_t first, size_t bytes);
/* NULL: no such tensor. cost  O(log n) */
const struct st_tensor *safetensors_find(const struct safetensors *s,
                                         const char *name);

/* Writing: declare every tensor, begin, write their data in that order, end.
 * The checksum (crc64.h) is the file's. */
struct st_writer {
    int fd; /* borrowed */
    struct buf header;
    int64_t declared, written;
    uint64_t crc;
};

void safetensors_writer_init(struct st_writer *w, int fd);
void safetensors_writer_clear(struct st_writer *w);
/* Declares metadata {"format": format}, which transformers and PEFT want to be
 * "pt". Optional, and before the first safetensors_declare(). format:
 * characters as in a tensor's name. */
int safetensors_declare_format(struct st_writer *w, const char *format,
                               struct error *err) MUST_CHECK;
/* name: letters, digits, '.', '_' and '-' */
int safetensors_declare(struct st_writer *w, const char *name,
                        enum st_type type, const int64_t *shape, int32_t dims,
                        struct error *err) MUST_CHECK;
int safetensors_begin(struct st_writer *w, struct error *err) MUST_CHECK;
int st_write(struct st_writer *w, const void *data, size_t bytes,
             struct error *err) MUST_CHECK;
int safetensors_end(struct st_writer *w, struct error *err) MUST_CHECK;

#endif
