/* token_file.c - any bytes as a file of tokenised rows, with right sums: what
 * is taken of it can be packed and put into a batch as what was tokenised here,
 * also when the file changes after it was read.
 *
 * The first byte of the input has flags, and the rest is the file. Sums are put
 * in: an attacker computes them, too. */
#include "worker/data/cache/token_file.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/checkpoint/crc64.h"
#include "worker/data/chat/chat_tokenizer.h"
#include "worker/llm/batches/token_rows.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

/* Tokenising is not what is tested. */
const struct tokenizer_ids *tokenizer_ids(const struct tokenizer *t)
{
    (void)t;
    return NULL;
}

int32_t tokenizer_special(const struct tokenizer *t, const char *name)
{
    (void)t;
    (void)name;
    return -1;
}

bool tokenizer_knows_behind(const struct tokenizer *t)
{
    (void)t;
    return true;
}

void chat_tokenizer_end(const char *dir, const struct tokenizer *t,
                        struct chat_text_end *ret)
{
    (void)dir;
    (void)t;
    *ret = (struct chat_text_end){.id = -1};
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t flags, struct buf *ret, struct error *err)
{
    (void)t;
    (void)text;
    (void)len;
    (void)flags;
    (void)ret;
    return error_set(err, ERR_INVAL, "no tokenizer");
}

int tokenizer_encode_some(const struct tokenizer *t, const char *text,
                          size_t len, uint32_t flags, size_t most,
                          struct buf *ret, struct error *err)
{
    return tokenizer_encode(t, text, most > 0 && most < len ? most : len, flags,
                            ret, err);
}

static void need(bool holds)
{
    if (!holds)
        abort();
}

/* magic, four sums, and the first member that is summed: values. */
enum { SUMS_AT = 8, VALUES_AT = 40 };

static void put_sum(unsigned char *file, int k, size_t at, size_t n)
{
    const uint64_t sum = crc64(0, file + at, n);
    memcpy(file + SUMS_AT + 8 * k, &sum, sizeof(sum));
}

static void put_sums(unsigned char *file, size_t size)
{
    const size_t base = (size_t)token_file_base();
    uint64_t values;
    if (size < base)
        return;
    memcpy(&values, file + VALUES_AT, sizeof(values));
    if (values <= (size - base) / 8) {
        const size_t bytes = (size_t)values * sizeof(int32_t);
        put_sum(file, 0, base, bytes);
        put_sum(file, 1, base + bytes, bytes);
        put_sum(file, 2, base + 2 * bytes, size - base - 2 * bytes);
    }
    put_sum(file, 3, VALUES_AT, base - VALUES_AT);
}

enum { TOKENS = 1 << 16, CLASSES = 1 << 16 };

/* All samples in one batch. */
static void fill(const struct token_data *d, const struct packing *p,
                 bool pairs, bool may_fail)
{
    int32_t *index = calloc((size_t)p->n, sizeof(*index));
    struct pair_answer *answers = NULL;
    need(index != NULL);
    for (int32_t i = 0; i < p->n; i++)
        index[i] = i;
    const struct token_pick pick = {
        .data = d, .packs = p, .index = index, .n = p->n};
    struct token_rows r = {.n = p->n, .S = token_rows_longest(&pick)};
    if (pairs) {
        answers = calloc(2 * (size_t)p->n, sizeof(*answers));
        need(answers != NULL);
        r.S = token_rows_dense(&pick, r.n);
        r.answers = answers;
    }
    const size_t n = (size_t)r.n * (size_t)r.S;
    if (n <= TOKENS && d->most < CLASSES) {
        int32_t *x = calloc(5 * n + (size_t)d->most + 1, sizeof(*x));
        struct error err = ERROR_INIT;
        need(x != NULL);
        r.id = x;
        r.pos = x + n;
        r.order = x + 2 * n;
        r.labelled = x + 3 * n;
        r.label = x + 4 * n;
        int rc = token_rows_fill(&r, &pick, x + 5 * n, d->most + 1, &err);
        need(rc == 0 || (may_fail && err.code == ERR_IO));
        need(rc < 0 || may_fail || r.n_labelled == d->labelled);
        free(x);
    }
    free(answers);
    free(index);
}

static void check(const struct token_data *d, int flags, bool may_fail)
{
    const bool pairs = flags & 1;
    const struct packing_conf conf = {.max_seq_len = flags & 2 ? 16 : 0,
                                      .order = flags & 4 ? PACKING_BEST_FIT
                                                         : PACKING_IN_ORDER,
                                      .split = flags & 2,
                                      .pairs = pairs};
    struct packing p = {.n = 0};
    uint64_t sum = 0;
    const struct token_row *rows = token_data_rows(d);
    for (int32_t i = 0; i < d->n; i++)
        need(rows[i].place.file >= 0 && rows[i].place.file < 2 &&
             rows[i].n <= d->longest && rows[i].labelled > 0);
    need(packing_of(d, &conf, &p, NULL) == 0);
    fill(d, &p, pairs, may_fail);
    packing_clear(&p);
    need(token_data_digest(d, &sum, NULL) == 0 || may_fail);
}

/* Other tokens in all places, or the end. */
static void change(int fd, const struct token_data *d, bool cut)
{
    const int64_t base = token_file_base();
    if (cut) {
        need(ftruncate(fd, base + (int64_t)d->kept.values) == 0);
        return;
    }
    const int32_t v[] = {INT32_MAX, INT32_MIN, d->most, -1};
    for (uint64_t i = 0; i < 2 * d->kept.values; i++)
        need(pwrite(fd, &v[i % 4], sizeof(v[0]), base + 4 * (int64_t)i) == 4);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct token_data d = {.n = 0};
    char path[64];
    if (size < 1)
        return 0;
    const int flags = data[0];
    unsigned char *file = malloc(size);
    need(file != NULL);
    memcpy(file, data + 1, size - 1);
    put_sums(file, size - 1);
    int fd = memfd_create("tokens", MFD_CLOEXEC);
    need(fd >= 0 && write(fd, file, size - 1) == (ssize_t)(size - 1));
    free(file);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const struct token_file_want want = {.files = 2, .pairs = flags & 1};
    if (token_file_read(path, &want, &d, &err) == 0) {
        check(&d, flags, false);
        change(fd, &d, flags & 8);
        check(&d, flags, true);
    } else {
        need(err.code != ERR_NONE && err.msg[0] != '\0');
    }
    token_data_clear(&d);
    (void)close(fd);
    return 0;
}
