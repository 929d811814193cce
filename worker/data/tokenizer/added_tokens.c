/* added_tokens.c - see added_tokens.h.
 *
 * The rules are those of HF tokenizers, added_vocabulary.rs: the leftmost
 * longest match; what is not taken (a special token, a part of a word) is
 * skipped as a whole. */
#include "worker/data/tokenizer/added_tokens.h"

#include <stdlib.h>

#include "jobs/text/text.h"
#include "worker/data/tokenizer/unicode_text.h"

static struct added_token *tokens(const struct added_tokens *a, size_t *ret_n)
{
    *ret_n = a->list.len / sizeof(struct added_token);
    return (void *)a->list.data;
}

void added_tokens_clear(struct added_tokens *a)
{
    size_t n;
    struct added_token *t = tokens(a, &n);
    for (size_t i = 0; i < n; i++)
        free(t[i].text);
    buf_clear(&a->list);
    *a = (struct added_tokens){.any = false};
}

int added_tokens_put(struct added_tokens *a, struct added_token t,
                     const char *text, size_t len, struct error *err)
{
    if (len == 0 || len > ADDED_TOKEN_BYTES)
        return error_set(err, ERR_INVAL, "%zu bytes, allowed are 1 to %d", len,
                         ADDED_TOKEN_BYTES);
    t.text = strndup(text, len);
    t.len = (uint32_t)len;
    if (t.text == NULL)
        return error_set(err, ERR_NOMEM, "added tokens");
    if (buf_add(&a->list, &t, sizeof(t), err) < 0) {
        free(t.text);
        return -1;
    }
    a->any = a->any || !t.special;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

void added_tokens_sort(struct added_tokens *a)
{
    size_t n;
    struct added_token *t = tokens(a, &n);
    uint32_t i = 0;
    if (n > 0)
        qsort(t, n, sizeof(*t), compare);
    for (int b = 0; b < 256; b++) {
        a->of[b] = i;
        while (i < n && (unsigned char)t[i].text[0] == b)
            i++;
    }
    a->of[256] = i;
}

/* ---- white space and words ------------------------------------------------
 */

static bool is_space(int32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The character that begins at `at`, -1 at the end or of no UTF-8; *ret: where
 * it ends. */
static int32_t char_at(const char *text, size_t len, size_t at, size_t *ret)
{
    const char *p = text + at;
    const int32_t c = at < len ? text_next(&p, text + len) : -1;
    *ret = (size_t)(p - text);
    return c;
}

/* The character that ends at `at`; *ret: where it begins. */
static int32_t char_before(const char *text, size_t at, size_t *ret)
{
    size_t from = at, end;
    while (from > 0 && at - from < 4) {
        from--;
        if (((unsigned char)text[from] & 0xc0) != 0x80)
            break;
    }
    const int32_t c = char_at(text, at, from, &end);
    *ret = from;
    return from < at && end == at ? c : -1;
}

/* ---- finding --------------------------------------------------------------
 */

/* The first of tokens [low, high), which are alike up to byte `depth`, whose
 * byte there is c or higher. */
static uint32_t narrow(const struct added_token *t, uint32_t low, uint32_t high,
                       uint32_t depth, int c)
{
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int has =
            t[middle].len > depth ? (unsigned char)t[middle].text[depth] : -1;
        if (has < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that the text begins with; NULL: none. */
static const struct added_token *longest(const struct added_tokens *a,
                                         const char *text, size_t len)
{
    size_t n;
    const struct added_token *t = tokens(a, &n), *best = NULL;
    const unsigned char first = (unsigned char)text[0];
    uint32_t low = a->of[first], high = a->of[first + 1];
    for (uint32_t depth = 1; low < high; depth++) {
        if (t[low].len == depth)
            best = &t[low];
        if (depth == len)
            break;
        const int c = (unsigned char)text[depth];
        low = narrow(t, low, high, depth, c);
        high = narrow(t, low, high, depth, c + 1);
    }
    return best;
}

static bool is_in_word(const char *text, size_t len, size_t from, size_t to)
{
    size_t unused;
    const int32_t before = char_before(text, from, &unused);
    const int32_t after = char_at(text, len, to, &unused);
    return (before >= 0 && unicode_is_word(before)) ||
           (after >= 0 && unicode_is_word(after));
}

/* With the white space around it that is its own. */
static void widen(const struct added_token *t, const char *text, size_t len,
                  struct added_find *io)
{
    size_t next;
    while (t->lstrip && io->from > io->at &&
           is_space(char_before(text, io->from, &next)))
        io->from = next;
    while (t->rstrip && is_space(char_at(text, len, io->to, &next)))
        io->to = next;
}

bool added_tokens_next(const struct added_tokens *a, const char *text,
                       size_t len, struct added_find *io)
{
    io->at = io->to;
    while (a->any && io->look < len) {
        const struct added_token *t =
            longest(a, text + io->look, len - io->look);
        const size_t from = io->look;
        io->look += t == NULL ? 1 : t->len;
        if (t == NULL || t->special || from < io->at ||
            (t->single_word && is_in_word(text, len, from, from + t->len)))
            continue;
        io->from = from;
        io->to = from + t->len;
        io->id = t->id;
        widen(t, text, len, io);
        return true;
    }
    return false;
}
