/* data_rows.h - the rows of a data set: of one file or several, one behind the
 * other, each read as a stream.
 *
 * The name of a file says what it is, without an ending ".gz": .csv is a table
 * with commas, .tsv one with tabs, all else is JSON (json_rows.h).
 */
#ifndef MGPU_WORKER_DATA_ROWS_DATA_ROWS_H
#define MGPU_WORKER_DATA_ROWS_DATA_ROWS_H

#include "jobs/spec/spec_text.h"
#include "worker/data/rows/row.h"

/* The files of a data set, in order. */
struct data_files {
    char **path; /* owned */
    int32_t n;
};

/* in   path   a file, or a pattern as of glob(7) that names several
 *      below  names or patterns of files in the directory `path`; none: path
 *             is no directory
 * out  ret    1 or more files; end it with data_files_clear()
 * err  ERR_NOTFOUND no file has such a name; ERR_INVAL a directory;
 *      ERR_NOMEM */
int data_files_find(const char *path, const struct spec_list *below,
                    struct data_files *ret, struct error *err) MUST_CHECK;
void data_files_clear(struct data_files *f); /* zeroed is fine */

/* The separator of fields that the file's name implies; '\0': it is JSON. */
char data_rows_separator(const char *path);

/* inout  to  with take, arg, skip_bad and most; the rest is zero. What was
 *            left out is there also when the call fails.
 * err    ERR_INVAL "file: row 17: line 20: what is wrong"; ERR_LIMIT,
 *        ERR_NOTFOUND, ERR_IO, ERR_NOMEM */
int data_rows_read(const struct data_files *files, struct row_sink *to,
                   struct error *err) MUST_CHECK;

#endif
