/* text_steps.c - see text_steps.h. */
#include "worker/data/tokenizer/text_steps.h"

#include "worker/data/tokenizer/unicode_text.h"

static bool is_ascii(const char *text, size_t len)
{
    unsigned char all = 0;
    for (size_t i = 0; i < len; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

/* Ends once ret has more than `most` bytes. */
static int replace(const struct text_step *s, const char *text, size_t len,
                   size_t most, struct buf *ret, struct error *err)
{
    const char *end = text + len, *found;
    const size_t n = strlen(s->from);
    while ((found = memmem(text, (size_t)(end - text), s->from, n)) != NULL) {
        if (buf_add(ret, text, (size_t)(found - text), err) < 0 ||
            buf_addstr(ret, s->to, err) < 0)
            return -1;
        text = found + n;
        if (ret->len > most)
            return 0;
    }
    return buf_add(ret, text, (size_t)(end - text), err);
}

static bool begins(const char *text, size_t len, const char *with)
{
    const size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

/* Whether the step leaves the text as it is, as far as one sees at once. */
static bool is_idle(const struct text_step *s, const char *text, size_t len,
                    enum text_place place)
{
    switch (s->kind) {
    case TEXT_NFC:
        return is_ascii(text, len);
    case TEXT_PREPEND:
        return len == 0 || place == TEXT_GOES_ON ||
               (s->first && place != TEXT_BEGINS) ||
               (s->unless_there && begins(text, len, s->to));
    default:
        return memmem(text, len, s->from, strlen(s->from)) == NULL;
    }
}

static int apply_one(const struct text_step *s, const char *text, size_t len,
                     size_t most, struct buf *ret, struct error *err)
{
    buf_reset(ret);
    switch (s->kind) {
    case TEXT_NFC:
        return unicode_compose(text, len, ret, err);
    case TEXT_PREPEND:
        return buf_addstr(ret, s->to, err) < 0 ? -1
                                               : buf_add(ret, text, len, err);
    default:
        return replace(s, text, len, most, ret, err);
    }
}

int text_steps_apply(const struct text_steps *s, const char *text, size_t len,
                     enum text_place place, struct buf work[2],
                     const char **ret, size_t *ret_len, struct error *err)
{
    const size_t given = len;
    const size_t most = TEXT_STEP_BYTES * (len + TEXT_STEPS);
    int to = 0;
    for (int i = 0; i < s->n; i++) {
        if (is_idle(&s->step[i], text, len, place))
            continue;
        if (apply_one(&s->step[i], text, len, most, &work[to], err) < 0)
            return -1;
        if (work[to].len > most)
            return error_set(err, ERR_INVAL,
                             "normalizer makes more than %zu bytes of a text "
                             "of %zu, allowed are %d times its length + %d",
                             most, given, TEXT_STEP_BYTES,
                             TEXT_STEP_BYTES * TEXT_STEPS);
        text = buf_str(&work[to]);
        len = work[to].len;
        to = 1 - to;
    }
    *ret = text;
    *ret_len = len;
    return 0;
}
