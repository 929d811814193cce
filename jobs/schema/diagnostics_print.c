/* diagnostics_print.c - print findings in the style of a compiler.
 *
 *   bad.yaml:7:3: error[E010]: unknown key 'train.batchsize'
 *       7 |   batchsize: 64
 *         |   ^~~~~~~~~ did you mean 'batch_size'?
 *
 * The source line is quoted through text_add_plain(), so columns count
 * displayed characters, not bytes. A long line is cut to a window around the
 * caret. Reports end up in logs, so the value of a variable whose name sounds
 * like a secret is not quoted, nor is the text after it. */
#include "jobs/schema/diagnostics.h"

#include <string.h>

#include "jobs/schema/schema.h"
#include "jobs/text/text.h"

enum {
    WINDOW = 100, /* displayed code points of a source line */
    BEFORE = 60,  /* of them before the caret, at most */
};

/* The line-th line, without its newline; false if there is none. */
static bool find_line(const char *text, size_t len, int32_t line,
                      const char **ret, const char **ret_end)
{
    const char *p = text;
    const char *end = text + len;
    if (len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    for (int32_t at = 1; at < line; at++) {
        while (p < end && *p != '\n' && *p != '\r')
            p++;
        if (p == end)
            return false;
        p += p[0] == '\r' && p + 1 < end && p[1] == '\n' ? 2 : 1;
    }
    const char *stop = p;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    *ret = p;
    *ret_end = stop;
    return true;
}

/* Moves n code points forward, or to the end; returns the columns passed. */
static int skip(const char **p, const char *end, int32_t n)
{
    int columns = 0;
    for (int32_t i = 0; i < n && *p < end; i++)
        columns += text_columns(text_next(p, end));
    return columns;
}

/* ---- mask secrets ---------------------------------------------------------
 */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

/* Characters allowed between a key and its ':'. */
static bool is_between(char c)
{
    return c == ' ' || c == '\t' || c == '"' || c == '\'';
}

/* Keys of a specification that have no secrets: one has names, one a number. */
static bool is_harmless(const char *key)
{
    return strcmp(key, "secrets") == 0 || strcmp(key, "max_new_tokens") == 0;
}

/* Position after the first ':' of a key like HF_TOKEN or env.HF_TOKEN; NULL:
 * there is none. */
static const char *secret_in(const char *line, const char *end)
{
    char name[TREE_MAX_KEY + 1];
    for (const char *p = line; p < end; p++) {
        const char *to = p;
        if (*p != ':')
            continue;
        while (to > line && is_between(to[-1]))
            to--;
        const char *from = to;
        while (from > line && is_word(from[-1]) && to - from < TREE_MAX_KEY)
            from--;
        memcpy(name, from, (size_t)(to - from));
        name[to - from] = '\0';
        if (schema_is_secret(name) && !is_harmless(name))
            return p + 1;
    }
    return NULL;
}

static size_t indent_of(const char *line, const char *end)
{
    size_t n = 0;
    while (line + n < end && line[n] == ' ')
        n++;
    return n;
}

/* The previous line, without its newline; false: there is none. */
static bool line_before(const char *text, const char **io_line,
                        const char **ret_end)
{
    const char *p = *io_line;
    if (p == text)
        return false;
    p--;
    p -= *p == '\n' && p > text && p[-1] == '\r';
    *ret_end = p;
    while (p > text && p[-1] != '\n' && p[-1] != '\r')
        p--;
    *io_line = p;
    return true;
}

/* Whether an enclosing line, by indentation, has such a key: then this line is,
 * or may be, a part of its value. Items of a list may have the indentation of
 * their key. */
static bool is_below_secret(const char *text, const char *line, const char *end)
{
    size_t indent = indent_of(line, end);
    indent += line + indent < end && line[indent] == '-';
    while (indent > 0 && line_before(text, &line, &end)) {
        size_t n = indent_of(line, end);
        if (line + n == end || n >= indent)
            continue;
        if (secret_in(line, end))
            return true;
        indent = n;
    }
    return false;
}

/* The line with secrets masked, and the caret's position in it. */
static int mask_line(const char *text, struct spec_finding *io,
                     const char **io_line, const char **io_end, struct buf *own,
                     struct error *err)
{
    static const char stars[] = "********";
    const char *line = *io_line, *end = *io_end, *secret;
    int32_t column = 0;

    secret = is_below_secret(text, line, end) ? line + indent_of(line, end)
                                              : secret_in(line, end);
    if (!secret)
        return 0;
    bool has_gap = secret > line && secret[-1] == ':';
    if (buf_add(own, line, (size_t)(secret - line), err) < 0 ||
        buf_addf(own, err, "%s%s", has_gap ? " " : "", stars) < 0)
        return -1;
    for (const char *p = line; p < secret; column++)
        (void)text_next(&p, secret);
    column += 1 + has_gap;
    if (io->column >= column) {
        io->column = column;
        io->width = (int32_t)strlen(stars);
    }
    *io_line = own->data;
    *io_end = own->data + own->len;
    return 0;
}

static int add_repeat(struct buf *out, char c, int n, struct error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = buf_add(out, &c, 1, err);
    return rc;
}

static int add_source(const struct spec_finding *f, const char *line,
                      const char *end, const char *after, struct buf *out,
                      struct error *err)
{
    const char *from = line;
    int32_t before = f->column - 1;
    bool cut = before > BEFORE && end - line > WINDOW;
    if (cut) {
        (void)skip(&from, end, before - BEFORE);
        before = BEFORE;
    }
    const char *to = from;
    (void)skip(&to, end, WINDOW);
    const char *p = from;
    int pad = skip(&p, end, before) + (cut ? 3 : 0);
    int wide = p < to ? skip(&p, to, f->width > 1 ? f->width : 1) : 1;

    int rc = buf_addf(out, err, "%5d | %s", f->line, cut ? "..." : "");
    if (rc == 0)
        rc = text_add_plain(out, from, (size_t)(to - from), err);
    if (rc == 0)
        rc = buf_addf(out, err, "%s\n      | ", to < end ? "..." : "");
    if (rc == 0)
        rc = add_repeat(out, ' ', pad, err);
    if (rc == 0)
        rc = buf_add(out, "^", 1, err);
    if (rc == 0)
        rc = add_repeat(out, '~', wide - 1, err);
    if (rc == 0)
        rc = buf_addf(out, err, "%s%s\n", after[0] ? " " : "", after);
    return rc;
}

static int quote_line(const struct spec_finding *f, const char *text,
                      size_t len, const char *after, struct buf *out,
                      struct error *err)
{
    struct spec_finding masked = *f;
    struct buf own = BUF_INIT;
    const char *line = NULL, *end = NULL;

    (void)find_line(text, len, f->line, &line, &end);
    int rc = mask_line(text, &masked, &line, &end, &own, err);
    if (rc == 0)
        rc = add_source(&masked, line, end, after, out, err);
    buf_clear(&own);
    return rc;
}

static int add_finding(const struct spec_finding *f, const char *file,
                       const char *text, size_t len, struct buf *out,
                       struct error *err)
{
    const char *line = NULL, *end = NULL;
    /* The line of E025 contains the secret; reports are copied into logs. */
    bool has_line = f->line > 0 && text && strcmp(f->code, "E025") != 0 &&
                    find_line(text, len, f->line, &line, &end);
    bool is_near = strncmp(f->hint, "did you mean", 12) == 0;
    const char *what = f->is_error ? "error" : "warning";
    int rc = 0;

    if (f->line > 0) {
        rc = text_add_plain(out, file, strlen(file), err);
        if (rc == 0)
            rc = buf_addf(out, err, ":%d:%d: ", f->line, f->column);
    } else {
        rc = buf_addf(out, err, "%s", diagnostics_option(f));
        if (rc == 0 && f->column > 0)
            rc = buf_addf(out, err, ":%d", f->column);
        if (rc == 0)
            rc = buf_addstr(out, ": ", err);
    }
    if (rc == 0)
        rc = buf_addf(out, err, "%s[%s]: ", what, f->code);
    if (rc == 0)
        rc = text_add_plain(out, f->message, strlen(f->message), err);
    if (rc == 0)
        rc = buf_add(out, "\n", 1, err);
    if (rc == 0 && has_line)
        rc = quote_line(f, text, len, is_near ? f->hint : "", out, err);
    if (rc == 0 && f->hint[0] && !(has_line && is_near))
        rc = buf_addf(out, err, "      hint: %s\n", f->hint);
    return rc;
}

static int add_summary(const struct spec_report *r, const char *tail,
                       struct buf *out, struct error *err)
{
    size_t more = r->n_errors + r->n_warnings - r->n;
    int rc = 0;
    if (more > 0)
        rc = buf_addf(out, err, "... and %zu more\n", more);
    if (rc == 0 && r->n_errors > 0)
        rc = buf_addf(out, err, "%zu error%s", r->n_errors,
                      r->n_errors == 1 ? "" : "s");
    if (rc == 0 && r->n_warnings > 0)
        rc = buf_addf(out, err, "%s%zu warning%s", r->n_errors ? ", " : "",
                      r->n_warnings, r->n_warnings == 1 ? "" : "s");
    if (rc == 0 && r->n > 0)
        rc = buf_addf(out, err, "%s\n", r->n_errors ? tail : "");
    return rc;
}

int report_print(const struct spec_report *r, const char *file,
                 const char *text, size_t len, const char *tail,
                 struct buf *out, struct error *err)
{
    struct buf all = BUF_INIT; /* out stays untouched on failure */
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        rc = add_finding(&r->findings[i], file ? file : "-", text, len, &all,
                         err);
    if (rc == 0)
        rc = add_summary(r, tail, &all, err);
    if (rc == 0)
        rc = buf_add(out, all.data, all.len, err);
    buf_clear(&all);
    return rc;
}

int diagnostics_print(const struct spec_report *r, const char *file,
                      const char *text, size_t len, struct buf *out,
                      struct error *err)
{
    return report_print(r, file, text, len, "; nothing was submitted.", out,
                        err);
}
