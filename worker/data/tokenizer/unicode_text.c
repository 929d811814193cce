/* unicode_text.c - see unicode_text.h; utf8proc has the tables. */
#include "worker/data/tokenizer/unicode_text.h"

#include <assert.h>
#include <string.h>
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

/* ---- form C ---------------------------------------------------------------
 *
 * Characters are decomposed, marks behind one another are ordered by their
 * classes, and what has a composed form is composed. utf8proc orders by
 * exchanging neighbours, which takes the square of a run's length: that is done
 * here.
 * src  Unicode, UAX 15; The Unicode Standard, 3.11, D109: canonical ordering */

enum {
    CLASSES = 256, /* combining classes */
    DECOMPOSED = 4 /* characters that one becomes, at most */
};

static const utf8proc_option_t form_c = UTF8PROC_STABLE | UTF8PROC_COMPOSE;

static int class_of(int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* in   work  room for n */
static void sort_by_class(int32_t *c, size_t n, int32_t *work)
{
    size_t at[CLASSES + 1] = {0};
    memcpy(work, c, n * sizeof(*c));
    for (size_t i = 0; i < n; i++)
        at[class_of(work[i]) + 1]++;
    for (int k = 1; k < CLASSES; k++)
        at[k] += at[k - 1];
    for (size_t i = 0; i < n; i++)
        c[at[class_of(work[i])]++] = work[i];
}

/* Sorts each run of marks by class, those of one class as they are. */
static int order_marks(int32_t *c, size_t n, struct buf *work,
                       struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        const size_t from = i;
        bool sorted = true;
        for (int last = 0, k; i < n && (k = class_of(c[i])) > 0; i++) {
            sorted = sorted && k >= last;
            last = k;
        }
        if (sorted)
            continue;
        buf_reset(work);
        if (buf_reserve(work, (i - from) * sizeof(*c), err) < 0)
            return -1;
        sort_by_class(c + from, i - from, (int32_t *)(void *)work->data);
    }
    return 0;
}

/* Appends the characters of a text that is UTF-8, int32_t each. */
static int decompose(const char *text, size_t len, struct buf *ret,
                     struct error *err)
{
    const char *p = text, *end = text + len;
    while (p < end) {
        utf8proc_int32_t to[DECOMPOSED];
        const utf8proc_ssize_t n = utf8proc_decompose_char(
            text_next(&p, end), to, DECOMPOSED, form_c, NULL);
        assert(n > 0 && n <= DECOMPOSED);
        if (buf_add(ret, to, (size_t)n * sizeof(to[0]), err) < 0)
            return -1;
    }
    return 0;
}

static int add_composed(const char *text, size_t len, struct buf *ret,
                        struct error *err)
{
    struct buf form = BUF_INIT, work = BUF_INIT;
    int rc = decompose(text, len, &form, err);
    const size_t n = form.len / sizeof(int32_t);
    /* utf8proc ends the UTF-8, which takes its place, with a NUL. */
    if (rc == 0)
        rc = buf_reserve(&form, sizeof(int32_t), err);
    int32_t *c = (int32_t *)(void *)form.data;
    if (rc == 0)
        rc = order_marks(c, n, &work, err);
    if (rc == 0 && n > 0) {
        const utf8proc_ssize_t bytes =
            utf8proc_reencode(c, (utf8proc_ssize_t)n, form_c);
        assert(bytes > 0);
        rc = buf_add(ret, c, (size_t)bytes, err);
    }
    buf_clear(&form);
    buf_clear(&work);
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

/* ---- words ----------------------------------------------------------------
 */

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
