/* token_text.c - see token_text.h. */
#include "worker/model_tool/token_text.h"

#include <string.h>

#include "jobs/text/text.h"

void token_text_clear(struct token_text *t)
{
    buf_clear(&t->ids);
    buf_clear(&t->text);
}

/* Bytes of the character that begins so; 0: none does. */
static size_t length_of(unsigned char c)
{
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    return c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

static bool goes_on(unsigned char c)
{
    return c >= 0x80 && c <= 0xbf;
}

/* How many bytes are complete characters. A beginning that can become no
 * character is complete. Sentencepiece has U+FFFD for each byte of a character
 * that lacks others. */
static size_t complete(const char *text, size_t len)
{
    static const char unknown[] = "\xef\xbf\xbd";
    size_t tail = 0; /* bytes at the end that go on */
    for (int i = 0;
         i < 3 && len >= 3 && memcmp(text + len - 3, unknown, 3) == 0; i++)
        len -= 3;
    while (tail < len && tail < 3 &&
           goes_on((unsigned char)text[len - tail - 1]))
        tail++;
    if (tail == len)
        return len;
    const size_t has = tail + 1;
    const size_t wants = length_of((unsigned char)text[len - has]);
    return wants > has ? len - has : len;
}

static bool is_control(int32_t c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c <= 0x9f);
}

void token_text_print(FILE *to, bool is_terminal, const char *text, size_t n)
{
    static const char replaced[] = "\xef\xbf\xbd"; /* U+FFFD */
    const char *p = text, *end = text + n;
    if (!is_terminal) {
        (void)fwrite(text, 1, n, to);
        return;
    }
    while (p < end) {
        const char *at = p;
        if (is_control(text_next(&p, end)))
            (void)fputs(replaced, to);
        else
            (void)fwrite(at, 1, (size_t)(p - at), to);
    }
}

int token_text_add(struct token_text *t, int32_t id, const char **ret,
                   size_t *ret_len, struct error *err)
{
    if (buf_add(&t->ids, &id, sizeof(id), err) < 0)
        return -1;
    /* All of it: the text of a token depends on those before it. */
    buf_reset(&t->text);
    if (tokenizer_decode(t->tokenizer, (const int32_t *)(void *)t->ids.data,
                         t->ids.len / sizeof(id), &t->text, err) < 0)
        return -1;
    const size_t n = complete(buf_str(&t->text), t->text.len);
    *ret = buf_str(&t->text) + (n > t->shown ? t->shown : 0);
    *ret_len = n > t->shown ? n - t->shown : 0;
    t->shown = n > t->shown ? n : t->shown;
    return 0;
}

const char *token_text_rest(const struct token_text *t)
{
    return buf_str(&t->text) +
           (t->shown < t->text.len ? t->shown : t->text.len);
}

int token_text_is_special(const struct tokenizer *t, int32_t id, bool *ret,
                          struct error *err)
{
    /* Alone, a space may be taken for the prefix of a text. */
    const int32_t twice[] = {id, id};
    struct buf text = BUF_INIT;
    int rc = tokenizer_decode(t, twice, 2, &text, err);
    if (rc == 0)
        *ret = text.len == 0;
    buf_clear(&text);
    return rc;
}
