/* pretokenize.c - see pretokenize.h; PCRE2 does the work.
 *
 * The expression becomes machine code where the system allows it. Where it
 * does not, or where a text needs more stack than that code has, PCRE2
 * interprets it: slower, with the same result. */
#include "worker/data/tokenizer/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"

/* src  Meta, llama-models, models/llama3/tokenizer.py */
const char pretokenize_llama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char pretokenize_gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

/* Unicode's White_Space, which is \s to the others. PCRE2's has U+180E more. */
#define SPACES                                                     \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\" \
    "x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

struct pretokenizer {
    pcre2_code *code;
    bool jit;
};

/* ---- the expression ----------------------------------------------------- */

/* Escapes that mean the same in PCRE2, Oniguruma and Rust's regex. \w and \h,
 * for example, do not. */
static bool is_common(char c)
{
    return strchr("pPdDnrtfx^$\\.*+?()[]{}|-/'\"#&~ ", c) != NULL;
}

static int add_escape(char c, bool in_class, struct buf *ret, struct error *err)
{
    if (c == 's')
        return buf_addstr(ret, in_class ? SPACES : "[" SPACES "]", err);
    if (c == 'S' && !in_class)
        return buf_addstr(ret, "[^" SPACES "]", err);
    if (c == '\0')
        return error_set(err, ERR_INVAL, "the expression ends in a backslash");
    if (is_common(c))
        return buf_addf(ret, err, "\\%c", c);
    return error_set(err, ERR_INVAL,
                     "the expression has \\%c%s, which engines read in "
                     "different ways; \\s, \\p{L} and the like are read",
                     c, in_class ? " in brackets" : "");
}

/* A class within a class and && are for Oniguruma sets, for PCRE2 characters;
 * so is a bracket that would close a class at once. */
static bool is_set(const char *p, bool in_class)
{
    if (in_class)
        return p[0] == '[' || (p[0] == '&' && p[1] == '&');
    return p[0] == '[' && (p[1] == ']' || (p[1] == '^' && p[2] == ']'));
}

/* Copies the expression with \s spelled out. */
static int common_form(const char *p, struct buf *ret, struct error *err)
{
    bool in_class = false;
    for (; *p != '\0'; p++) {
        if (is_set(p, in_class))
            return error_set(err, ERR_INVAL,
                             "the expression has brackets that engines read "
                             "in different ways");
        if (*p == '\\') {
            if (add_escape(*++p, in_class, ret, err) < 0)
                return -1;
            continue;
        }
        if (buf_add(ret, p, 1, err) < 0)
            return -1;
        if (*p == '[' || *p == ']')
            in_class = *p == '[';
    }
    return 0;
}

static int compile(struct pretokenizer *p, const char *pattern,
                   struct error *err)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
    struct buf form = BUF_INIT;
    int code;
    PCRE2_SIZE at;
    if (common_form(pattern, &form, err) < 0) {
        buf_clear(&form);
        return -1;
    }
    p->code = pcre2_compile((PCRE2_SPTR)buf_str(&form), form.len, options,
                            &code, &at, NULL);
    buf_clear(&form);
    if (p->code != NULL)
        return 0;
    PCRE2_UCHAR why[100] = "";
    (void)pcre2_get_error_message(code, why, sizeof(why));
    return error_set(err, ERR_INVAL, "regular expression: %s",
                     (const char *)why);
}

int pretokenizer_open_slow(const char *pattern, struct pretokenizer **ret,
                           struct error *err)
{
    struct pretokenizer *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return error_set(err, ERR_NOMEM, "a regular expression");
    if (compile(p, pattern, err) < 0) {
        free(p);
        return -1;
    }
    *ret = p;
    return 0;
}

int pretokenizer_open(const char *pattern, struct pretokenizer **ret,
                      struct error *err)
{
    if (pretokenizer_open_slow(pattern, ret, err) < 0)
        return -1;
    (*ret)->jit = pcre2_jit_compile((*ret)->code, PCRE2_JIT_COMPLETE) == 0;
    return 0;
}

void pretokenizer_close(struct pretokenizer *p)
{
    if (p == NULL)
        return;
    pcre2_code_free(p->code);
    free(p);
}

/* ---- pieces ------------------------------------------------------------- */

static int match(const struct pretokenizer *p, const char *text, size_t len,
                 size_t at, pcre2_match_data *m)
{
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (p->jit)
        rc = pcre2_jit_match(p->code, (PCRE2_SPTR)text, len, at, PCRE2_NOTEMPTY,
                             m, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, (PCRE2_SPTR)text, len, at,
                         PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m,
                         NULL);
    return rc;
}

static int failed(int rc, struct error *err)
{
    PCRE2_UCHAR why[100] = "";
    (void)pcre2_get_error_message(rc, why, sizeof(why));
    return error_set(err, rc == PCRE2_ERROR_NOMEMORY ? ERR_NOMEM : ERR_INVAL,
                     "the tokenizer's regular expression: %s",
                     (const char *)why);
}

/* Begin and end of the next match; both are len if none follows. */
static int find(const struct pretokenizer *p, const char *text, size_t len,
                size_t at, pcre2_match_data *m, size_t ret[2],
                struct error *err)
{
    const int rc = match(p, text, len, at, m);
    if (rc == PCRE2_ERROR_NOMATCH) {
        ret[0] = ret[1] = len;
        return 0;
    }
    if (rc < 0)
        return failed(rc, err);
    const PCRE2_SIZE *o = pcre2_get_ovector_pointer(m);
    if (o[0] < at || o[1] <= o[0] || o[1] > len)
        return error_set(err, ERR_INVAL,
                         "the tokenizer's regular expression goes back");
    ret[0] = o[0];
    ret[1] = o[1];
    return 0;
}

int pretokenize(const struct pretokenizer *p, const char *text, size_t len,
                int (*use)(void *arg, const char *piece, size_t n,
                           struct error *err),
                void *arg, struct error *err)
{
    int rc = 0;
    size_t at = 0, found[2];
    pcre2_match_data *m = pcre2_match_data_create(1, NULL);
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "a regular expression");
    while (rc == 0 && at < len) {
        rc = find(p, text, len, at, m, found, err);
        if (rc < 0)
            break;
        if (found[0] > at)
            rc = use(arg, text + at, found[0] - at, err);
        if (rc == 0 && found[1] > found[0])
            rc = use(arg, text + found[0], found[1] - found[0], err);
        at = found[1];
    }
    pcre2_match_data_free(m);
    return rc;
}
