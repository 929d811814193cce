/* html_page.c - the parts that all HTML reports are made of; see html_page.h.
 */
#include "scheduler/tools/export/html_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"

/* The assembler includes the files unchanged. */
#define EMBED(symbol, file)                                          \
    __asm__(".section .rodata\n" #symbol ":\n"                       \
            ".incbin \"scheduler/tools/export/" file "\"\n.byte 0\n" \
            ".previous\n");                                          \
    extern const char symbol[]

EMBED(report_css, "report.css");
EMBED(report_js, "report.js");

/* The SHA-256 of report.js: a browser runs no other script. After a change:
 * openssl dgst -sha256 -binary report.js | base64 */
#define REPORT_JS_SHA256 "mlXY2jarKm6oYRcKLl5tYQI07nUPgMLUs0W+eu3jt7Y="

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'; script-src 'sha256-" REPORT_JS_SHA256
    "'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<style>";

void page_add(struct page *p, const char *raw)
{
    p->bad |= buf_addstr(&p->out, raw, NULL);
}

void page_say(struct page *p, const char *text)
{
    struct svg s = {.out = &p->out};
    svg_escape(&s, text);
    p->bad |= s.rc;
}

void page_title(struct page *p, const char *what, const char *id,
                const char *name)
{
    for (int i = 0; i < 2; i++) {
        page_add(p, i == 0 ? "<title>" : "</head><body><main>\n<h1>");
        page_say(p, what);
        page_add(p, " ");
        page_say(p, id);
        page_add(p, " ");
        page_say(p, name);
        page_add(p, i == 0 ? "</title>\n" : "</h1>");
    }
}

void page_cell(struct page *p, const char *class, const char *text)
{
    p->bad |= buf_addf(&p->out, NULL, "<td class=\"%s\">", class);
    page_say(p, text);
    page_add(p, "</td>");
}

void page_bar(struct page *p, double share)
{
    if (isfinite(share))
        p->bad |= buf_addf(&p->out, NULL,
                           "<td class=\"b\"><div class=\"bar\" "
                           "style=\"width:%.1f%%\"></div></td></tr>\n",
                           100 * fmin(fmax(share, 0), 1));
    else
        page_add(p, "<td class=\"b\"></td></tr>\n");
}

void page_heads(struct page *p, const char *const *titles)
{
    page_add(p, "<div class=\"scroll\"><table><tr class=\"h\">");
    for (; *titles; titles++) {
        bool is_left = **titles == '<';
        page_add(p, is_left ? "<th class=\"l\">" : "<th>");
        page_say(p, *titles + is_left);
        page_add(p, "</th>");
    }
    page_add(p, "</tr>\n");
}

void page_fact(struct page *p, const char *name, const char *value)
{
    if (!*value || strcmp(value, "-") == 0)
        return;
    page_add(p, "<div><dt>");
    page_say(p, name);
    page_add(p, "</dt><dd>");
    page_say(p, value);
    page_add(p, "</dd></div>\n");
}

void page_begin(struct page *p)
{
    *p = (struct page){.bad = 0};
    buf_init(&p->out);
    buf_init(&p->data);
    page_add(p, head);
    page_add(p, report_css);
    page_add(p, "</style>\n");
    struct svg s = {.out = &p->out};
    svg_style(&s);
    p->bad |= s.rc;
    p->bad |= buf_addstr(&p->data, "{\"schema\":\"mgpu.report/1\",\"charts\":[",
                         NULL);
}

void page_clear(struct page *p)
{
    buf_clear(&p->out);
    buf_clear(&p->data);
}

/* ---- charts ----------------------------------------------------------------
 */

/* More points than this per line are thinned to the lowest and the highest of
 * each part, as in the picture. */
enum { POINTS_MAX = 2000 };

/* The points of a part of a line, in order; *ret_n: 0 to 2. */
static void extremes(const struct chart_series *s, size_t from, size_t to,
                     size_t ret[2], size_t *ret_n)
{
    size_t lo = to, hi = to;
    for (size_t k = from; k < to; k++) {
        if (!isfinite(s->y[k]))
            continue;
        lo = lo == to || s->y[k] < s->y[lo] ? k : lo;
        hi = hi == to || s->y[k] > s->y[hi] ? k : hi;
    }
    *ret_n = lo == to ? 0 : lo == hi ? 1 : 2;
    ret[0] = lo < hi ? lo : hi;
    ret[1] = lo < hi ? hi : lo;
}

static size_t kept(const struct chart_series *s, size_t *ret)
{
    size_t n = 0, parts = POINTS_MAX / 2;
    if (s->n <= POINTS_MAX) {
        for (; n < s->n; n++)
            ret[n] = n;
        return n;
    }
    for (size_t i = 0; i < parts; i++) {
        size_t two[2], k = 0;
        extremes(s, i * s->n / parts, (i + 1) * s->n / parts, two, &k);
        for (size_t j = 0; j < k; j++)
            ret[n++] = two[j];
    }
    return n;
}

static int add_numbers(struct buf *b, const char *key, const double *v,
                       const size_t *at, size_t n)
{
    int bad = buf_addf(b, NULL, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        double x = v[at[i]];
        bad |= isfinite(x) ? buf_addf(b, NULL, "%s%.9g", i ? "," : "", x)
                           : buf_addf(b, NULL, "%snull", i ? "," : "");
    }
    return bad | buf_addstr(b, "]", NULL);
}

/* A text in a script element must not end it. */
static int add_text(struct buf *b, const char *text)
{
    struct buf quoted = BUF_INIT;
    int bad = text_add_json(&quoted, text, NULL);
    for (const char *p = buf_str(&quoted); !bad && *p; p++)
        bad |=
            *p == '<' ? buf_addstr(b, "\\u003c", NULL) : buf_add(b, p, 1, NULL);
    buf_clear(&quoted);
    return bad;
}

static void add_data(struct page *p, const struct chart *c)
{
    struct buf *b = &p->data;
    size_t at[POINTS_MAX];
    char class[CHART_CLASS_CAP];
    p->bad |= buf_addstr(b, p->n_charts ? ",{\"title\":" : "{\"title\":", NULL);
    p->bad |= add_text(b, c->title);
    p->bad |= buf_addstr(b, ",\"x\":", NULL);
    p->bad |= add_text(b, c->x_title);
    p->bad |= buf_addstr(b, ",\"unit\":", NULL);
    p->bad |= add_text(b, c->y_title);
    p->bad |= buf_addstr(b, ",\"series\":[", NULL);
    for (size_t i = 0; i < c->n; i++) {
        const struct chart_series *s = &c->series[i];
        size_t n = kept(s, at);
        p->bad |= buf_addstr(b, i ? ",{\"name\":" : "{\"name\":", NULL);
        p->bad |= add_text(b, s->name);
        p->bad |= buf_addstr(b, ",\"class\":\"", NULL);
        p->bad |= buf_addstr(b, chart_class(c, i, class), NULL);
        p->bad |= buf_addstr(b, "\"", NULL);
        p->bad |= add_numbers(b, "x", s->x, at, n);
        p->bad |= add_numbers(b, "y", s->y, at, n);
        p->bad |= buf_addstr(b, "}", NULL);
    }
    p->bad |= buf_addstr(b, "]}", NULL);
    p->n_charts++;
}

static void number_cell(struct page *p, double v)
{
    char text[32] = "-";
    if (!isnan(v))
        (void)snprintf(text, sizeof(text), "%.6g", v);
    page_cell(p, "", text);
}

/* First, last, lowest and highest of each line: what a pointer shows is between
 * them. */
static void add_summary(struct page *p, const struct chart *c)
{
    static const char *const titles[] = {"<Line",  "First",   "Last",
                                         "Lowest", "Highest", NULL};
    page_add(p, "<details><summary>Values</summary>");
    page_heads(p, titles);
    for (size_t i = 0; i < c->n; i++) {
        const struct chart_series *s = &c->series[i];
        size_t two[2], n = 0;
        extremes(s, 0, s->n, two, &n);
        double a = n ? s->y[two[0]] : (double)NAN;
        double b = n ? s->y[two[n - 1]] : (double)NAN;
        page_add(p, "<tr>");
        page_cell(p, "l", s->name);
        number_cell(p, s->n ? s->y[0] : (double)NAN);
        number_cell(p, s->n ? s->y[s->n - 1] : (double)NAN);
        number_cell(p, fmin(a, b));
        number_cell(p, fmax(a, b));
        page_add(p, "</tr>\n");
    }
    page_add(p, "</table></div></details>");
}

void page_chart(struct page *p, const struct chart *c)
{
    bool has_points = false;
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->series[i].n; k++)
            has_points = has_points || isfinite(c->series[i].y[k]);
    if (!has_points)
        return;
    page_add(p, "<figure class=\"card\" tabindex=\"0\">");
    p->bad |= chart_svg(c, false, &p->out, NULL);
    add_summary(p, c);
    page_add(p, "</figure>\n");
    add_data(p, c);
}

void page_end(struct page *p, const char *name, const json_t *more)
{
    char *text = more ? json_dumps(more, JSON_COMPACT) : NULL;
    p->bad |= more && !text;
    p->bad |= buf_addstr(&p->data, "]", NULL);
    if (text) {
        p->bad |= buf_addf(&p->data, NULL, ",\"%s\":", name);
        for (const char *c = text; *c; c++)
            p->bad |= *c == '<' ? buf_addstr(&p->data, "\\u003c", NULL)
                                : buf_add(&p->data, c, 1, NULL);
    }
    free(text);
    page_add(p, "<script type=\"application/json\" id=\"mgpu-data\">");
    page_add(p, buf_str(&p->data));
    page_add(p, "}</script>\n<script>");
    page_add(p, report_js);
    page_add(p, "</script>\n</main></body></html>\n");
}
