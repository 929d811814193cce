/* token_file.c - see token_file.h. */
#include "worker/data/cache/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"
#include "worker/checkpoint/crc64.h"

static const char magic[8] = "mgputok3";

struct header {
    char magic[8];
    uint64_t sum[4]; /* CRC-64 of ids, labels, rows, what follows here */
    uint64_t values; /* ids, and as many labels */
    int64_t tokens, labelled;
    int32_t n, longest, most, cut;
    struct rows_skipped skipped;
    struct row_keys unread;
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
    h.labelled = d->labelled;
    h.n = d->n;
    h.longest = d->longest;
    h.most = d->most;
    h.cut = d->cut;
    h.skipped = d->skipped;
    h.unread = d->unread;
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
    if (!d->ids.has_file)
        (void)unlink(temp); /* of a process that was killed */
    int fd =
        d->ids.has_file
            ? fcntl(d->ids.fd, F_DUPFD_CLOEXEC, 0)
            : open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
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

enum { PIECE_BYTES = 1 << 20 };

/* A file on its way into a token_data. */
struct reading {
    const char *path;
    int fd;
    const struct token_file_want *want;
    struct header h;
    struct token_data *to;
    uint64_t sum;
    struct error *err;
};

static int damaged(const struct reading *r, const char *what)
{
    return error_set(r->err, ERR_INVAL, "%s: %s", r->path, what);
}

/* All n bytes, and their sum. */
static int read_bytes(struct reading *r, void *ret, size_t n)
{
    char *p = ret;
    for (size_t at = 0; at < n;) {
        const ssize_t got = read(r->fd, p + at, n - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_sys(r->err, errno, "read '%s'", r->path);
        if (got == 0)
            return damaged(r, "it ends too early");
        at += (size_t)got;
    }
    r->sum = crc64(r->sum, ret, n);
    return 0;
}

static int check_sum(struct reading *r, int k)
{
    const uint64_t sum = r->sum;
    r->sum = 0;
    return sum == r->h.sum[k] ? 0 : damaged(r, "damaged");
}

/* Checks that the parts fill the file: no size below is larger than it. */
static int read_header(struct reading *r, size_t size)
{
    if (size < sizeof(r->h))
        return damaged(r, size == 0 ? "it is empty" : "it ends too early");
    if (read_bytes(r, &r->h, sizeof(r->h)) < 0)
        return -1;
    r->sum = sum_of(&r->h);
    if (memcmp(r->h.magic, magic, sizeof(magic)) != 0)
        return damaged(r, "no tokens of this version");
    if (r->h.n < 1 || r->h.values > size / 8 ||
        size != sizeof(r->h) + 2 * (size_t)r->h.values * sizeof(int32_t) +
                    (size_t)r->h.n * sizeof(struct token_row))
        return damaged(r, "another size than its header says");
    return check_sum(r, 3);
}

/* Checks that the rows follow each other and lie within the ids. */
static int check_rows(struct reading *r)
{
    struct token_data *d = r->to;
    const struct token_row *rows = token_data_rows(d);
    uint64_t at = 0;
    for (int32_t i = 0; i < d->n; i++) {
        const struct token_row *row = &rows[i];
        if (row->n < 1 || row->n > INT32_MAX / 4 || row->first < at ||
            row->first > r->h.values ||
            (uint64_t)row->n > r->h.values - row->first ||
            row->place.file < 0 || row->place.file >= r->want->files ||
            row->place.index < 0 || row->lost < -1)
            return damaged(r, "a row that is not within its tokens");
        at = row->first + (uint64_t)row->n;
        d->longest = row->n > d->longest ? row->n : d->longest;
        d->tokens += row->n;
        d->cut += row->lost >= 0;
        d->lost += row->lost > 0 ? row->lost : 0;
    }
    if (r->want->longest > 0 && d->longest > r->want->longest)
        return damaged(r, "a row that is longer than max_seq_len");
    return r->want->pairs && d->n % 2 != 0 ? damaged(r, "half a pair") : 0;
}

static int read_rows(struct reading *r)
{
    struct token_data *d = r->to;
    const size_t bytes = (size_t)r->h.n * sizeof(struct token_row);
    const off_t at = (off_t)(sizeof(r->h) + 2 * r->h.values * sizeof(int32_t));
    if (lseek(r->fd, at, SEEK_SET) < 0)
        return error_sys(r->err, errno, "read '%s'", r->path);
    if (buf_reserve(&d->list, bytes, r->err) < 0 ||
        read_bytes(r, d->list.data, bytes) < 0 || check_sum(r, 2) < 0)
        return -1;
    d->list.len = bytes;
    d->n = r->h.n;
    return check_rows(r);
}

/* Counts labels of tokens [at, at + n), but for the first of each row, which no
 * token before it predicts. */
static int32_t count_labelled(struct reading *r, const int32_t *label,
                              uint64_t at, size_t n, int32_t *io_row,
                              int32_t *io_in_row)
{
    const struct token_row *rows = token_data_rows(r->to);
    int32_t wrong = 0;
    for (uint64_t k = at; *io_row < r->to->n && k < at + n; k++) {
        const struct token_row *row = &rows[*io_row];
        if (k < row->first)
            continue;
        *io_in_row += k > row->first && label[k - at] >= 0;
        if (k + 1 < row->first + (uint64_t)row->n)
            continue;
        wrong += *io_in_row != row->labelled || *io_in_row == 0;
        r->to->labelled += *io_in_row;
        *io_in_row = 0;
        ++*io_row;
    }
    return wrong;
}

/* Takes the highest of a piece of ids or labels; false: one may not be there.
 */
static bool take_piece(struct reading *r, const int32_t *v, size_t n, bool ids)
{
    int32_t least = 0, most = r->to->most;
    for (size_t i = 0; i < n; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    r->to->most = most;
    return most < INT32_MAX && (!ids || least == 0);
}

/* All ids, or all labels, a piece at a time. */
static int read_values(struct reading *r, bool ids, int32_t *piece)
{
    const uint64_t most = PIECE_BYTES / sizeof(*piece);
    int32_t row = 0, in_row = 0;
    for (uint64_t at = 0; at < r->h.values;) {
        const uint64_t left = r->h.values - at;
        const size_t n = (size_t)(left < most ? left : most);
        if (read_bytes(r, piece, n * sizeof(*piece)) < 0)
            return -1;
        if (!take_piece(r, piece, n, ids))
            return damaged(r, "a token that is no id");
        if (!ids && count_labelled(r, piece, at, n, &row, &in_row) > 0)
            return damaged(r, "a row with other labels than it says");
        at += n;
    }
    return check_sum(r, ids ? 0 : 1);
}

static int read_tokens(struct reading *r)
{
    int32_t *piece = calloc(1, PIECE_BYTES);
    int rc = -1;
    if (piece == NULL)
        return error_set(r->err, ERR_NOMEM, "%s", r->path);
    if (lseek(r->fd, token_file_base(), SEEK_SET) < 0)
        (void)error_sys(r->err, errno, "read '%s'", r->path);
    else if (read_values(r, true, piece) == 0)
        rc = read_values(r, false, piece);
    free(piece);
    return rc;
}

static bool are_keys(const struct row_keys *k, int32_t files)
{
    for (int32_t i = 0; i < k->n && i < ROW_KEYS; i++)
        if (k->key[i].file < 0 || k->key[i].file >= files)
            return false;
    return k->n >= 0 && k->n <= ROW_KEYS;
}

/* The header says the same, as far as it says it. */
static int check_header(struct reading *r)
{
    const struct token_data *d = r->to;
    const struct header *h = &r->h;
    if (h->longest == d->longest && h->most == d->most && h->cut == d->cut &&
        h->tokens == d->tokens && h->labelled == d->labelled &&
        h->skipped.n >= 0 && are_keys(&h->unread, r->want->files))
        return 0;
    return damaged(r, "its header does not say what its rows say");
}

/* A text goes to a terminal, and ends within its array. */
static void tame(char *text, size_t cap)
{
    text[cap - 1] = '\0';
    for (char *p = text; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
}

static void take_unread(struct reading *r)
{
    struct row_keys *to = &r->to->unread;
    *to = r->h.unread;
    for (int32_t i = 0; i < to->n; i++)
        tame(to->key[i].name, sizeof(to->key[i].name));
}

static void take_skipped(struct reading *r)
{
    struct rows_skipped *to = &r->to->skipped;
    *to = r->h.skipped;
    for (int i = 0; i < ROWS_NAMED; i++) {
        tame(to->why[i].msg, sizeof(to->why[i].msg));
        to->why[i].code = ERR_INVAL;
    }
}

static int read_file(struct reading *r, size_t size)
{
    struct token_data *d = r->to;
    if (read_header(r, size) < 0 || read_rows(r) < 0 || read_tokens(r) < 0 ||
        check_header(r) < 0)
        return -1;
    take_skipped(r);
    take_unread(r);
    d->kept = (struct token_kept){.fd = r->fd,
                                  .path = strdup(r->path),
                                  .base = token_file_base(),
                                  .values = r->h.values};
    return d->kept.path != NULL ? 0
                                : error_set(r->err, ERR_NOMEM, "%s", r->path);
}

int token_file_read(const char *path, const struct token_file_want *want,
                    struct token_data *ret, struct error *err)
{
    struct stat st;
    struct token_data d = {.n = 0};
    const int flags = want->trust != NULL ? O_NOFOLLOW : 0;
    struct reading r = {.path = path, .want = want, .to = &d, .err = err};
    r.fd = plain_file_open(path, flags, &st, err);
    if (r.fd < 0)
        return -1;
    if ((want->trust != NULL &&
         cache_trust_check(want->trust, path, &st, err) < 0) ||
        read_file(&r, (size_t)st.st_size) < 0) {
        token_data_clear(&d);
        (void)close(r.fd);
        return -1;
    }
    d.is_kept = true;
    *ret = d;
    return 0;
}
