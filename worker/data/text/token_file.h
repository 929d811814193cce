/* token_file.h - token data in a file: a header, ids, labels, rows and the
 * messages of rows that were left out, all in this machine's byte order. */
#ifndef MGPU_WORKER_DATA_TEXT_TOKEN_FILE_H
#define MGPU_WORKER_DATA_TEXT_TOKEN_FILE_H

#include "worker/data/text/token_data.h"

/* Writes PATH.tmp, syncs and renames it; no part of a file is ever at path.
 * Ids that are in a file are in PATH.tmp already, from token_file_base() on.
 * err  ERR_IO, ERR_LIMIT, ERR_NOMEM; PATH.tmp is removed, d is as it was */
int token_file_write(const char *path, struct token_data *d,
                     struct error *err) MUST_CHECK;

/* Where ids begin in a file. */
int64_t token_file_base(void);

/* Maps the file.
 * out  ret  as of token_data_open(), but for its files
 * err  ERR_NOTFOUND; ERR_INVAL it is damaged, or of another version; ERR_IO */
int token_file_read(const char *path, struct token_data *ret,
                    struct error *err) MUST_CHECK;

#endif
