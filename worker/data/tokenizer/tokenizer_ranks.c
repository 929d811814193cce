/* tokenizer_ranks.c - read a list of ranks; see tokenizer_bpe.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/tokenizer/pretokenize.h"
#include "worker/data/tokenizer/tokenizer_bpe.h"

enum { TOKEN_MAX = 4096, SPECIALS = 256 };

/* The end of a line, which is the end of the file at most. */
static const char *line_end(const char *p, const char *end)
{
    const char *e = memchr(p, '\n', (size_t)(end - p));
    return e == NULL ? end : e;
}

bool tokenizer_is_ranks(const struct buf *file)
{
    const char *p = buf_str(file), *end = line_end(p, p + file->len);
    const char *gap = memchr(p, ' ', (size_t)(end - p));
    if (gap == NULL || gap == p || gap + 1 == end)
        return false;
    for (const char *c = gap + 1; c < end; c++)
        if ((*c < '0' || *c > '9') && !(*c == '\r' && c + 1 == end))
            return false;
    return true;
}

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Returns the number of bytes; -1: it is not base64, or has too many. */
static int from_base64(const char *p, size_t n, char *ret)
{
    uint32_t bits = 0;
    int have = 0, bytes = 0;
    if (n == 0 || n % 4 != 0 || n / 4 * 3 > TOKEN_MAX)
        return -1;
    n -= p[n - 1] == '=';
    n -= p[n - 1] == '=';
    for (size_t i = 0; i < n; i++) {
        const int d = digit_of(p[i]);
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
        have += 6;
        if (have >= 8) {
            have -= 8;
            ret[bytes++] = (char)(bits >> have & 0xff);
        }
    }
    return bytes;
}

/* Returns -1 for what is no number, or one that no file has. */
static int32_t rank_of(const char *p, const char *end)
{
    int32_t n = 0;
    if (p == end)
        return -1;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9' || n > BPE_IDS_MAX)
            return -1;
        n = 10 * n + (*p - '0');
    }
    return n;
}

static int read_line(struct bpe_vocab *v, const char *p, const char *end,
                     struct error *err)
{
    char token[TOKEN_MAX];
    const char *gap = memchr(p, ' ', (size_t)(end - p));
    const int n = gap == NULL ? -1 : from_base64(p, (size_t)(gap - p), token);
    const int32_t rank = n < 1 ? -1 : rank_of(gap + 1, end);
    if (rank < 0)
        return error_set(err, ERR_INVAL,
                         "not a token in base64, a space and its rank");
    return bpe_vocab_add(v, rank, token, (size_t)n, err);
}

static int32_t count_lines(const struct buf *file)
{
    const char *p = buf_str(file), *end = p + file->len;
    int32_t n = 0;
    for (; p < end && n <= BPE_IDS_MAX; n++)
        p = line_end(p, end) + 1;
    return n;
}

static int read_lines(struct bpe_vocab *v, const struct buf *file,
                      struct error *err)
{
    const char *p = buf_str(file), *end = p + file->len;
    for (int32_t line = 1; p < end; line++) {
        const char *e = line_end(p, end);
        const char *stop = e > p && e[-1] == '\r' ? e - 1 : e;
        if (read_line(v, p, stop, err) < 0)
            return error_wrap(err, "line %d", line);
        p = e + 1;
    }
    for (int i = 0; i < 256; i++)
        if (v->byte[i] < 0)
            return error_set(err, ERR_INVAL,
                             "the list of ranks has no token for byte 0x%02x",
                             (unsigned)i);
    return 0;
}

int tokenizer_ranks_read(const struct buf *file, struct bpe_parts *ret,
                         struct error *err)
{
    struct bpe_parts p = {.whole = true};
    const int32_t n = count_lines(file);
    if (n < 1 || n > BPE_IDS_MAX - SPECIALS)
        return error_set(err, ERR_INVAL, "%d ranks, allowed are 1 to %d", n,
                         BPE_IDS_MAX - SPECIALS);
    if (bpe_parts_add_pattern(&p, pretokenize_llama3, err) < 0 ||
        bpe_vocab_init(&p.vocab, n, err) < 0 ||
        read_lines(&p.vocab, file, err) < 0 ||
        bpe_vocab_merge_all(&p.vocab, err) < 0) {
        bpe_parts_clear(&p);
        return -1;
    }
    *ret = p;
    return 0;
}

/* src  Meta, llama-models, models/llama3/tokenizer.py: 256 tokens;
 *      those without a name are reserved, counted on from the first two */
int tokenizer_ranks_special(struct bpe_parts *p, struct error *err)
{
    static const char *const names[] = {
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>",
        "<|finetune_right_pad_id|>",
        "<|step_id|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|python_tag|>",
        "<|image|>",
    };
    enum { NAMED = sizeof(names) / sizeof(names[0]) };
    char reserved[40];
    for (int i = 0; i < SPECIALS; i++) {
        (void)snprintf(reserved, sizeof(reserved),
                       "<|reserved_special_token_%d|>", i - NAMED + 2);
        if (bpe_parts_add_special(p, i < NAMED ? names[i] : reserved,
                                  p->vocab.size + i, false, err) < 0)
            return -1;
    }
    return bpe_parts_sort_special(p, err);
}
