/* html_page.c - the parts that all HTML reports are made of; see html_page.h.
 */
#include "scheduler/tools/export/html_page.h"

#include <string.h>

#include "scheduler/tools/export/chart.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; style-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<style>:root{--bg:#f4f5f7;--card:#fff;--ink:#1c1f24;--dim:#5b626d;"
    "--rule:#e3e6ea;--bar:#1f6fd0;--ok:#14805e;--no:#c2293f;--on:#1f6fd0}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1014;--card:#15181d;"
    "--ink:#e8eaed;--dim:#a3abb7;--rule:#2a2f37;--bar:#6fb1ff;--ok:#4fd1a1;"
    "--no:#ff7b88;--on:#6fb1ff}}\n"
    "body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 "
    "system-ui,sans-serif}main{max-width:1100px;margin:0 auto;padding:24px "
    "16px 64px}h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:32px "
    "0 10px}section,.card{background:var(--card);border:1px solid var(--rule);"
    "border-radius:10px;padding:14px 16px}\n"
    ".state{font-weight:600}.ok{color:var(--ok)}.no{color:var(--no)}"
    ".on{color:var(--on)}.dim{color:var(--dim)}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));"
    "gap:10px 24px;margin:0}dt{color:var(--dim);font-size:13px}dd{margin:0;"
    "overflow-wrap:anywhere}\n"
    ".charts{display:grid;gap:14px;grid-template-columns:"
    "repeat(auto-fit,minmax(min(480px,100%),1fr))}.charts svg{display:block;"
    "width:100%;height:auto}.charts .card{padding:6px}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:right;padding:5px 12px 5px 0;border-bottom:1px solid "
    "var(--rule);white-space:nowrap;font-variant-numeric:tabular-nums}"
    "th{color:var(--dim);font-weight:500;font-size:13px}"
    "th.l,td.l{text-align:left}td.w{white-space:normal;min-width:18em;text-"
    "align:left;"
    "overflow-wrap:anywhere}td{vertical-align:top}tr:last-child "
    "td{border-bottom:0}\n"
    ".bar{height:8px;border-radius:4px;background:var(--bar);min-width:1px}"
    "td.b{width:45%;vertical-align:middle}pre{margin:0;overflow-x:auto;font:"
    "13px/1.5 "
    "ui-monospace,monospace}</style>\n";

void page_add(struct page *p, const char *raw)
{
    p->bad |= buf_addstr(&p->out, raw, NULL);
}

void page_say(struct page *p, const char *text)
{
    p->bad |= chart_escape(text, &p->out, NULL);
}

void page_cell(struct page *p, const char *class, const char *text)
{
    p->bad |= buf_addf(&p->out, NULL, "<td class=\"%s\">", class);
    page_say(p, text);
    page_add(p, "</td>");
}

void page_heads(struct page *p, const char *const *titles)
{
    page_add(p, "<div class=\"scroll\"><table><tr>");
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
    buf_init(&p->out);
    p->bad = 0;
    page_add(p, head);
}
