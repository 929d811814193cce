/* render.h - how the tools print tables, times and bars; never a control byte.
 *
 * All text from outside (names, reasons, log lines) passes through
 * render_escape(): the name of a job cannot move the cursor.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_RENDER_H
#define MGPU_SCHEDULER_TOOLS_COMMON_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/text/render_time.h"

struct render_style {
    int columns; /* 0: not a terminal, and nothing is cut */
    int rows;    /* of a terminal */
    bool colour; /* a terminal, and neither NO_COLOR nor TERM=dumb */
    bool ascii;  /* the locale is not UTF-8 */
};
void render_style_init(struct render_style *s, FILE *out);
/* Parses --color: "auto" is 0, "always" 1 and "never" -1. err ERR_USAGE */
int render_colour(const char *when, int *ret, struct error *err) MUST_CHECK;

/* ---- tables: cells are copied ----------------------------------------------
 */
/* KEY: left-aligned and never cut, because a user has to type it. */
enum render_align { RENDER_LEFT, RENDER_RIGHT, RENDER_KEY };
struct render_column {
    const char *title;
    enum render_align align;
};
struct render_table;
/* Highlighting of a word: green, red, yellow. */
enum render_paint { RENDER_PLAIN, RENDER_GOOD, RENDER_BAD, RENDER_ODD };
enum { RENDER_COLUMNS_MAX = 64 };

int render_table_create(const struct render_column *columns, size_t n,
                        struct render_table **ret,
                        struct error *err) MUST_CHECK;
void render_table_destroy(struct render_table *t); /* NULL is fine */
/* Adds cells from left to right, row by row. */
int render_table_add(struct render_table *t, struct error *err, const char *fmt,
                     ...) __attribute__((format(printf, 3, 4))) MUST_CHECK;
int render_table_put(struct render_table *t, const char *text,
                     struct error *err) MUST_CHECK;
/* Highlights the cell that was added last. */
void render_table_paint(struct render_table *t, enum render_paint paint);
/* The rows that follow are printed before all rows so far. */
int render_table_turn(struct render_table *t, struct error *err) MUST_CHECK;
/* Prints the table. Each column is as wide as its widest cell. On a narrow
 * terminal the widest text columns shrink; a cut cell ends in '+'. Figures,
 * which are right-aligned, are not cut: if the rest is not enough, the last
 * columns are left out, and a line names them. No line ends in a blank. */
void render_table_print(const struct render_table *t,
                        const struct render_style *s, bool header, FILE *out);

/* ---- words
 * ------------------------------------------------------------------- */
/* The sequences before and after a highlighted word; "" without colour. */
const char *render_paint(const struct render_style *s, enum render_paint paint);
const char *render_unpaint(const struct render_style *s,
                           enum render_paint paint);
/* The width of the character at p, 0 to 2 columns, and its bytes. An invalid
 * byte has width 1. */
int render_char(const char *p, size_t *ret_bytes);
/* Copies text to out, with control characters, invisible characters, direction
 * marks and invalid UTF-8 as \xNN; at most cap - 1 bytes. Returns out. */
char *render_escape(const char *text, char *out, size_t cap);
/* Wraps lines longer than `columns`, between two parts (two or more blanks
 * separate them), else at a blank; the continuation is indented to the text. */
void render_wrapped(const char *text, int columns, FILE *out);
/* An accuracy of 0 to 1 as "95.50 %"; a program may report another scale, which
 * is shown as it is: "95.5"; "-" for NAN. */
char *render_accuracy(double v, char *out, size_t cap);
/* "312 B", "37.6 MiB"; "-" for NAN. */
char *render_bytes(double n, char *out, size_t cap);
/* 1234567 -> "1,234,567". */
char *render_count(long long n, char *out, size_t cap);
/* Draws n values as at most `width` bars; a bar shows the mean of its values.
 * NAN is a gap. */
char *render_spark(const double *v, size_t n, size_t width, bool ascii,
                   char *out, size_t cap);

/* The q-quantile (0..1) of n values, linearly interpolated; sorts v in
 * place. NAN when n is 0. */
double render_quantile(double *v, size_t n, double q);

#endif
