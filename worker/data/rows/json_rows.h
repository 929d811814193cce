/* json_rows.h - the rows of JSON text: the elements of one array, or one value
 * a line (JSON Lines).
 *
 * The first character decides: "[" begins an array. Text is strict UTF-8 and a
 * key occurs once in an object. Lines of white space alone are no rows. Rows
 * are parsed one by one, so that memory is needed for one alone.
 */
#ifndef MGPU_WORKER_DATA_ROWS_JSON_ROWS_H
#define MGPU_WORKER_DATA_ROWS_JSON_ROWS_H

#include "worker/data/rows/gz_stream.h"
#include "worker/data/rows/row.h"

/* An element that cannot be parsed can be left out, if its brackets and quotes
 * say where it ends. What is between elements is an error also then.
 * err  not NULL. ERR_INVAL with row and line, which count from 1; ERR_LIMIT a
 *      row of more than ROW_BYTES_MAX; ERR_IO, ERR_NOMEM */
int json_rows_read(struct gz_stream *s, struct row_sink *to,
                   struct error *err) MUST_CHECK;

#endif
