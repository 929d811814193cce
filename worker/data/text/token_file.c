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

static const char magic[8] = "mgputok2";

struct header {
    char magic[8];
    uint64_t sum[4]; /* CRC-64 of ids, labels, rows, what follows here */
    uint64_t values; /* ids, and as many labels */
    int64_t tokens, judged;
    int32_t n, longest, most, cut;
    struct rows_skipped skipped;
};

int64_t token_file_base(void)
{
    return (int64_t)sizeof(struct header);
}

static uint64_t sum_of(const struct header *h)
{
    const size_t from = offsetof(struct header, values);
    return crc64(0, (const char *)h + from, sizeof(*h) - from);
}

/* ---- writing ------------------------------------------------------------- */

/* The file ends behind the ids. */
static int write_ids(int fd, struct token_data *d, uint64_t *ret_sum,
                     struct error *err)
{
    if (lseek(fd, token_file_base(), SEEK_SET) < 0)
        return error_sys(err, errno, "seek");
    if (!d->ids.has_file)
        return token_list_write(&d->ids, fd, ret_sum, err);
    if (token_list_flush(&d->ids, err) < 0)
        return -1;
    *ret_sum = d->ids.sum;
    return lseek(fd, (off_t)d->ids.bytes, SEEK_CUR) < 0
               ? error_sys(err, errno, "seek")
               : 0;
}

static int write_file(int fd, struct token_data *d, struct error *err)
{
    struct header h;
    memset(&h, 0, sizeof(h)); /* with what is between its members */
    memcpy(h.magic, magic, sizeof(magic));
    h.values = token_list_values(&d->ids);
    h.tokens = d->tokens;
    h.judged = d->judged;
    h.n = d->n;
    h.longest = d->longest;
    h.most = d->most;
    h.cut = d->cut;
    h.skipped = d->skipped;
    if (write_ids(fd, d, &h.sum[0], err) < 0 ||
        token_list_write(&d->labels, fd, &h.sum[1], err) < 0)
        return -1;
    h.sum[2] = crc64(0, d->list.data, d->list.len);
    h.sum[3] = sum_of(&h);
    if (token_list_write_all(fd, d->list.data, d->list.len, -1) < 0 ||
        token_list_write_all(fd, &h, sizeof(h), 0) < 0 || fsync(fd) < 0)
        return error_sys(err, errno, "write rows");
    return 0;
}

/* The file that has the ids of a list with a file; a new one otherwise. */
static int open_temp(const char *temp, const struct token_data *d,
                     struct error *err)
{
    int fd =
        d->ids.has_file
            ? fcntl(d->ids.fd, F_DUPFD_CLOEXEC, 0)
            : open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                   0600);
    return fd < 0 ? error_sys(err, errno, "open") : fd;
}

int token_file_write(const char *path, struct token_data *d, struct error *err)
{
    char *temp = NULL;
    if (asprintf(&temp, "%s.tmp", path) < 0)
        return error_set(err, ERR_NOMEM, "%s", path);
    int fd = open_temp(temp, d, err);
    int rc = fd >= 0 ? write_file(fd, d, err) : -1;
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = error_sys(err, errno, "close");
    if (rc == 0 && rename(temp, path) < 0)
        rc = error_sys(err, errno, "rename");
    if (rc < 0) {
        (void)error_wrap(err, "'%s'", temp);
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
    if (sum_of(&h) != h.sum[3] || crc64(0, ids, bytes) != h.sum[0] ||
        crc64(0, labels, bytes) != h.sum[1] ||
        crc64(0, rows, (size_t)h.n * sizeof(struct token_row)) != h.sum[2] ||
        !rows_fit(&h, (const struct token_row *)(const void *)rows))
        return damaged(path, "damaged", err);
    *ret = (struct token_data){
        .n = h.n,
        .longest = h.longest,
        .most = h.most,
        .cut = h.cut,
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
