/* json_struct.h - read a struct from a JSON object and write it, by a table.
 *
 * A row has a key, its type, its range and its place in the struct. Reader and
 * writer use the same rows, so they cannot diverge. */
#ifndef MGPU_JOBS_WIRE_JSON_STRUCT_H
#define MGPU_JOBS_WIRE_JSON_STRUCT_H

#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/wire/json_scan.h"

enum json_kind {
    KIND_TEXT,   /* char[max]; at least min bytes */
    KIND_RAW,    /* char[max] of any bytes that are UTF-8; at least min in what
                  * is read */
    KIND_CLEAN,  /* char[max], read and written by text_copy() */
    KIND_STRING, /* const char *, borrowed; min..max bytes */
    KIND_U8,
    KIND_I32,
    KIND_U32,
    KIND_I64,
    KIND_U64,      /* at most INT64_MAX: jansson's limit */
    KIND_REAL,     /* double */
    KIND_POSITIVE, /* double above 0 */
    KIND_BOOL,
    KIND_UNLESS, /* bool: false, or the key is missing */
    KIND_FLAG,   /* bool: true, or the key is missing */
    KIND_CODE,   /* enum err_code, by its name */
    KIND_CONST,  /* an integer, always min; not in the struct */
};

enum {
    IS_NULLABLE = 1, /* null is, of a string, NULL, and of a REAL, infinite */
    IS_OPTIONAL = 2, /* a missing key leaves the struct as it is */
    IS_SPARSE = 4,   /* and an empty text, an integer below min or a number that
                      * is not finite is not written */
    IS_EMPTY_OK = 8, /* of a text: "" may be read although min is above 0 */
    IS_TRUSTED = 16, /* a number or a string is written without a check */
    IS_KEPT = 32,    /* json_struct_take() leaves it to the caller */
};

struct json_field {
    const char *key;
    enum json_kind kind;
    int flags;
    size_t at;
    int64_t min, max;
    /* What is wrong with a text ("must be .."), NULL: nothing. Without the
     * function any printable text is right. */
    const char *(*fault)(const char *text);
};

struct json_struct {
    const char *word; /* its name, for messages; NULL: a file, which the caller
                       * names. A missing key of it has a wrong type */
    const struct json_field *fields;
    size_t n;
};
#define JSON_FIELDS(t) (t), sizeof(t) / sizeof((t)[0])

enum { JSON_ANY_EXTRA = -1 };
/* in   m      the whole object, of a tree
 *      extra  how many other keys it has, which the caller reads;
 *             JSON_ANY_EXTRA: they are ignored
 * out  base   the struct; undefined after -1. Strings are the tree's
 * err  ERR_INVAL a key is missing or unknown, or a value is out of range */
int json_struct_read(const struct json_struct *t, const struct members *m,
                     int extra, void *base, struct error *err) MUST_CHECK;
/* Reads without checks of values: integers are truncated, texts cleaned. A
 * value of another type counts as missing, but for a real that may be null:
 * whatever is no number is infinite.
 *
 * in   keep  a missing value leaves the struct as it is; else it is 0, of a
 *            KIND_UNLESS true
 * out  ret   strings only of a tree, borrowed
 *
 * Returns -1, without an error, if a row that is not optional is missing. */
int json_struct_take(const struct json_struct *t, const struct members *m,
                     bool keep, void *ret) MUST_CHECK;
/* Adds the rows to o. A KIND_TEXT without a check of its own may have any
 * bytes: what is not printable is escaped, and cut to its space. err  ERR_INVAL
 * a value that the reader would refuse; ERR_NOMEM */
int json_struct_write(const struct json_struct *t, const void *base, json_t *o,
                      struct error *err) MUST_CHECK;
/* Appends o, without blanks. err ERR_NOMEM: out is unchanged */
int json_struct_dump(const json_t *o, struct buf *out,
                     struct error *err) MUST_CHECK;

/* Whether all of it is UTF-8 without control characters. */
bool json_struct_is_printable(const char *text);

#endif
