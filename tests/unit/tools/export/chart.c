/* chart.c - lines as SVG: what is drawn where, and that nothing from outside
 * becomes a part of the picture. */
#include "scheduler/tools/export/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/export/curves.h"
#include "scheduler/tools/export/plot.h"
#include "tests/tap.h"

static struct buf out;

static int count(const char *what)
{
    int n = 0;
    for (const char *p = buf_str(&out); (p = strstr(p, what)) != NULL; p++)
        n++;
    return n;
}

/* Each element that is opened is closed, in order: what XML asks for. */
static bool is_xml(const char *p)
{
    char open[64][24];
    int depth = 0;
    while ((p = strchr(p, '<')) != NULL) {
        const char *end = strchr(p, '>');
        size_t n = strcspn(p + 1 + (p[1] == '/'), " >/");
        if (end == NULL || n == 0 || n >= 24 || depth >= 64)
            return false;
        if (p[1] == '/') {
            if (depth == 0 || strlen(open[depth - 1]) != n ||
                strncmp(open[--depth], p + 2, n) != 0)
                return false;
        } else if (p[1] != '?' && end[-1] != '/') {
            memcpy(open[depth], p + 1, n);
            open[depth++][n] = '\0';
        }
        p = end;
    }
    return depth == 0;
}

static void draw(const struct chart *c, bool is_file)
{
    struct error err = ERROR_INIT;
    buf_reset(&out);
    ok(chart_svg(c, is_file, &out, &err) == 0 && is_xml(buf_str(&out)),
       "'%s' is an XML element %s", c->title, err.msg);
}

static void test_lines(void)
{
    const double x[] = {1, 2, 3, 4}, a[] = {1, NAN, 3, 2}, b[] = {0, 1, 2, 9};
    struct chart_series s[] = {
        {.name = "a", .x = x, .y = a, .n = 4, .marks = true},
        {.name = "b <\"&'>", .x = x, .y = b, .n = 4, .dashed = true}};
    struct chart c = {.title = "T <script>",
                      .x_title = "epoch",
                      .y_title = "nats",
                      .series = s,
                      .n = 2,
                      .categories = true};
    draw(&c, true);
    is_int(count("<circle"), 3, "a mark at each point that there is");
    is_int(count("<script"), 0, "a title is no element");
    is_int(count("b &lt;&quot;&amp;&#39;&gt;"), 2, "nor is a name");
    is_int(count("prefers-color-scheme:dark"), 1, "dark, too");
    is_int(count("c-dash\""), 2, "a dashed line, and its legend");
    is_int(count(">9</text>") + count(">10</text>"), 1, "ticks are round");
    const char *path = strstr(buf_str(&out), "d=\"M");
    ok(path && strchr(path + 4, 'M') < strchr(path + 3, '"') + 1,
       "a gap begins the line anew");
    draw(&c, false);
    is_int(count("<style") + count("<?xml"), 0, "in a page it has its style");
}

/* Names that do not fit in a row go on in the next, and the plot gives way. */
static void test_legend(void)
{
    const double x[] = {1, 2}, y[] = {1, 2};
    struct chart_series s[SVG_COLOURS];
    for (size_t i = 0; i < SVG_COLOURS; i++)
        s[i] = (struct chart_series){
            .name = "3_1 lr=0.001 precision=fp16", .x = x, .y = y, .n = 2};
    struct chart c = {.title = "T",
                      .x_title = "x",
                      .y_title = "y",
                      .series = s,
                      .n = SVG_COLOURS};
    draw(&c, true);
    is_int(count("height=\"374\""), 2, "three rows more, of a picture higher");
    is_int(count("viewBox=\"0 0 720 374\""), 1, "  seen whole");
    is_int(count("translate(0,54)"), 1, "  with the plot below");
    is_int(count("<line x1=\"64\" x2=\"84\" y1=\"94\""), 1, "the last row");
    is_int(count("<line x1=\"64\" x2=\"84\""), 4, "four in all");
    c.n = 2;
    draw(&c, true);
    is_int(count("height=\"320\""), 2, "two fit in one");
    is_int(count("<text x=\"64\" y=\"22\""), 1,
           "a short title is above the plot");
    c.title = "mmmmmmmmmm mmmmmmmmmm mmmmmmmmmm mmmmmmmmmm mmmmmmmmmm";
    draw(&c, true);
    is_int(count("<text x=\"16\" y=\"22\""), 1,
           "a long one begins at the side");
    s[0].name = "name=mmmmmmwwww"; /* ten of 12, and five others */
    draw(&c, true);
    const char *next = strstr(buf_str(&out), "c-line c-s0\"/>");
    next = next ? strstr(next, "<line x1=\"") : NULL;
    ok(next && atof(next + strlen("<line x1=\"")) >= 64 + 26 + 10 * 12 + 5 * 7,
       "wide letters have room");
}

/* More lines than colours: each looks different from all others. */
static void test_colours(void)
{
    const double x[] = {1, 2}, y[] = {1, 2};
    struct chart_series s[CHART_SERIES_MAX];
    for (size_t i = 0; i < CHART_SERIES_MAX; i++)
        s[i] = (struct chart_series){.name = "a", .x = x, .y = y, .n = 2};
    struct chart c = {.title = "T",
                      .x_title = "x",
                      .y_title = "y",
                      .series = s,
                      .n = CHART_SERIES_MAX};
    draw(&c, true);
    is_int(count("<path class=\"c-line c-s0\""), 1, "a plain line");
    for (int i = 1; i < CHART_SERIES_MAX / SVG_COLOURS; i++) {
        char want[60];
        (void)snprintf(want, sizeof(want), "<path class=\"c-line c-s7 c-d%d\"",
                       i);
        ok(count(want) == 1, "pattern %d of the last colour", i);
        (void)snprintf(want, sizeof(want), ".c-d%d{stroke-dasharray", i);
        ok(count(want) == 1 || i == 1, "which is a pattern");
    }
    draw(&c, false);
    is_int(count("data-plot=\"64 "), 1, "a page's script finds the scales");
    c.n = CHART_SERIES_MAX + 1;
    struct error err = ERROR_INIT;
    is_int(chart_svg(&c, true, &out, &err), -1, "more are refused");
}

/* A line that belongs to another one has its colour. */
static void test_like(void)
{
    const double x[] = {1, 2}, y[] = {1, 2};
    struct chart_series s[3];
    for (size_t i = 0; i < 3; i++)
        s[i] = (struct chart_series){.name = "a", .x = x, .y = y, .n = 2};
    s[1].like = 1;
    s[1].dashed = true;
    s[2].like = 2;
    struct chart c = {
        .title = "T", .x_title = "x", .y_title = "y", .series = s, .n = 3};
    draw(&c, true);
    is_int(count("<path class=\"c-line c-s0 c-dash\""), 1,
           "dashed, as the first");
    is_int(count("<path class=\"c-line c-s1\""), 1, "the third has the second");
}

/* 100,000 points: as large as the picture is wide, and the peak is there. */
static void test_many(void)
{
    enum { N = 100000 };
    double *x = calloc(N, sizeof(*x)), *y = calloc(N, sizeof(*y));
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = 1 + 0.1 * (i % 2);
    }
    y[56789] = 4;
    struct chart_series s = {.name = "y", .x = x, .y = y, .n = N};
    struct chart c = {.title = "many",
                      .x_title = "x",
                      .y_title = "",
                      .series = &s,
                      .n = 1,
                      .from_zero = true};
    draw(&c, true);
    ok(out.len < 40000, "has a bounded size: %zu", out.len);
    is_int(count(" 56L"), 1, "and shows the peak, at the top");
    free(x);
    free(y);
}

/* Dots of a short run would cover it beside a long one. */
static void test_marks(void)
{
    const double near[] = {1, 2, 3}, y[] = {3, 2, 1}, far[] = {1, 100, 201};
    struct chart_series s[] = {
        {.name = "short", .x = near, .y = y, .n = 3, .marks = true},
        {.name = "long", .x = far, .y = y, .n = 3, .marks = true}};
    struct chart c = {
        .title = "t", .x_title = "", .y_title = "", .series = s, .n = 2};
    draw(&c, true);
    is_int(count("<circle"), 3, "those of the long one");
    c.n = 1;
    draw(&c, true);
    is_int(count("<circle"), 3, "alone it has room");
}

static void test_odd(void)
{
    const double zero = 0, x[] = {1}, same[] = {5}, none[] = {NAN},
                 big[] = {1e7};
    struct error err = ERROR_INIT;
    struct chart_series s = {
        .name = "s", .x = x, .y = same, .n = 1, .marks = true};
    struct chart c = {.title = "one point",
                      .x_title = "",
                      .y_title = "",
                      .series = &s,
                      .n = 1};
    draw(&c, true);
    is_int(count("<circle") - count("nan") - count("inf"), 1, "one point");
    s.y = none;
    draw(&c, true);
    is_int(count("<circle") + count("nan") + count("inf"), 0, "no point");
    s.y = big;
    c.log_x = c.log_y = true;
    c.note = "A <note>";
    draw(&c, true);
    is_int(count("nan") + count("inf"), 0, "logarithms");
    is_int(count(">1</text>") + count(">10M</text>"), 2, "with their ticks");
    is_int(count("A &lt;note&gt;"), 1, "and a note");
    is_int(count("height=\"338\""), 2, "  that has room");
    s.x = &zero;
    draw(&c, true);
    is_int(count("<circle") + count("nan") + count("inf"), 0, "none of 0");
    s.n = 0;
    draw(&c, true);
    c.n = 0;
    ok(chart_svg(&c, true, &out, &err) == -1 && err.code == ERR_INVAL,
       "no lines: %s", err.msg);
}

/* An attempt goes on behind its checkpoint: what it repeats counts. */
static void test_curve(void)
{
    json_t *o = json_loads(
        "{\"columns\":[\"attempt\",\"rank\",\"iteration\",\"loss\"],\"rows\":["
        "[1,0,1,5],[1,1,1,9],[1,0,2,4],[1,0,3,3],[2,0,2,3.5],[2,0,3,null]]}",
        0, NULL);
    struct curve c;
    struct error err = ERROR_INIT;
    ok(curve_of(o, "iteration", "loss", 0, &c, &err) == 0, "a curve");
    ok(c.n == 3 && c.y[0] == 5 && c.y[1] == 3.5 && isnan(c.y[2]),
       "of one rank, as it is after a retry");
    /* What was not a number is named where the axis ends. */
    const struct chart_series one = curve_series(&c);
    const struct chart chart = {
        .title = "t", .x_title = "x", .y_title = "", .series = &one, .n = 1};
    draw(&chart, true);
    ok(strstr(buf_str(&out), ">NaN<") != NULL, "and its mark");
    curve_clear(&c);
    ok(curve_of(o, "iteration", "gain", 0, &c, &err) == -1 &&
           err.code == ERR_NOTFOUND,
       "%s", err.msg);
    json_decref(o);
}

/* Infinite values have no place on the axis, and a line without finite ones
 * has its marks alone. */
static void test_infinite(void)
{
    static const double x[] = {1, 2, 3, 4, 5, 6};
    const double y[] = {1, INFINITY, 2, -INFINITY, INFINITY, NAN};
    const struct chart_series s = {.name = "a", .x = x, .y = y, .n = 6};
    const struct chart c = {
        .title = "t", .x_title = "x", .y_title = "", .series = &s, .n = 1};
    draw(&c, true);
    const char *text = buf_str(&out);
    const char *above = strstr(text, ">\xe2\x88\x9e<");
    ok(above != NULL && strstr(above + 1, ">\xe2\x88\x9e<") != NULL,
       "two above");
    ok(strstr(text, ">\xe2\x88\x92\xe2\x88\x9e<") != NULL, "one below");
    ok(strstr(text, "NaN") == NULL && strstr(text, "inf") == NULL,
       "a gap is none");
}

/* Of many points a mean is drawn in front of them, in its own line's colour. */
static void test_smooth(void)
{
    enum { N = 400 };
    double x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = i % 2 == 0 ? 1 : 3;
    }
    struct chart_series s = {
        .name = "a", .x = x, .y = y, .n = N, .smooth = true};
    const struct chart c = {
        .title = "t", .x_title = "x", .y_title = "", .series = &s, .n = 1};
    draw(&c, true);
    const char *pale =
        strstr(buf_str(&out), "<path class=\"c-line c-s0 c-pale\"");
    const char *line =
        pale ? strstr(pale, "<path class=\"c-line c-s0\"") : NULL;
    ok(pale != NULL && line != NULL, "the points pale, and the mean");
    /* It ends at the middle of the plot, 1 to 3 on an axis from 1 to 3. */
    const char *last = line ? strstr(line, "\"/>") : NULL;
    while (last && last > line && *last != ' ')
        last--;
    const double at = last ? strtod(last + 1, NULL) : 0;
    ok(fabs(at - (56 + 216 / 2.0)) < 10, "which ends at %g", at);
    s.n = 79;
    draw(&c, true);
    ok(strstr(buf_str(&out), "c-pale\"") == NULL, "of few each is drawn");
}

/* A loss that falls by more than a hundred times. */
static void test_log(void)
{
    const struct plot_column *loss = plot_column_named("loss");
    const double x[] = {1, 2, 3};
    double y[] = {500, NAN, 2};
    const struct chart_series s = {.x = x, .y = y, .n = 3};
    struct chart c = plot_chart(loss, NULL, "t", &s, 1);
    ok(c.log_y && strcmp(c.y_title, "nats, logarithmic") == 0, "%s", c.y_title);
    c = plot_chart(NULL, NULL, "t", &s, 1);
    ok(c.log_y && strcmp(c.y_title, "logarithmic") == 0, "%s", c.y_title);
    c = plot_chart(plot_column_named("t_iter"), NULL, "t", &s, 1);
    ok(!c.log_y && strcmp(c.y_title, "seconds") == 0, "%s", c.y_title);
    y[1] = 0;
    c = plot_chart(loss, NULL, "t", &s, 1);
    ok(!c.log_y && strcmp(c.y_title, "nats") == 0, "0 has no place on it");
    y[1] = 5;
    y[2] = 5;
    c = plot_chart(loss, NULL, "t", &s, 1);
    ok(!c.log_y, "a hundred times is not more");
}

int main(void)
{
    buf_init(&out);
    test_lines();
    test_legend();
    test_colours();
    test_like();
    test_many();
    test_marks();
    test_odd();
    test_curve();
    test_infinite();
    test_smooth();
    test_log();
    buf_clear(&out);
    return tap_done();
}
