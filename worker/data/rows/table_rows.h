/* table_rows.h - the rows of a table as text, CSV or TSV: objects whose members
 * are the columns that the first line names, all of them texts.
 *
 * A field in quotes holds separators, line ends and, doubled, quotes. Lines
 * without a character are no rows.
 *
 * src  RFC 4180
 */
#ifndef MGPU_WORKER_DATA_ROWS_TABLE_ROWS_H
#define MGPU_WORKER_DATA_ROWS_TABLE_ROWS_H

#include "worker/data/rows/gz_stream.h"
#include "worker/data/rows/row.h"

/* Quotes that do not end are an error also where bad rows are left out: they
 * hold what follows in the file.
 * in   separator  ',' or '\t'
 * err  not NULL. ERR_INVAL with row, line and column; ERR_LIMIT a row of more
 *      than ROW_BYTES_MAX; ERR_IO, ERR_NOMEM */
int table_rows_read(struct gz_stream *s, char separator, struct row_sink *to,
                    struct error *err) MUST_CHECK;

#endif
