/* lines.c - see lines.h. */
#include "scheduler/sim/trace/lines.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jobs/text/scalar.h"
#include "jobs/text/text.h"
#include "scheduler/sim/trace/gz_text.h"

static void begin(struct lines *l)
{
    l->next = l->text.data; /* NULL: an empty file */
    l->line = 0;
}

int lines_open(struct lines *l, const char *file, struct error *err)
{
    *l = (struct lines){.file = file};
    if (gz_text_read(file, &l->text, err) < 0) {
        buf_clear(&l->text);
        return -1;
    }
    begin(l);
    return 0;
}

int lines_text(struct lines *l, const char *file, const char *text, size_t len,
               struct error *err)
{
    *l = (struct lines){.file = file};
    if (memchr(text, '\0', len))
        return error_set(err, ERR_INVAL, "'%s': not a text: it has a NUL byte",
                         file);
    if (buf_add(&l->text, text, len, err) < 0)
        return -1;
    begin(l);
    return 0;
}

void lines_clear(struct lines *l)
{
    buf_clear(&l->text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Removes blanks around a field. */
static char *trim(char *field)
{
    while (is_blank(*field))
        field++;
    size_t n = strlen(field);
    while (n > 0 && is_blank(field[n - 1]))
        field[--n] = '\0';
    return field;
}

/* Where the separator behind `at` is, or NULL. */
static char *field_end(char *at, char sep)
{
    if (sep == ' ')
        return strpbrk(at, " \t\r");
    return sep ? strchr(at, sep) : NULL;
}

static void split(struct lines *l, char *line, char sep)
{
    char *at = line;

    l->n = 0;
    while (at) {
        if (sep == ' ')
            at += strspn(at, " \t\r");
        if (sep == ' ' && *at == '\0')
            break; /* blanks at the end of the line */
        char *end = l->n + 1 < FIELDS_MAX ? field_end(at, sep) : NULL;
        if (end)
            *end = '\0';
        l->field[l->n] = trim(at);
        l->column[l->n] = (int32_t)(l->field[l->n] - line) + 1;
        l->n++;
        at = end ? end + 1 : NULL;
    }
}

bool lines_next(struct lines *l, char sep)
{
    while (l->next && *l->next) {
        char *line = l->next, *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        l->next = end ? end + 1 : NULL;
        l->line++;
        if (line[strspn(line, " \t\r")] == '\0')
            continue;
        split(l, line, sep);
        return true;
    }
    l->next = NULL;
    return false;
}

int lines_error(const struct lines *l, size_t i, struct error *err,
                const char *fmt, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    return error_set(err, ERR_INVAL, "%s:%" PRId32 ":%" PRId32 ": %s", l->file,
                     l->line, i < l->n ? l->column[i] : 1, what);
}

int lines_count(const struct lines *l, size_t n, const char *form,
                struct error *err)
{
    if (l->n == n)
        return 0;
    return lines_error(l, l->n < n ? 0 : n, err, "%zu fields, expected '%s'",
                       l->n, form);
}

int lines_real(const struct lines *l, size_t i, const char *what, double min,
               double max, double *ret, struct error *err)
{
    char quoted[TEXT_QUOTE_CAP];
    double x;

    if (i < l->n && scalar_float(l->field[i], &x) == 0 && x >= min &&
        x <= max) {
        *ret = x;
        return 0;
    }
    return lines_error(
        l, i, err, "%s: '%s' is not a number in %g..%g", what,
        text_quote(quoted, sizeof(quoted), i < l->n ? l->field[i] : ""), min,
        max);
}

int lines_int(const struct lines *l, size_t i, const char *what, int64_t min,
              int64_t max, int64_t *ret, struct error *err)
{
    char quoted[TEXT_QUOTE_CAP];
    int64_t n;

    if (i < l->n && scalar_int(l->field[i], &n) == 0 && n >= min && n <= max) {
        *ret = n;
        return 0;
    }
    return lines_error(
        l, i, err, "%s: '%s' is not a whole number in %" PRId64 "..%" PRId64,
        what, text_quote(quoted, sizeof(quoted), i < l->n ? l->field[i] : ""),
        min, max);
}

int lines_name(const struct lines *l, size_t i, const char *what, char *ret,
               size_t cap, struct error *err)
{
    const char *s = i < l->n ? l->field[i] : "", *p = s;
    const char *end = s + strlen(s);
    char quoted[TEXT_QUOTE_CAP];

    while (p < end) {
        int32_t cp = text_next(&p, end);
        if (cp < 0 || text_is_control(cp))
            return lines_error(l, i, err, "%s: '%s' is not printable text",
                               what, text_quote(quoted, sizeof(quoted), s));
    }
    if (s == end || strlen(s) >= cap)
        return lines_error(l, i, err, "%s: '%s' has not 1 to %zu characters",
                           what, text_quote(quoted, sizeof(quoted), s),
                           cap - 1);
    memcpy(ret, s, strlen(s) + 1);
    return 0;
}
