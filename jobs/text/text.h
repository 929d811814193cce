/* text.h - handle untrusted text: UTF-8, quoting, similarity.
 *
 * A user's text may end up on a terminal or in a JSON document, so it passes
 * through these functions first: it must not control a terminal, and invisible
 * characters must be shown. */
#ifndef MGPU_JOBS_TEXT_TEXT_H
#define MGPU_JOBS_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

/* The code point at *p; moves *p past it. -1 and one byte further if the bytes
 * are not UTF-8: this includes overlong forms, surrogates and code points above
 * U+10FFFF. */
int32_t text_next(const char **p, const char *end);

/* Refused in every file and value: C0 except tab and line ends, DEL, C1, the
 * separators U+2028 and U+2029, the byte order mark and U+FFFE, U+FFFF. */
bool text_is_control(int32_t cp);

/* Copies src, cut at cap - 1 bytes between characters; every byte that is not
 * UTF-8, and every control character of ASCII, becomes '?'. text_copy_n()
 * copies at most n bytes of src. */
void text_copy(char *dst, size_t cap, const char *src);
void text_copy_n(char *dst, size_t cap, const char *src, size_t n);
/* The same, but a text that is too long keeps its begin and its end, whole
 * words with " ... " between them. */
void text_fit(char *dst, size_t cap, const char *src);

/* Appends s for a terminal: control, bidi and zero-width characters and bytes
 * that are not UTF-8 as \x1b or \u202e; a tab as a space. */
int text_add_plain(struct buf *out, const char *s, size_t len,
                   struct error *err) MUST_CHECK;

/* The same into a fixed buffer; ends in "..." if truncated. Returns out. */
enum { TEXT_QUOTE_CAP = 80 };
const char *text_quote(char *out, size_t cap, const char *s);

/* The number of columns that text_add_plain() writes for a code point. */
int text_columns(int32_t cp);

/* Appends s as a JSON string in quotes, which is also valid YAML. */
int text_add_json(struct buf *out, const char *s, struct error *err) MUST_CHECK;

/* Appends s as a field of CSV, in quotes where it needs them. A text that a
 * spreadsheet would take for a formula has an apostrophe before it: one that
 * begins with = + - @, a tab or a line end, and is no number. */
int text_add_csv(struct buf *out, const char *s, struct error *err) MUST_CHECK;

/* The smallest number of insertions, deletions and replacements that turn a
 * into b; 3 means "3 or more". */
int text_distance(const char *a, const char *b);

/* Whether a job's place, "n1:0,1 n2:0", contains the node. */
bool text_place_has(const char *place, const char *node);

#endif
