/* lines.h - the lines and fields of a text file, with their places.
 *
 * A finding about a file reads "FILE:LINE:COLUMN: what is wrong", with exit
 * status 65. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_LINES_H
#define MGPU_SCHEDULER_SIM_TRACE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { FIELDS_MAX = 192 }; /* sacct --format=ALL has 120 */

struct lines {
    const char *file;
    struct buf text; /* cut into strings as it is read */
    char *next;
    int32_t line; /* the present one, from 1 */
    size_t n;     /* its fields */
    char *field[FIELDS_MAX];
    int32_t column[FIELDS_MAX]; /* from 1 */
};

/* Reads the file, which may be compressed.
 * own  lines_clear() */
int lines_open(struct lines *l, const char *file, struct error *err) MUST_CHECK;
/* The same for a text in memory; copies it. */
int lines_text(struct lines *l, const char *file, const char *text, size_t len,
               struct error *err) MUST_CHECK;
void lines_clear(struct lines *l);

/* The next line that is not blank, cut at each `sep` into fields without
 * blanks around them; sep ' ': at runs of blanks; sep '\0': one field. False:
 * there is none. A line with
 * more than FIELDS_MAX fields has the rest in the last one. */
bool lines_next(struct lines *l, char sep);

/* err := "FILE:LINE:COLUMN: ..." for field i. Returns -1. */
int lines_error(const struct lines *l, size_t i, struct error *err,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Field i as a number within [min, max].
 * err  ERR_INVAL with its place, what is allowed and `what` it is */
int lines_real(const struct lines *l, size_t i, const char *what, double min,
               double max, double *ret, struct error *err) MUST_CHECK;
int lines_int(const struct lines *l, size_t i, const char *what, int64_t min,
              int64_t max, int64_t *ret, struct error *err) MUST_CHECK;
/* Field i as a name: not empty, printable, shorter than cap. */
int lines_name(const struct lines *l, size_t i, const char *what, char *ret,
               size_t cap, struct error *err) MUST_CHECK;
/* Requires exactly n fields; `form` names them. */
int lines_count(const struct lines *l, size_t n, const char *form,
                struct error *err) MUST_CHECK;

#endif
