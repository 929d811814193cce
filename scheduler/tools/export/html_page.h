/* html_page.h - write an HTML report in memory, with its style, tables and
 * facts.
 *
 * Writing into memory fails only when memory runs out. So each part only
 * records a failure (`bad`), and the end reports it. Text from outside is
 * escaped.
 */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_HTML_PAGE_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_HTML_PAGE_H

#include "jobs/base/buf.h"

struct page {
    struct buf out; /* owned by who began it */
    int bad;
};

/* Begins with the style and what a browser may load: nothing. */
void page_begin(struct page *p);
void page_add(struct page *p, const char *raw);
void page_say(struct page *p, const char *text); /* escaped */
void page_cell(struct page *p, const char *class, const char *text);
/* Begins a table. A title, or "<attempt" for a left-aligned column of text;
 * NULL ends the list. */
void page_heads(struct page *p, const char *const *titles);
/* One fact of a list; "" and "-" are none. */
void page_fact(struct page *p, const char *name, const char *value);

#endif
