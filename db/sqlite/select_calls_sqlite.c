/* select_calls_sqlite.c - functions that end, for a SELECT that somebody wrote.
 *
 * One call is one step of SQLite's machine, which nothing stops: its instr()
 * and replace() compare at each place of a text all of another one, and trim()
 * each character with all of another: with 2 MB each, for minutes and hours.
 * These do the same otherwise: with the two-way search of memmem(3), or, where
 * the product stays, no more than WORK_MAX of it. Who is late is told so at the
 * next call.
 */
#include <string.h>

#include "db/sqlite/select_sqlite.h"

/* Some tenths of a second. */
static const double WORK_MAX = 1e8;
enum { FLAGS = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

struct text {
    const unsigned char *p;
    size_t n;
};

/* False without memory for it, or where it is NULL, as the result is then. */
static bool text_of(sqlite3_value *v, struct text *ret)
{
    ret->p = sqlite3_value_text(v);
    ret->n = ret->p ? (size_t)sqlite3_value_bytes(v) : 0;
    return ret->p != NULL;
}

static bool is_stopped(sqlite3_context *x, const struct select_calls *c)
{
    if (!c->is_over(c->arg))
        return false;
    sqlite3_result_error(x, "stopped", -1);
    return true;
}

static bool is_too_much(sqlite3_context *x, size_t a, size_t b)
{
    if ((double)a * (double)b <= WORK_MAX)
        return false;
    sqlite3_result_error(x, "texts that are too long for LIKE, GLOB or trim()",
                         -1);
    return true;
}

/* ---- instr, replace -------------------------------------------------------
 */

static const unsigned char *find(struct text in, struct text what)
{
    return memmem(in.p, in.n, what.p, what.n);
}

static bool is_within(unsigned char c) /* of a character of more bytes */
{
    return (c & 0xc0) == 0x80;
}

static void on_instr(sqlite3_context *x, int n, sqlite3_value **v)
{
    bool are_blobs = sqlite3_value_type(v[0]) == SQLITE_BLOB &&
                     sqlite3_value_type(v[1]) == SQLITE_BLOB;
    struct text in, what;
    sqlite3_int64 at = 1;
    (void)n;
    if (is_stopped(x, sqlite3_user_data(x)) || !text_of(v[0], &in) ||
        !text_of(v[1], &what))
        return;
    const unsigned char *found = find(in, what);
    for (const unsigned char *p = in.p; found && p < found; p++)
        at += are_blobs || !is_within(*p);
    sqlite3_result_int64(x, found ? at : 0);
}

static void on_replace(sqlite3_context *x, int n, sqlite3_value **v)
{
    int most =
        sqlite3_limit(sqlite3_context_db_handle(x), SQLITE_LIMIT_LENGTH, -1);
    struct text in, what, by;
    (void)n;
    if (is_stopped(x, sqlite3_user_data(x)) || !text_of(v[0], &in) ||
        !text_of(v[1], &what) || !text_of(v[2], &by))
        return;
    size_t len = in.n;
    const unsigned char *hit;
    for (struct text rest = in;
         what.n > 0 && (hit = find(rest, what)) && len <= (size_t)most;) {
        len += by.n - what.n; /* which may be negative: the sum is right */
        rest.n -= (size_t)(hit - rest.p) + what.n;
        rest.p = hit + what.n;
    }
    if (len > (size_t)most) {
        sqlite3_result_error_toobig(x);
        return;
    }
    char *out = sqlite3_malloc64(len + 1), *to = out;
    if (!out) {
        sqlite3_result_error_nomem(x);
        return;
    }
    struct text rest = in;
    while (what.n > 0 && (hit = find(rest, what))) {
        size_t kept = (size_t)(hit - rest.p);
        memcpy(to, rest.p, kept);
        memcpy(to + kept, by.p, by.n);
        to += kept + by.n;
        rest.n -= kept + what.n;
        rest.p = hit + what.n;
    }
    memcpy(to, rest.p, rest.n);
    sqlite3_result_text(x, out, (int)len, sqlite3_free);
}

/* ---- trim -----------------------------------------------------------------
 */

/* The bytes of the character that stands at the end of t. */
static size_t last_of(struct text t)
{
    size_t n = t.n > 0;
    while (n < t.n && is_within(t.p[t.n - n]))
        n++;
    return n;
}

static size_t first_of(struct text t)
{
    size_t n = t.n > 0;
    while (n < t.n && is_within(t.p[n]))
        n++;
    return n;
}

static bool has(struct text set, struct text one)
{
    while (set.n > 0) {
        size_t n = first_of(set);
        if (n == one.n && memcmp(set.p, one.p, n) == 0)
            return true;
        set.p += n;
        set.n -= n;
    }
    return false;
}

static void on_trim(sqlite3_context *x, int n, sqlite3_value **v)
{
    const struct select_trim *side = sqlite3_user_data(x);
    struct text t, set = {(const unsigned char *)" ", 1}, one;
    if (is_stopped(x, side->calls) || !text_of(v[0], &t) ||
        (n > 1 && !text_of(v[1], &set)) || is_too_much(x, t.n, set.n))
        return;
    while (side->left && t.n > 0) {
        one = (struct text){t.p, first_of(t)};
        if (!has(set, one))
            break;
        t.p += one.n;
        t.n -= one.n;
    }
    while (side->right && t.n > 0) {
        one.n = last_of(t);
        one.p = t.p + t.n - one.n;
        if (!has(set, one))
            break;
        t.n -= one.n;
    }
    sqlite3_result_text(x, (const char *)t.p, (int)t.n, SQLITE_TRANSIENT);
}

/* ---- LIKE, GLOB -----------------------------------------------------------
 */

/* SQLite calls itself for each part of one. */
enum { PATTERN_MAX = 1000 };

static bool patterns_of(sqlite3_context *x, sqlite3_value **v,
                        struct text *ret_pattern, struct text *ret_text)
{
    if (is_stopped(x, sqlite3_user_data(x)) || !text_of(v[0], ret_pattern) ||
        !text_of(v[1], ret_text))
        return false;
    if (ret_pattern->n > PATTERN_MAX) {
        sqlite3_result_error(x, "a pattern of more than 1000 bytes", -1);
        return false;
    }
    return !is_too_much(x, ret_pattern->n, ret_text->n);
}

static void on_like(sqlite3_context *x, int n, sqlite3_value **v)
{
    struct text pattern, text, escape = {NULL, 0};
    if (!patterns_of(x, v, &pattern, &text) ||
        (n > 2 && !text_of(v[2], &escape)))
        return;
    if (n > 2 && (escape.n != 1 || escape.p[0] > 0x7f)) {
        sqlite3_result_error(x, "ESCAPE: expected one character of ASCII", -1);
        return;
    }
    sqlite3_result_int(x, sqlite3_strlike((const char *)pattern.p,
                                          (const char *)text.p,
                                          n > 2 ? escape.p[0] : 0) == 0);
}

static void on_glob(sqlite3_context *x, int n, sqlite3_value **v)
{
    struct text pattern, text;
    (void)n;
    if (patterns_of(x, v, &pattern, &text))
        sqlite3_result_int(x, sqlite3_strglob((const char *)pattern.p,
                                              (const char *)text.p) == 0);
}

int select_calls_add(sqlite3 *h, struct select_calls *c)
{
    static const char *const trims[] = {"trim", "ltrim", "rtrim"};
    static const struct {
        const char *name;
        int n;
        void (*call)(sqlite3_context *x, int n, sqlite3_value **v);
    } calls[] = {{"instr", 2, on_instr},
                 {"replace", 3, on_replace},
                 {"like", 2, on_like},
                 {"like", 3, on_like},
                 {"glob", 2, on_glob}};
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof(calls) / sizeof(*calls);
         i++)
        rc = sqlite3_create_function(h, calls[i].name, calls[i].n, FLAGS, c,
                                     calls[i].call, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        c->trims[i] = (struct select_trim){c, i != 2, i != 1};
        for (int n = 1; rc == SQLITE_OK && n <= 2; n++)
            rc = sqlite3_create_function(h, trims[i], n, FLAGS, &c->trims[i],
                                         on_trim, NULL, NULL);
    }
    return rc;
}
