/* name_pattern.c - see name_pattern.h.
 *
 * A key without an operator is compared by hand: a file may have as many keys
 * as the model has linears, and each is compared with each linear.
 *
 * src  PEFT 0.21.2, utils/other.py, get_pattern_key() */
#include "worker/llm/files/name_pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/buf.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static int refuse(const char *key, const char *what, struct error *err)
{
    return error_set(err, ERR_INVAL,
                     "'%.80s' has %s, which this version does not read: write "
                     "it with . * + ? | ( ) [ ], \\d and \\w",
                     key, what);
}

/* The class of a letter behind a backslash, for brackets; NULL: none. */
static const char *class_of(char c)
{
    return c == 'd'   ? "0-9"
           : c == 'w' ? "A-Za-z0-9_"
           : c == 's' ? " \t\n\r\f\v"
                      : NULL;
}

/* What is behind a backslash outside of brackets. */
static int add_escaped(struct buf *b, const char *key, char c,
                       struct error *err)
{
    const char *class = class_of(c);
    if (class != NULL)
        return buf_addf(b, err, "[%s]", class);
    if (c == '\0' || isalnum((unsigned char)c))
        return refuse(key, "an escape", err);
    /* In brackets each of them but ^ is itself. */
    return c == '^' ? buf_addstr(b, "\\^", err) : buf_addf(b, err, "[%c]", c);
}

/* Brackets, from behind the first one. POSIX has no escapes in them.
 * out  *at  behind the last one */
static int add_brackets(struct buf *b, const char *key, const char **at,
                        struct error *err)
{
    const char *p = *at;
    int rc = buf_addstr(b, *p == '^' ? "[^" : "[", err);
    p += *p == '^';
    for (; rc == 0 && *p != ']' && *p != '\0'; p++) {
        const char *class = *p == '\\' ? class_of(p[1]) : NULL;
        if (*p == '[' || (*p == '\\' && class == NULL && p[1] != '.' &&
                          p[1] != '_' && p[1] != '/'))
            return refuse(key, "brackets or an escape in brackets", err);
        p += *p == '\\';
        rc = class != NULL ? buf_addstr(b, class, err) : buf_add(b, p, 1, err);
    }
    if (*p == '\0')
        return refuse(key, "brackets that do not end", err);
    *at = p + 1;
    return rc < 0 ? rc : buf_addstr(b, "]", err);
}

/* From Python's syntax to that of POSIX. */
static int translate(const char *key, struct buf *b, struct error *err)
{
    enum { NOTHING, ONE, REPEATED } before = NOTHING;
    const char *p = key;
    int rc = 0, depth = 0;
    while (rc == 0 && *p != '\0') {
        const char c = *p++;
        const bool repeats = c == '*' || c == '+' || c == '?';
        if (c == '{' || c == '}')
            return refuse(key, "counts", err);
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (depth < 0)
            break;
        if (c == '?' && before == REPEATED) {
            before = NOTHING; /* a lazy one matches the same names */
            continue;
        }
        if (repeats && before != ONE)
            return refuse(key, "an operator with nothing to repeat", err);
        before = repeats                                        ? REPEATED
                 : c == '(' || c == '|' || c == '^' || c == '$' ? NOTHING
                                                                : ONE;
        if (c == '\\')
            rc = *p == '\0' ? refuse(key, "a backslash at its end", err)
                            : add_escaped(b, key, *p++, err);
        else if (c == '[')
            rc = add_brackets(b, key, &p, err);
        else if (c == '(' && *p == '?' && p[1] != ':')
            return refuse(key, "a group (?", err);
        else
            rc = buf_add(b, &c, 1, err);
        if (c == '(' && *p == '?')
            p += 2;
    }
    return rc < 0 || depth == 0 ? rc : refuse(key, "an open group", err);
}

int name_pattern_open(const char *key, struct name_pattern *ret,
                      struct error *err)
{
    struct buf own = BUF_INIT, whole = BUF_INIT;
    struct name_pattern p = {.is_plain = false};
    const size_t len = strlen(key), plain = strspn(key, letters);
    if (len >= sizeof(p.key))
        return error_set(err, ERR_INVAL,
                         "'%.40s...' has %zu characters, %d are possible", key,
                         len, NAME_PATTERN_CAP - 1);
    (void)snprintf(p.key, sizeof(p.key), "%s", key);
    p.is_plain = plain == len;
    for (size_t i = plain; i < len && !p.is_plain; i++) {
        if (key[i] != '.' && strchr(letters, key[i]) == NULL)
            break;
        p.is_plain = i + 1 == len;
    }
    int rc = p.is_plain ? 0 : translate(key, &own, err);
    if (rc == 0 && !p.is_plain) {
        rc = buf_addf(&whole, err, "^(.*[.])?(%s)$", buf_str(&own));
        if (rc == 0 &&
            regcomp(&p.regex, buf_str(&whole), REG_EXTENDED | REG_NOSUB) != 0)
            rc = error_set(err, ERR_INVAL, "'%.80s' is no expression", key);
    }
    buf_clear(&own);
    buf_clear(&whole);
    if (rc == 0)
        *ret = p;
    return rc;
}

/* A dot is any character, as in the expression that it is. */
static bool ends_with(const char *name, const char *key)
{
    const size_t n = strlen(name), k = strlen(key);
    if (k > n || (k < n && name[n - k - 1] != '.'))
        return false;
    for (size_t i = 0; i < k; i++)
        if (key[i] != '.' && key[i] != name[n - k + i])
            return false;
    return true;
}

bool name_pattern_matches(const struct name_pattern *p, const char *name)
{
    return p->is_plain ? ends_with(name, p->key)
                       : regexec(&p->regex, name, 0, NULL, 0) == 0;
}

void name_pattern_close(struct name_pattern *p)
{
    if (!p->is_plain)
        regfree(&p->regex);
}
