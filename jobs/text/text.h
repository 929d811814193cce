/* text.h - text that strangers wrote: UTF-8, quoting, spelling.
 *
 * Whatever a user typed may end on a terminal or in a JSON document, so it
 * passes through here first: a terminal must never act on it, and a reader
 * must see characters that have no shape.
 */
#ifndef MGPU_JOBS_TEXT_TEXT_H
#define MGPU_JOBS_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* The code point at *p; moves *p on. -1 and one byte on when the bytes are
 * not UTF-8: overlong forms, surrogates and above U+10FFFF included. */
int32_t text_next(const char **p, const char *end);

/* Refused in every file and value: C0 but tab and line ends, DEL, C1, the
 * separators U+2028 and U+2029, the byte order mark and U+FFFE, U+FFFF. */
bool text_is_control(int32_t cp);

/* Appends s for a terminal: control, bidi and zero-width characters and
 * bytes that are not UTF-8 as \x1b or \u202e; a tab as a space. */
int text_add_plain(struct buf *out, const char *s, size_t len,
                   struct error *err) MUST_CHECK;

/* The same into a fixed buffer; ends in "..." when cut. Returns out. */
enum { TEXT_QUOTE_CAP = 80 };
const char *text_quote(char *out, size_t cap, const char *s);

/* How many columns text_add_plain() makes of one code point. */
int text_columns(int32_t cp);

/* Appends s as a JSON string in its quotes, which is YAML as well. */
int text_add_json(struct buf *out, const char *s, struct error *err) MUST_CHECK;

/* The least number of insertions, deletions and replacements that make b
 * of a; 3 for "3 or more". */
int text_distance(const char *a, const char *b);

/* Does a job's place, "n1:0,1 n2:0", name the node? */
bool text_place_has(const char *place, const char *node);

#endif
