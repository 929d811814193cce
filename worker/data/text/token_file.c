/* token_file.c - see token_file.h. */
#include "worker/data/text/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/checkpoint/crc64.h"

static const char magic[8] = "mgputok1";

struct header {
    char magic[8];
    uint64_t sum;    /* CRC-64 of all that follows this member */
    uint64_t values; /* ids, and as many labels */
    int64_t tokens, judged;
    int32_t n, longest, most;
    struct rows_skipped skipped;
};

/* From the member behind the sum on. */
static uint64_t sum_of(const struct header *h, const void *ids,
                       const void *labels, const void *rows)
{
    const size_t from = offsetof(struct header, values);
    const size_t bytes = (size_t)h->values * sizeof(int32_t);
    uint64_t sum = crc64(0, (const char *)h + from, sizeof(*h) - from);
    sum = crc64(sum, ids, bytes);
    sum = crc64(sum, labels, bytes);
    return crc64(sum, rows, (size_t)h->n * sizeof(struct token_row));
}

/* ---- writing ------------------------------------------------------------- */

static int write_all(int fd, const void *p, size_t n)
{
    const char *at = p;
    while (n > 0) {
        ssize_t got = write(fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

static int write_file(int fd, const struct token_data *d)
{
    struct header h;
    memset(&h, 0, sizeof(h)); /* with what is between its members */
    memcpy(h.magic, magic, sizeof(magic));
    h.values = d->ids.len / sizeof(int32_t);
    h.tokens = d->tokens;
    h.judged = d->judged;
    h.n = d->n;
    h.longest = d->longest;
    h.most = d->most;
    h.skipped = d->skipped;
    h.sum = sum_of(&h, d->ids.data, d->labels.data, d->list.data);
    if (write_all(fd, &h, sizeof(h)) < 0 ||
        write_all(fd, d->ids.data, d->ids.len) < 0 ||
        write_all(fd, d->labels.data, d->labels.len) < 0 ||
        write_all(fd, d->list.data, d->list.len) < 0)
        return -1;
    return fsync(fd);
}

int token_file_write(const char *path, const struct token_data *d,
                     struct error *err)
{
    char *temp = NULL;
    if (asprintf(&temp, "%s.tmp", path) < 0)
        return error_set(err, ERR_NOMEM, "%s", path);
    int fd =
        open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd >= 0 ? write_file(fd, d) : -1;
    int why = errno;
    if (fd >= 0 && close(fd) < 0 && rc == 0) {
        rc = -1;
        why = errno;
    }
    if (rc == 0 && rename(temp, path) < 0) {
        rc = -1;
        why = errno;
    }
    if (rc < 0) {
        (void)error_sys(err, why, "write '%s'", temp);
        (void)unlink(temp);
    }
    free(temp);
    return rc;
}

/* ---- reading ------------------------------------------------------------- */

static int damaged(const char *path, const char *what, struct error *err)
{
    return error_set(err, ERR_INVAL, "%s: %s", path, what);
}

/* Rows are within the ids, so that a reader may rely on them. */
static bool rows_fit(const struct header *h, const struct token_row *rows)
{
    for (int32_t i = 0; i < h->n; i++)
        if (rows[i].n < 1 || rows[i].first > h->values ||
            (uint64_t)rows[i].n > h->values - rows[i].first ||
            rows[i].place.file < 0)
            return false;
    return true;
}

static int use_map(const char *path, char *map, size_t size,
                   struct token_data *ret, struct error *err)
{
    struct header h;
    if (size < sizeof(h))
        return damaged(path, "it ends too early", err);
    memcpy(&h, map, sizeof(h));
    if (memcmp(h.magic, magic, sizeof(magic)) != 0)
        return damaged(path, "no tokens of this version", err);
    if (h.n < 1 || h.values > size / 8 ||
        size != sizeof(h) + 2 * (size_t)h.values * sizeof(int32_t) +
                    (size_t)h.n * sizeof(struct token_row))
        return damaged(path, "another size than its header says", err);
    const size_t bytes = (size_t)h.values * sizeof(int32_t);
    char *ids = map + sizeof(h), *labels = ids + bytes, *rows = labels + bytes;
    if (sum_of(&h, ids, labels, rows) != h.sum ||
        !rows_fit(&h, (const struct token_row *)(const void *)rows))
        return damaged(path, "damaged", err);
    *ret = (struct token_data){
        .n = h.n,
        .longest = h.longest,
        .most = h.most,
        .tokens = h.tokens,
        .judged = h.judged,
        .skipped = h.skipped,
        .map = map,
        .map_bytes = size,
        .map_ids = (const int32_t *)(const void *)ids,
        .map_labels = (const int32_t *)(const void *)labels,
        .map_rows = (const struct token_row *)(const void *)rows};
    return 0;
}

int token_file_read(const char *path, struct token_data *ret, struct error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    int rc = fstat(fd, &st);
    void *map = MAP_FAILED;
    if (rc == 0 && st.st_size > 0)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int why = errno;
    (void)close(fd);
    if (rc == 0 && st.st_size == 0)
        return damaged(path, "it is empty", err);
    if (map == MAP_FAILED)
        return error_sys(err, why, "map '%s'", path);
    if (use_map(path, map, (size_t)st.st_size, ret, err) < 0) {
        (void)munmap(map, (size_t)st.st_size);
        return -1;
    }
    return 0;
}
