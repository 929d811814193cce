/* text_cut.c - see text_cut.h.
 * src  Meta, llama-models, models/llama3/tokenizer.py: Tokenizer.encode() and
 *      _split_whitespaces_or_nonwhitespaces() */
#include "worker/data/tokenizer/text_cut.h"

#include "jobs/text/text.h"

/* Python's str.isspace(). */
static bool is_space(int32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The code point at *p, which is before the end; -1: no UTF-8. */
static int32_t next(const char **p, const char *end)
{
    if ((unsigned char)**p < 0x80)
        return (unsigned char)*(*p)++;
    return text_next(p, end);
}

/* Bytes that are no UTF-8, up to the first that are. */
static void cut_bytes(struct text_cut *c, struct text_slice *ret)
{
    const char *from = c->at;
    while (c->at < c->end && c->at - from < TEXT_CUT_RUN) {
        const char *p = c->at;
        if (next(&p, c->end) >= 0)
            break;
        c->at++;
    }
    c->run = 0;
    *ret = (struct text_slice){from, (size_t)(c->at - from), false};
}

/* Counts a character; false: a cut is before it. */
static bool count(struct text_cut *c, bool space)
{
    if (c->chars == TEXT_CUT_CHARS) {
        c->chars = c->run = 0;
        return false;
    }
    c->run = space == c->space ? c->run + 1 : 1;
    c->space = space;
    if (c->run > TEXT_CUT_RUN) {
        c->run = 0;
        return false;
    }
    c->chars++;
    return true;
}

bool text_cut_next(struct text_cut *c, struct text_slice *ret)
{
    const char *from = c->at;
    if (from == c->end)
        return false;
    while (c->at < c->end) {
        const char *p = c->at;
        const int32_t cp = next(&p, c->end);
        if (cp < 0 || (!count(c, is_space(cp)) && c->at > from))
            break;
        c->at = p;
    }
    if (c->at == from)
        cut_bytes(c, ret);
    else
        *ret = (struct text_slice){from, (size_t)(c->at - from), true};
    return true;
}
