/* metric_line.c - see metric_line.h.
 *
 * A line is a flat JSON object of numbers, with one text in the rows of a
 * profiler, so it has its own parser: the daemon decodes every iteration of
 * every rank, and a general parser would allocate for each member. It accepts
 * strict JSON, except for the words of Python, C and Go for what is no finite
 * number (NaN, Infinity, -nan, +Inf); NaN counts as null. A number that is too
 * large, as 1e999, is infinite.
 *
 * A member that is no number (true, a text, an array, an object, a name that is
 * too long) is passed over and named, so that the line's numbers are kept. */
#include "jobs/wire/metric_line.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/text/text.h"

struct cursor {
    const char *p, *end;
    struct error *err;
};

static int refuse(const struct cursor *c, const char *start, const char *what)
{
    return error_set(c->err, ERR_INVAL, "metrics: %s at byte %zu", what,
                     (size_t)(c->p - start) + 1);
}

static void skip_space(struct cursor *c)
{
    while (c->p < c->end &&
           (*c->p == ' ' || *c->p == '\t' || *c->p == '\r' || *c->p == '\n'))
        c->p++;
}

static bool take(struct cursor *c, char want)
{
    skip_space(c);
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

static bool take_word(struct cursor *c, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(c->end - c->p) < len || memcmp(c->p, word, len) != 0)
        return false;
    c->p += len;
    return true;
}

static int hex4(struct cursor *c, int32_t *ret)
{
    int32_t v = 0;
    if (c->end - c->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char low = (char)(*c->p >= 'A' && *c->p <= 'F' ? *c->p | 0x20 : *c->p);
        const char *d = low ? strchr(digits, low) : NULL;
        if (!d)
            return -1;
        v = v << 4 | (int32_t)(d - digits);
        c->p++;
    }
    *ret = v;
    return 0;
}

/* The code point of an escape; c is after the backslash. -1: invalid. */
static int32_t read_escape(struct cursor *c)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (c->p == c->end)
        return -1;
    char e = *c->p++;
    int32_t hi = 0, lo = 0;
    if (e != 'u') {
        const char *d = e ? strchr(from, e) : NULL;
        return d ? to[d - from] : -1;
    }
    if (hex4(c, &hi) < 0 || (hi >= 0xdc00 && hi <= 0xdfff))
        return -1;
    if (hi < 0xd800 || hi > 0xdbff)
        return hi;
    if (!take_word(c, "\\u") || hex4(c, &lo) < 0 || lo < 0xdc00 || lo > 0xdfff)
        return -1;
    return 0x10000 + ((hi - 0xd800) << 10 | (lo - 0xdc00));
}

static size_t put_utf8(char out[4], int32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t more = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    static const unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[more] | (unsigned)cp >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        out[i] = (char)(0x80 | ((unsigned)cp >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* A key: UTF-8 without control characters, at most 64 bytes. */
static int read_name(struct cursor *c, char ret[METRIC_NAME_CAP])
{
    size_t len = 0;
    if (!take(c, '"'))
        return -1;
    while (c->p < c->end && *c->p != '"') {
        char one[4];
        const char *from = c->p;
        int32_t cp = text_next(&c->p, c->end);
        size_t n = (size_t)(c->p - from);
        if (cp == '\\') {
            cp = read_escape(c);
            n = cp < 0 ? 0 : put_utf8(one, cp);
        } else
            memcpy(one, from, n);
        if (cp < 0x20 || text_is_control(cp) || len + n >= METRIC_NAME_CAP)
            return -1;
        memcpy(ret + len, one, n);
        len += n;
    }
    ret[len] = '\0';
    return len > 0 && take(c, '"') ? 0 : -1;
}

static bool is_digit(const struct cursor *c)
{
    return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

static bool skip_digits(struct cursor *c)
{
    bool any = is_digit(c);
    while (is_digit(c))
        c->p++;
    return any;
}

/* JSON's grammar of numbers; strtod() alone accepts much more. */
static int read_number(struct cursor *c, double *ret)
{
    const char *from = c->p;
    char text[64]; /* 17 digits suffice; longer than 63 is refused */
    (void)take_word(c, "-");
    bool zero = c->p < c->end && *c->p == '0';
    if (!skip_digits(c) || (zero && c->p - from > 1 + (*from == '-')))
        return -1;
    if (take_word(c, ".") && !skip_digits(c))
        return -1;
    if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
        c->p++;
        if (!take_word(c, "-"))
            (void)take_word(c, "+");
        if (!skip_digits(c))
            return -1;
    }
    size_t len = (size_t)(c->p - from);
    if (len >= sizeof(text))
        return -1;
    memcpy(text, from, len);
    text[len] = '\0';
    *ret = strtod(text, NULL);
    return 0;
}

/* Of any case, with or without a sign: C prints "-nan", Go "+Inf". */
static bool take_not_finite(struct cursor *c, double *ret)
{
    static const char *const words[] = {"infinity", "inf", "nan"};
    const bool is_below = c->p < c->end && *c->p == '-';
    const char *p = c->p + (c->p < c->end && (*c->p == '-' || *c->p == '+'));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(c->end - p) < len || strncasecmp(p, words[i], len) != 0)
            continue;
        c->p = p + len;
        *ret = words[i][0] == 'n' ? (double)NAN
               : is_below         ? -(double)INFINITY
                                  : (double)INFINITY;
        return true;
    }
    return false;
}

static int read_value(struct cursor *c, double *ret)
{
    skip_space(c);
    if (take_word(c, "null")) {
        *ret = NAN;
        return 0;
    }
    return take_not_finite(c, ret) ? 0 : read_number(c, ret);
}

/* ---- members that are no metrics ------------------------------------------
 */

/* Past the closing quote, whatever stands in it. */
static bool skip_text(struct cursor *c)
{
    if (!take(c, '"'))
        return false;
    while (c->p < c->end && *c->p != '"')
        c->p += *c->p == '\\' && c->end - c->p > 1 ? 2 : 1;
    return take(c, '"');
}

static const char *skip_odd(struct cursor *c, int depth);

static bool skip_any(struct cursor *c, int depth)
{
    double number;
    const char *from = c->p;
    if (read_value(c, &number) == 0)
        return true;
    c->p = from;
    return skip_odd(c, depth) != NULL;
}

/* The rest of an array or an object. */
static bool skip_items(struct cursor *c, char end, int depth)
{
    if (take(c, end))
        return true;
    do {
        if (end == '}' && (!skip_text(c) || !take(c, ':')))
            return false;
        if (!skip_any(c, depth))
            return false;
    } while (take(c, ','));
    return take(c, end);
}

/* Passes over a value that is no number, and says what it is; NULL: it is no
 * value of JSON. */
static const char *skip_odd(struct cursor *c, int depth)
{
    enum { DEPTH_MAX = 16 };
    skip_space(c);
    if (depth > DEPTH_MAX || c->p == c->end)
        return NULL;
    if (take_word(c, "true") || take_word(c, "false"))
        return "is true or false, not a number";
    if (*c->p == '"')
        return skip_text(c) ? "is a text, not a number" : NULL;
    if (take(c, '['))
        return skip_items(c, ']', depth + 1) ? "is an array, not a number"
                                             : NULL;
    if (take(c, '{'))
        return skip_items(c, '}', depth + 1) ? "is an object, not a number"
                                             : NULL;
    return NULL;
}

/* Whether it is the text of "profile"; a line has no other text. */
static bool is_profile(struct cursor *c, const char *name)
{
    skip_space(c);
    return c->p < c->end && *c->p == '"' && strcmp(name, "profile") == 0;
}

/* What is ignored has a name that the log can show, or none. */
static int read_member_name(struct cursor *c, char ret[METRIC_NAME_CAP],
                            const char **ret_odd)
{
    const char *from = c->p;
    *ret_odd = NULL;
    if (read_name(c, ret) == 0)
        return 0;
    c->p = from;
    ret[0] = '\0';
    *ret_odd = "is no name of 1 to 64 bytes of UTF-8";
    return skip_text(c) ? 0 : -1;
}

/* A member with its name; *ret_odd: it is no metric, and why. */
static int read_member(struct cursor *c, const char *start,
                       struct metric_member *ret, char *ret_profile,
                       bool *ret_is_profile, const char **ret_odd)
{
    *ret_is_profile = false;
    if (read_member_name(c, ret->name, ret_odd) < 0)
        return refuse(c, start, "expected a name");
    if (!take(c, ':'))
        return refuse(c, start, "expected ':'");
    if (*ret_odd)
        return skip_any(c, 0) ? 0 : refuse(c, start, "expected a value");
    if (is_profile(c, ret->name)) {
        *ret_is_profile = true;
        return read_name(c, ret_profile) == 0
                   ? 0
                   : refuse(c, start, "expected a text of at most 64 bytes");
    }
    const char *from = c->p;
    if (read_value(c, &ret->value) == 0)
        return 0;
    c->p = from;
    *ret_odd = skip_odd(c, 0);
    if (!*ret_odd || metric_is_line_key(ret->name)) {
        c->p = from;
        return refuse(c, start, "expected a number or null");
    }
    return 0;
}

bool metric_is_line_key(const char *name)
{
    return strcmp(name, "iteration") == 0 || strcmp(name, "rank") == 0 ||
           strcmp(name, "epoch") == 0;
}

void metric_ignore(struct metric_ignored *io, const char *name, const char *why)
{
    if (io->n++ >= METRIC_IGNORED_CAP)
        return;
    struct metric_ignored_key *k = &io->keys[io->n - 1];
    (void)snprintf(k->name, sizeof(k->name), "%s", name);
    k->why = why;
}

static int read_members(struct cursor *c, struct metric_member *members,
                        size_t *ret_n, char *ret_profile,
                        struct metric_ignored *ignored)
{
    const char *start = c->p, *odd = NULL;
    bool is_text = false;
    size_t n = 0;
    if (!take(c, '{'))
        return refuse(c, start, "expected an object");
    if (!take(c, '}')) {
        do {
            if (n == METRIC_MEMBERS_CAP)
                return error_set(c->err, ERR_LIMIT,
                                 "metrics: more than %d values in a line",
                                 METRIC_MEMBERS_CAP);
            if (read_member(c, start, &members[n], ret_profile, &is_text,
                            &odd) < 0)
                return -1;
            if (odd)
                metric_ignore(ignored, members[n].name, odd);
            n += !odd && !is_text;
        } while (take(c, ','));
        if (!take(c, '}'))
            return refuse(c, start, "expected ',' or '}'");
    }
    skip_space(c);
    if (c->p != c->end)
        return refuse(c, start, "text behind the object");
    *ret_n = n;
    return 0;
}

int metric_members_read(const char *line, size_t len,
                        struct metric_member members[METRIC_MEMBERS_CAP],
                        size_t *ret_n, char ret_profile[METRIC_NAME_CAP],
                        struct metric_ignored *ignored, struct error *err)
{
    struct cursor c = {line, line + len, err};
    ret_profile[0] = '\0';
    return read_members(&c, members, ret_n, ret_profile, ignored);
}
