/* html_page.h - write an HTML report in memory, with its style, tables and
 * facts.
 *
 * Writing into memory fails only when memory runs out. So each part only
 * records a failure (`bad`), and the end reports it. Text from outside is
 * escaped.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_HTML_PAGE_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_HTML_PAGE_H

#include <jansson.h>

#include "jobs/base/buf.h"
#include "scheduler/tools/export/chart.h"

struct page {
    struct buf out, data; /* data: of the charts, and of more, as JSON */
    int bad;
    size_t n_charts;
};

/* Begins with the style and what a browser may load: nothing. The only script
 * that it may run is report.js. */
void page_begin(struct page *p);
/* Ends with the data and the script. `name` and `more` (may be NULL; borrowed)
 * are a further member of the data. */
void page_end(struct page *p, const char *name, const json_t *more);
void page_clear(struct page *p);
/* "Job 12 name", of the document and as its heading. */
void page_title(struct page *p, const char *what, const char *id,
                const char *name);
void page_add(struct page *p, const char *raw);
void page_say(struct page *p, const char *text); /* escaped */
void page_cell(struct page *p, const char *class, const char *text);
/* Begins a table. A title, or "<attempt" for a left-aligned column of text;
 * NULL ends the list. */
void page_heads(struct page *p, const char *const *titles);
/* A chart with the values of its lines below it, and in the data; nothing
 * without a point. */
void page_chart(struct page *p, const struct chart *c);
/* The last cell of a row: a bar as long as the share, 0..1; NAN: none. */
void page_bar(struct page *p, double share);
/* One fact of a list; "" and "-" are none. */
void page_fact(struct page *p, const char *name, const char *value);

#endif
