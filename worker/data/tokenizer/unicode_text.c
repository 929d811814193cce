/* unicode_text.c - see unicode_text.h; utf8proc has the tables. */
#include "worker/data/tokenizer/unicode_text.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "jobs/text/text.h"

/* The end of the UTF-8 that begins at p; p itself: none does. */
static const char *utf8_end(const char *p, const char *end)
{
    while (p < end) {
        const char *next = p;
        if (text_next(&next, end) < 0)
            break;
        p = next;
    }
    return p;
}

static int add_composed(const char *text, size_t len, struct buf *ret,
                        struct error *err)
{
    utf8proc_uint8_t *form = NULL;
    if (len == 0)
        return 0;
    const utf8proc_ssize_t n =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)len,
                     &form, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (n < 0 && n != UTF8PROC_ERROR_NOMEM) /* it is stricter than we are */
        return buf_add(ret, text, len, err);
    if (n < 0)
        return error_set(err, ERR_NOMEM, "a text in form C");
    const int rc = buf_add(ret, form, (size_t)n, err);
    free(form);
    return rc;
}

int unicode_compose(const char *text, size_t len, struct buf *ret,
                    struct error *err)
{
    const char *p = text, *end = text + len;
    while (p < end) {
        const char *stop = utf8_end(p, end);
        if (add_composed(p, (size_t)(stop - p), ret, err) < 0)
            return -1;
        p = stop;
        for (; p < end && utf8_end(p, end) == p; p++)
            if (buf_add(ret, p, 1, err) < 0)
                return -1;
    }
    return 0;
}

bool unicode_is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* letters in circles and squares are alphabetic symbols */
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) ||
               (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    }
}
