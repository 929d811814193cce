/* report_print.c - findings as a compiler prints them.
 *
 *   bad.yaml:7:3: error[E010]: unknown key 'train.batchsize'
 *       7 |   batchsize: 64
 *         |   ^~~~~~~~~ did you mean 'batch_size'?
 *
 * The source line is quoted through text_add_plain(), so columns are counted
 * in what is shown, not in bytes. Of a long line a window around the caret
 * is shown.
 */
#include "jobs/report.h"

#include <string.h>

#include "jobs/text.h"

enum {
    WINDOW = 100, /* code points of a source line that are shown */
    BEFORE = 60,  /* of them before the caret, at most */
};

/* The line-th line, without its end; false when there is none. */
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

/* Moves n code points on, or to the end; returns the columns passed. */
static int skip(const char **p, const char *end, int32_t n)
{
    int columns = 0;
    for (int32_t i = 0; i < n && *p < end; i++)
        columns += text_columns(text_next(p, end));
    return columns;
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

static int add_finding(const struct spec_finding *f, const char *file,
                       const char *text, size_t len, struct buf *out,
                       struct error *err)
{
    const char *line = NULL, *end = NULL;
    /* What W101 is about stands on the line; reports are copied into logs. */
    bool has_line = f->line > 0 && text && strcmp(f->code, "W101") != 0 &&
                    find_line(text, len, f->line, &line, &end);
    bool is_word = strncmp(f->hint, "did you mean", 12) == 0;
    const char *what = f->is_error ? "error" : "warning";
    int rc = 0;

    if (f->line > 0) {
        rc = text_add_plain(out, file, strlen(file), err);
        if (rc == 0)
            rc = buf_addf(out, err, ":%d:%d: ", f->line, f->column);
    } else
        rc = buf_addf(out, err, "--set: ");
    if (rc == 0)
        rc = buf_addf(out, err, "%s[%s]: ", what, f->code);
    if (rc == 0)
        rc = text_add_plain(out, f->message, strlen(f->message), err);
    if (rc == 0)
        rc = buf_add(out, "\n", 1, err);
    if (rc == 0 && has_line)
        rc = add_source(f, line, end, is_word ? f->hint : "", out, err);
    if (rc == 0 && f->hint[0] && !(has_line && is_word))
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
    struct buf all = BUF_INIT; /* out is untouched on failure */
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

int spec_report_print(const struct spec_report *r, const char *file,
                      const char *text, size_t len, struct buf *out,
                      struct error *err)
{
    return report_print(r, file, text, len, "; nothing was submitted.", out,
                        err);
}
