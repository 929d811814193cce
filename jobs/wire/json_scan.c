/* json_scan.c - scan bare JSON objects, and use jansson for the others; see
 * json_scan.h. */
#include "jobs/wire/json_scan.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

/* A real with this many characters and a two-digit exponent is within the range
 * of a double; an integer with this many digits fits 64 bits. */
enum { DEPTH_MAX = 32, REAL_LEN_MAX = 30, INT_DIGITS_MAX = 18 };
enum { EXACT_DIGITS = 15 }; /* a double represents them exactly */

/* ---- scan bare values -----------------------------------------------------
 * Each function takes the start of a value and returns its end; NULL: it is not
 * bare. */

static bool is_bare(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* in  p  after the first quote */
static const char *text_end(const char *p, bool may_escape)
{
    for (;;) {
        while (is_bare(*p))
            p++;
        if (*p == '"')
            return p + 1;
        if ((unsigned char)*p >= 0x80) {
            if (text_next(&p, p + strnlen(p, 4)) < 0)
                return NULL;
            continue;
        }
        if (!may_escape || *p != '\\' || !p[1] || !strchr("\"\\/bfnrt", p[1]))
            return NULL;
        p += 2;
    }
}

static const char *digits_end(const char *p)
{
    if (!is_digit(*p))
        return NULL;
    while (is_digit(*p))
        p++;
    return p;
}

/* With few digits: one division of two exact numbers, rounded as the library
 * rounds. */
static double short_real(const char *p, const char *end)
{
    double n = 0, scale = 1;
    bool is_negative = *p == '-', is_behind = false;
    for (p += is_negative; p < end; p++) {
        if (*p == '.') {
            is_behind = true;
            continue;
        }
        n = 10 * n + (*p - '0');
        scale *= is_behind ? 10 : 1;
    }
    return is_negative ? -(n / scale) : n / scale;
}

/* With more digits, as a time in seconds has: a sum of the integer part, exact,
 * and the fraction, whose last bit is uncertain. If that bit makes no
 * difference, the sum is rounded as the library rounds. */
static bool long_real(const char *p, const char *end, double *ret)
{
    bool is_negative = *p == '-';
    const char *first = p + is_negative;
    const char *point = memchr(first, '.', (size_t)(end - first));
    double whole = 0, n = 0, scale = 1;
    if (!point || point - first > EXACT_DIGITS ||
        end - point - 1 > EXACT_DIGITS)
        return false;
    for (p = first; p < point; p++)
        whole = 10 * whole + (*p - '0');
    for (p = point + 1; p < end; p++) {
        n = 10 * n + (*p - '0');
        scale *= 10;
    }
    double low = whole + n / scale * (1 - DBL_EPSILON);
    *ret = is_negative ? -low : low;
    return low == whole + n / scale * (1 + DBL_EPSILON);
}

static const char *take_real(const char *p, const char *end, bool has_exp,
                             struct member *ret)
{
    char *stop = NULL;
    if (end - p > REAL_LEN_MAX)
        return NULL;
    ret->kind = MEMBER_REAL;
    if (!has_exp && end - p <= EXACT_DIGITS) {
        ret->x = short_real(p, end);
        return end;
    }
    if (!has_exp && long_real(p, end, &ret->x))
        return end;
    ret->x = strtod(p, &stop);
    return stop == end ? end : NULL; /* the locale has another decimal point */
}

static void take_int(const char *p, const char *end, struct member *ret)
{
    bool is_negative = *p == '-';
    int64_t n = 0;
    for (p += is_negative; p < end; p++)
        n = 10 * n + (*p - '0');
    ret->kind = MEMBER_INT;
    ret->n = is_negative ? -n : n;
    ret->x = (double)ret->n;
}

static const char *number_end(const char *from, struct member *ret)
{
    const char *first = from + (*from == '-');
    const char *p = *first == '0' ? first + 1 : digits_end(first);
    bool has_point = p && *p == '.', has_exp;
    if (has_point)
        p = digits_end(p + 1);
    has_exp = p && (*p == 'e' || *p == 'E');
    if (has_exp) {
        const char *e = p + 1 + (p[1] == '-' || p[1] == '+');
        p = digits_end(e);
        if (p && p - e > 2)
            return NULL;
    }
    if (!p)
        return NULL;
    if (has_point || has_exp)
        return take_real(from, p, has_exp, ret);
    if (p - first > INT_DIGITS_MAX)
        return NULL;
    take_int(from, p, ret);
    return p;
}

static const char *word_end(const char *p, struct member *ret)
{
    static const struct {
        const char *word;
        size_t len;
        enum member_kind kind;
    } words[] = {{"null", 4, MEMBER_NULL},
                 {"false", 5, MEMBER_FALSE},
                 {"true", 4, MEMBER_TRUE}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(p, words[i].word, words[i].len) == 0) {
            ret->kind = words[i].kind;
            return p + words[i].len;
        }
    return NULL;
}

static const char *tree_end(const char *p, int depth);

/* depth: 0: a member's own value, whose text is kept as it is. */
static const char *value_end(const char *p, int depth, struct member *ret)
{
    const char *end;
    *ret = (struct member){.is_bare = true};
    if (*p == '"') {
        end = text_end(p + 1, depth > 0);
        ret->kind = MEMBER_TEXT;
        ret->text = p + 1;
        ret->len = end ? (size_t)(end - p) - 2 : 0;
        return end;
    }
    if (*p == '{' || *p == '[') {
        end = tree_end(p, depth + 1);
        ret->kind = MEMBER_TREE;
        ret->text = p;
        ret->len = end ? (size_t)(end - p) : 0;
        return end;
    }
    return *p == '-' || is_digit(*p) ? number_end(p, ret) : word_end(p, ret);
}

/* From a key's first quote to its value. */
static const char *key_end(const char *p, bool may_escape)
{
    p = text_end(p, may_escape);
    return p && *p == ':' ? p + 1 : NULL;
}

static const char *tree_end(const char *p, int depth)
{
    struct member m;
    bool has_keys = *p == '{';
    char closes = has_keys ? '}' : ']';
    if (depth > DEPTH_MAX)
        return NULL;
    if (*++p == closes)
        return p + 1;
    for (;; p++) {
        if (has_keys && (*p != '"' || !(p = key_end(p + 1, true))))
            return NULL;
        p = value_end(p, depth, &m);
        if (p && *p == closes)
            return p + 1;
        if (!p || *p != ',')
            return NULL;
    }
}

const char *json_members_end(const char *text)
{
    return *text == '{' ? tree_end(text, 1) : NULL;
}

/* in  p  the first key's first quote */
static const char *object_end(const char *p, struct members *m)
{
    for (m->n = 0; m->n < MEMBERS_MAX; p++) {
        const char *value = *p == '"' ? key_end(p + 1, false) : NULL;
        if (!value)
            return NULL;
        m->at[m->n].key = p + 1;
        m->at[m->n].len = (size_t)(value - p) - 3; /* two quotes, a colon */
        p = value_end(value, 0, &m->at[m->n].value);
        m->n++;
        if (!p || *p != ',')
            return p && *p == '}' ? p + 1 : NULL;
    }
    return NULL;
}

static bool read_bare(const char *p, struct members *ret)
{
    const char *end = object_end(p, ret);
    ret->o = NULL;
    return end && *end == '\0';
}

/* ---- entry points ---------------------------------------------------------
 */

/* Parses by the library; -1: not an object, or memory is short. */
static int take_tree(json_t *o, struct members *ret)
{
    ret->n = 0;
    ret->o = o;
    if (json_is_object(o))
        return 0;
    json_members_clear(ret);
    return -1;
}

int json_members_read(const char *text, struct members *ret)
{
    json_error_t bad;
    if (text[0] == '{' && read_bare(text + 1, ret))
        return 0;
    return take_tree(json_loads(text, 0, &bad), ret);
}

/* The text with a brace prepended. */
struct rest {
    const char *text;
    bool has_brace;
};

static size_t next_of_rest(void *buffer, size_t n, void *arg)
{
    struct rest *r = arg;
    if (!r->has_brace) {
        r->has_brace = true;
        memcpy(buffer, "{", 1);
        return 1;
    }
    n = strnlen(r->text, n);
    memcpy(buffer, r->text, n);
    r->text += n;
    return n;
}

int json_members_read_rest(const char *text, struct members *ret)
{
    struct rest rest = {.text = text + 1};
    json_error_t bad;
    ret->n = 0;
    ret->o = NULL;
    if (text[0] != ',')
        return -1;
    if (read_bare(text + 1, ret))
        return 0;
    return take_tree(json_load_callback(next_of_rest, &rest, 0, &bad), ret);
}

int json_members_read_next(const char *text, const char *end,
                           struct members *ret, const char **ret_end)
{
    json_error_t bad;
    const char *at = *text == '{' ? object_end(text + 1, ret) : NULL;
    if (at) {
        ret->o = NULL;
        *ret_end = at;
        return 0;
    }
    if (take_tree(json_loadb(text, (size_t)(end - text), JSON_DISABLE_EOF_CHECK,
                             &bad),
                  ret) < 0)
        return -1;
    *ret_end = text + bad.position;
    return 0;
}

void json_members_of_json(json_t *o, struct members *ret)
{
    ret->n = 0;
    ret->o = o;
}

int json_members_of(const struct member *m, struct members *ret)
{
    if (m->kind != MEMBER_TREE || (!m->is_bare && !json_is_object(m->tree)) ||
        (m->is_bare && m->text[0] != '{'))
        return -1;
    ret->n = 0;
    ret->o = m->is_bare ? NULL : json_incref(m->tree);
    if (!m->is_bare || (m->len > 2 && object_end(m->text + 1, ret)))
        return 0;
    json_error_t bad; /* empty, or with escapes */
    ret->n = 0;
    ret->o = json_loadb(m->text, m->len, 0, &bad);
    return ret->o ? 0 : -1;
}

void json_members_clear(struct members *m)
{
    json_decref(m->o);
    m->o = NULL;
    m->n = 0;
}

static struct member of_tree(json_t *v)
{
    struct member m = {.kind = MEMBER_NONE};
    if (!v)
        return m;
    switch (json_typeof(v)) {
    case JSON_NULL:
        m.kind = MEMBER_NULL;
        break;
    case JSON_FALSE:
        m.kind = MEMBER_FALSE;
        break;
    case JSON_TRUE:
        m.kind = MEMBER_TRUE;
        break;
    case JSON_INTEGER:
        m.kind = MEMBER_INT;
        m.n = json_integer_value(v);
        m.x = json_number_value(v);
        break;
    case JSON_REAL:
        m.kind = MEMBER_REAL;
        m.x = json_real_value(v);
        break;
    case JSON_STRING:
        m.kind = MEMBER_TEXT;
        m.text = json_string_value(v);
        m.len = json_string_length(v);
        break;
    case JSON_OBJECT:
    case JSON_ARRAY:
        m.kind = MEMBER_TREE;
        m.tree = v;
        break;
    }
    return m;
}

struct member json_members_find(const struct members *m, const char *name,
                                size_t len)
{
    if (m->o)
        return of_tree(json_object_get(m->o, name));
    for (size_t i = m->n; i-- > 0;)
        if (m->at[i].len == len && (len == 0 || m->at[i].key[0] == *name) &&
            memcmp(m->at[i].key, name, len) == 0)
            return m->at[i].value;
    return of_tree(NULL);
}

bool json_members_has(const struct members *m, const char *name,
                      enum member_kind kind)
{
    return members_get(m, name).kind == kind;
}

char *json_member_dup(const struct member *m)
{
    return m->kind == MEMBER_TEXT ? strndup(m->text, m->len) : NULL;
}

json_t *json_member_tree(const struct member *m)
{
    json_error_t bad;
    if (m->kind != MEMBER_TREE)
        return NULL;
    return m->is_bare ? json_loadb(m->text, m->len, 0, &bad)
                      : json_incref(m->tree);
}
