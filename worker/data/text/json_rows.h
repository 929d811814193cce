/* json_rows.h - the rows of a JSON file: the elements of one array, or one
 * value a line (JSON Lines).
 *
 * The first character decides: "[" begins an array. Text is strict UTF-8 and a
 * key occurs once in an object. Lines of white space alone are no rows.
 */
#ifndef MGPU_WORKER_DATA_TEXT_JSON_ROWS_H
#define MGPU_WORKER_DATA_TEXT_JSON_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

/* Rows that are left out. */
struct json_skipped {
    int32_t n;
    struct error first; /* why, of the first of these */
};

struct json_ask {
    const char *path;
    int32_t most; /* so many rows from the beginning; 0: all */
    /* Leaves out a row for which take() fails with ERR_INVAL, and a line that
     * is no JSON. An array that is no JSON is an error all the same. */
    bool skip_bad;
    /* A row, and its number in the file from 1 on; borrowed until take()
     * returns. */
    int (*take)(void *arg, const json_t *row, int32_t number,
                struct error *err);
    void *arg;
};

/* out  ret_skipped  always set
 * err  ERR_INVAL "PATH: row 17: line 20: what is wrong"; rows and lines count
 *      from 1; ERR_NOTFOUND, ERR_IO, ERR_NOMEM; ERR_LIMIT 2 GiB or more */
int json_rows_read(const struct json_ask *ask, struct json_skipped *ret_skipped,
                   struct error *err) MUST_CHECK;

#endif
