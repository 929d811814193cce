/* data_unicode.c - form C as utf8proc alone has it, and of runs of marks that
 * are too long for its order. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tests/tap.h"
#include "worker/data/tokenizer/unicode_text.h"

static void must(int rc, const struct error *err)
{
    if (rc == 0)
        return;
    tap_diag("%s", err->msg);
    exit(1);
}

static void add(struct buf *b, int32_t c)
{
    struct error err = ERROR_INIT;
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(c, bytes);
    must(buf_add(b, bytes, (size_t)n, &err), &err);
}

static bool is_same(const struct buf *b, const char *text, size_t len)
{
    return b->len == len && memcmp(buf_str(b), text, len) == 0;
}

/* ---- runs that utf8proc orders itself -------------------------------------
 */

/* Of several classes, with those that become two, of class 0 as well. */
static const int32_t marks[] = {0x300, 0x301, 0x316,  0x323,   0x327,  0x334,
                                0x344, 0x345, 0x5b0,  0xf71,   0xf72,  0xf73,
                                0xf75, 0xf81, 0x3099, 0x1d165, 0x1d16d};
static const int32_t starts[] = {'a',    0xe9,   0x1ea5, 0xf40,
                                 0xac00, 0x304b, 0x1d158};

static uint32_t next(uint32_t *state, size_t n)
{
    *state = *state * 1664525U + 1013904223U;
    return (*state >> 8) % (uint32_t)n;
}

static void test_same(void)
{
    enum { TEXTS = 500, MARKS = 40 };
    uint32_t state = 1;
    int wrong = 0;
    for (int i = 0; i < TEXTS; i++) {
        struct error err = ERROR_INIT;
        struct buf text = BUF_INIT, form = BUF_INIT;
        for (int k = 0; k < 2 * MARKS; k++) {
            if (k % MARKS == 1)
                add(&text,
                    starts[next(&state, sizeof(starts) / sizeof(starts[0]))]);
            add(&text, marks[next(&state, sizeof(marks) / sizeof(marks[0]))]);
        }
        char *want = (char *)utf8proc_NFC((const void *)buf_str(&text));
        must(unicode_compose(text.data, text.len, &form, &err), &err);
        wrong += want == NULL || !is_same(&form, want, strlen(want));
        free(want);
        buf_clear(&text);
        buf_clear(&form);
    }
    ok(wrong == 0, "%d of %d runs of marks differ", wrong, TEXTS);
}

/* All characters of the planes that have decompositions; each between two
 * others. */
static void test_all(void)
{
    int wrong = 0;
    for (int32_t c = 1; c < 0x30000; c = c == 0xd7ff ? 0xe000 : c + 1) {
        struct error err = ERROR_INIT;
        struct buf text = BUF_INIT, form = BUF_INIT;
        add(&text, 'e');
        add(&text, c);
        add(&text, 0x301);
        char *want = (char *)utf8proc_NFC((const void *)buf_str(&text));
        must(unicode_compose(text.data, text.len, &form, &err), &err);
        wrong += want == NULL || !is_same(&form, want, strlen(want));
        free(want);
        buf_clear(&text);
        buf_clear(&form);
    }
    ok(wrong == 0, "%d characters differ", wrong);
}

/* ---- and longer ones ------------------------------------------------------
 */

/* With the square of this length it would not end today. */
static void test_long(void)
{
    enum { MARKS = 400000 };
    struct error err = ERROR_INIT;
    struct buf text = BUF_INIT, want = BUF_INIT, form = BUF_INIT;
    add(&text, 'a');
    add(&want, 0xe1);
    for (int i = 0; i < MARKS; i++)
        add(&text, 0x301);
    for (int i = 0; i < MARKS; i++) {
        add(&text, 0x316);
        add(&want, 0x316);
    }
    for (int i = 1; i < MARKS; i++)
        add(&want, 0x301);
    must(unicode_compose(text.data, text.len, &form, &err), &err);
    ok(is_same(&form, want.data, want.len), "two classes");
    buf_reset(&text);
    buf_reset(&form);
    for (int i = 0; i < MARKS; i++)
        add(&text, 0xf73); /* of class 0, and two marks */
    must(unicode_compose(text.data, text.len, &form, &err), &err);
    buf_reset(&want);
    for (int i = 0; i < 2 * MARKS; i++)
        add(&want, i < MARKS ? 0xf71 : 0xf72);
    ok(is_same(&form, want.data, want.len), "marks that become two");
    buf_clear(&text);
    buf_clear(&want);
    buf_clear(&form);
}

int main(void)
{
    test_same();
    test_all();
    test_long();
    return tap_done();
}
