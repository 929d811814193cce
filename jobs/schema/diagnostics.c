/* diagnostics.c - keep findings in order, and write them as JSON; see
 * diagnostics.h. */
#include "jobs/schema/diagnostics.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

int diagnostics_init(struct spec_report *r, struct error *err)
{
    *r = (struct spec_report){.findings = NULL};
    r->findings = calloc(REPORT_CAP, sizeof(*r->findings));
    if (!r->findings)
        return error_set(err, ERR_NOMEM, "report");
    return 0;
}

void diagnostics_clear(struct spec_report *r)
{
    if (!r)
        return;
    int saved = errno;
    free(r->findings);
    *r = (struct spec_report){.findings = NULL};
    errno = saved;
}

static bool comes_before(const struct spec_finding *a,
                         const struct spec_finding *b)
{
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

/* The finding to drop from a full report for f; REPORT_CAP: none. */
static size_t victim(const struct spec_report *r, const struct spec_finding *f)
{
    for (size_t i = REPORT_CAP; f->is_error && i-- > 0;)
        if (!r->findings[i].is_error)
            return i;
    const struct spec_finding *last = &r->findings[REPORT_CAP - 1];
    if (f->is_error == last->is_error && comes_before(f, last))
        return REPORT_CAP - 1;
    return REPORT_CAP;
}

static void insert(struct spec_report *r, const struct spec_finding *f)
{
    if (r->n == REPORT_CAP) {
        size_t i = victim(r, f);
        if (i == REPORT_CAP)
            return;
        memmove(&r->findings[i], &r->findings[i + 1],
                (REPORT_CAP - 1 - i) * sizeof(*f));
        r->n--;
    }
    size_t at = r->n;
    while (at > 0 && comes_before(f, &r->findings[at - 1]))
        at--;
    memmove(&r->findings[at + 1], &r->findings[at], (r->n - at) * sizeof(*f));
    r->findings[at] = *f;
    r->n++;
}

void diagnostics_add(struct spec_report *r, const char *code, struct mark at,
                     const char *path, const char *hint, const char *fmt, ...)
{
    struct spec_finding f = {
        .is_error = code[0] == 'E',
        .line = at.line,
        .column = at.column,
        .width = at.width,
        .option = at.option,
    };
    (void)snprintf(f.code, sizeof(f.code), "%s", code);
    (void)text_quote(f.path, sizeof(f.path), path ? path : "");
    (void)snprintf(f.hint, sizeof(f.hint), "%s", hint ? hint : "");
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(f.message, sizeof(f.message), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(f.message))
        memcpy(f.message + sizeof(f.message) - 4, "...", 4);
    if (f.is_error)
        r->n_errors++;
    else
        r->n_warnings++;
    insert(r, &f);
}

const char *diagnostics_option(const struct spec_finding *f)
{
    return f->option ? f->option : "--set";
}

int diagnostics_verdict(const struct spec_report *r, struct error *err)
{
    if (r->n_errors == 0)
        return 0;
    const char *s = r->n_errors == 1 ? "" : "s";
    if (r->n_warnings == 0)
        return error_set(err, ERR_INVAL, "%zu error%s", r->n_errors, s);
    return error_set(err, ERR_INVAL, "%zu error%s, %zu warning%s", r->n_errors,
                     s, r->n_warnings, r->n_warnings == 1 ? "" : "s");
}

static int add_finding(const struct spec_finding *f, const char *file,
                       struct buf *out, struct error *err)
{
    const struct {
        const char *name, *value;
    } words[] = {
        {"code", f->code},
        {"severity", f->is_error ? "error" : "warning"},
        {"file", f->line > 0 ? file : diagnostics_option(f)},
        {"path", f->path},
        {"message", f->message},
        {"hint", f->hint},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(words) / sizeof(words[0]); i++) {
        rc = buf_addf(out, err, "%s\"%s\":", i ? "," : "{", words[i].name);
        if (rc == 0)
            rc = text_add_json(out, words[i].value, err);
        if (rc == 0 && i == 2) /* the location follows the file */
            rc = buf_addf(out, err, ",\"line\":%d,\"column\":%d", f->line,
                          f->column);
    }
    return rc < 0 ? -1 : buf_add(out, "}", 1, err);
}

int diagnostics_json(const struct spec_report *r, const char *file,
                     struct buf *out, struct error *err)
{
    struct buf text = BUF_INIT; /* out stays untouched on failure */
    int rc = buf_add(&text, "[", 1, err);
    for (size_t i = 0; rc == 0 && i < r->n; i++) {
        if (i > 0)
            rc = buf_add(&text, ",", 1, err);
        if (rc == 0)
            rc = add_finding(&r->findings[i], file ? file : "", &text, err);
    }
    if (rc == 0)
        rc = buf_add(&text, "]", 1, err);
    if (rc == 0)
        rc = buf_add(out, text.data, text.len, err);
    buf_clear(&text);
    return rc;
}
