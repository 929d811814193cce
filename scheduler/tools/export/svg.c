/* svg.c - write a picture as SVG; see svg.h. */
#include "scheduler/tools/export/svg.h"

#include <stdio.h>
#include <string.h>

/* Colours that colour-blind people can distinguish, on light and dark
 * ground. */
static const char style[] =
    "<style>"
    ".c-bg{fill:#fff}.c-ink{fill:#1c1f24}.c-dim{fill:#5b626d}"
    ".c-grid{stroke:#e3e6ea}.c-axis{stroke:#8a919c}"
    ".c-s0{stroke:#1f6fd0;fill:#1f6fd0}.c-s1{stroke:#d1690b;fill:#d1690b}.c-s2{"
    "stroke:#14805e;fill:#14805e}"
    ".c-s3{stroke:#a8329a;fill:#a8329a}.c-s4{stroke:#7a6a00;fill:#7a6a00}.c-s5{"
    "stroke:#c2293f;fill:#c2293f}"
    ".c-s6{stroke:#5b4fc9;fill:#5b4fc9}.c-s7{stroke:#3d7d99;fill:#3d7d99}"
    ".c-rest{stroke:#999;fill:#999}.c-on{fill:#fff}"
    ".c-bar{stroke:#fff;stroke-width:.4}"
    "@media(prefers-color-scheme:dark){"
    ".c-bg{fill:#15181d}.c-ink{fill:#e8eaed}.c-dim{fill:#a3abb7}"
    ".c-grid{stroke:#2a2f37}.c-axis{stroke:#6b7380}"
    ".c-s0{stroke:#6fb1ff;fill:#6fb1ff}.c-s1{stroke:#ffa657;fill:#ffa657}.c-s2{"
    "stroke:#4fd1a1;fill:#4fd1a1}"
    ".c-s3{stroke:#e58bd8;fill:#e58bd8}.c-s4{stroke:#d9c54a;fill:#d9c54a}.c-s5{"
    "stroke:#ff7b88;fill:#ff7b88}"
    ".c-s6{stroke:#a79dff;fill:#a79dff}.c-s7{stroke:#7cc4e0;fill:#7cc4e0}"
    ".c-on{fill:#15181d}.c-bar{stroke:#15181d}}"
    ".c-line{fill:none;stroke-width:2;"
    "stroke-linejoin:round;stroke-linecap:round}"
    ".c-pale{stroke-opacity:.3;stroke-width:1}"
    ".c-dash,.c-d1{stroke-dasharray:6 5}.c-d2{stroke-dasharray:2 5}"
    ".c-d3{stroke-dasharray:10 5 2 5}.c-d4{stroke-dasharray:14 4}"
    ".c-d5{stroke-dasharray:6 4 2 4 2 4}.c-d6{stroke-dasharray:1 3}"
    ".c-d7{stroke-dasharray:18 4 6 4}.c-dot{stroke:none}"
    ".c-t{font:13px system-ui,sans-serif}.c-h{font:600 15px "
    "system-ui,sans-serif}.c-small{font:11px system-ui,sans-serif}"
    "</style>";

#define ADD(s, ...)                                              \
    do {                                                         \
        if ((s)->rc == 0)                                        \
            (s)->rc = buf_addf((s)->out, (s)->err, __VA_ARGS__); \
    } while (0)

enum { NUMBER_CAP = 32 };

static const char *number(double v, char out[NUMBER_CAP])
{
    int n = snprintf(out, NUMBER_CAP, "%.1f", v);
    if (n > 2 && n < NUMBER_CAP && strcmp(out + n - 2, ".0") == 0)
        out[n - 2] = '\0';
    return out;
}

void svg_add(struct svg *s, const char *raw)
{
    if (s->rc == 0)
        s->rc = buf_addstr(s->out, raw, s->err);
}

void svg_escape(struct svg *s, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        char one[2] = {(char)*p, '\0'};
        svg_add(s, *p == '&'                               ? "&amp;"
                   : *p == '<'                             ? "&lt;"
                   : *p == '>'                             ? "&gt;"
                   : *p == '"'                             ? "&quot;"
                   : *p == '\''                            ? "&#39;"
                   : *p < 0x20 && *p != '\t' && *p != '\n' ? "?"
                                                           : one);
    }
}

void svg_style(struct svg *s)
{
    svg_add(s, style);
}

/* ' x="64.5"' */
static void add_number(struct svg *s, const char *name, double v)
{
    char text[NUMBER_CAP];
    ADD(s, " %s=\"%s\"", name, number(v, text));
}

void svg_begin(struct svg *s, double width, double height, const char *label,
               const char *attributes, bool is_file)
{
    char w[NUMBER_CAP], h[NUMBER_CAP];
    if (is_file)
        svg_add(s, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    ADD(s,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" "
        "role=\"img\" aria-label=\"",
        number(width, w), number(height, h));
    svg_escape(s, label);
    ADD(s, "\"%s>", attributes);
    if (is_file)
        svg_style(s);
    ADD(s, "<rect width=\"%s\" height=\"%s\" class=\"c-bg\"/>", w, h);
}

void svg_end(struct svg *s)
{
    svg_add(s, "</svg>\n");
}

void svg_text(struct svg *s, double x, double y, const char *class,
              const char *anchor, const char *text)
{
    svg_add(s, "<text");
    add_number(s, "x", x);
    add_number(s, "y", y);
    ADD(s, " class=\"%s\" text-anchor=\"%s\">", class, anchor);
    svg_escape(s, text);
    svg_add(s, "</text>");
}

void svg_line(struct svg *s, double x1, double x2, double y1, double y2,
              const char *class)
{
    svg_add(s, "<line");
    add_number(s, "x1", x1);
    add_number(s, "x2", x2);
    add_number(s, "y1", y1);
    add_number(s, "y2", y2);
    ADD(s, " class=\"%s\"/>", class);
}

/* The end of an element that may have a tip. */
static void add_tip(struct svg *s, const char *element, const char *tip)
{
    if (!tip) {
        svg_add(s, "/>");
        return;
    }
    svg_add(s, "><title>");
    svg_escape(s, tip);
    ADD(s, "</title></%s>", element);
}

void svg_rect(struct svg *s, double x, double y, double width, double height,
              const char *class, const char *tip)
{
    ADD(s, "<rect class=\"%s\"", class);
    add_number(s, "x", x);
    add_number(s, "y", y);
    add_number(s, "width", width);
    add_number(s, "height", height);
    add_tip(s, "rect", tip);
}

void svg_dot(struct svg *s, double x, double y, const char *tip)
{
    svg_add(s, "<circle class=\"c-dot\"");
    add_number(s, "cx", x);
    add_number(s, "cy", y);
    add_number(s, "r", 4);
    add_tip(s, "circle", tip);
}

void svg_point(struct svg *s, double x, double y, bool *io_gap)
{
    char at[2][NUMBER_CAP];
    ADD(s, "%s%s %s", *io_gap ? "M" : "L", number(x, at[0]), number(y, at[1]));
    *io_gap = false;
}
