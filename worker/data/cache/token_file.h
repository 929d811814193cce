/* token_file.h - token data in a file: a header, ids, labels, rows and the
 * messages of rows that were left out, all in this machine's byte order. */
#ifndef MGPU_WORKER_DATA_CACHE_TOKEN_FILE_H
#define MGPU_WORKER_DATA_CACHE_TOKEN_FILE_H

#include "worker/data/cache/cache_trust.h"
#include "worker/data/text/token_data.h"

/* Writes PATH.tmp, syncs and renames it; no part of a file is ever at path.
 * Ids that are in a file are in PATH.tmp already, from token_file_base() on.
 * err  ERR_IO, ERR_LIMIT, ERR_NOMEM; PATH.tmp is removed, d is as it was */
int token_file_write(const char *path, struct token_data *d,
                     struct error *err) MUST_CHECK;

/* Offset of the ids in a file. */
int64_t token_file_base(void);

/* Conditions that a file must meet to be used. */
struct token_file_want {
    const struct cache_trust *trust; /* NULL: the file is anybody's */
    int32_t files;                   /* of the data */
    int32_t longest; /* that a row may be; 0: as long as it is */
    bool pairs;      /* two rows of each */
};

/* Reads rows into memory, and all tokens once. Nothing of the header is taken
 * that does not follow from these; the file stays open, and its tokens are read
 * when they are needed (token_data_read()). A map in place of that would end
 * the job by SIGBUS when the file is cut, and what was checked could change
 * after the check; and all ranks share what the kernel holds of a file, too.
 * out  ret  as of token_data_open(), but for its files
 * err  ERR_NOTFOUND; ERR_INVAL it is damaged, or of another version, or no
 *      regular file; ERR_DENIED it is not trusted; ERR_IO, ERR_NOMEM
 * cost memory: 32 bytes a row */
int token_file_read(const char *path, const struct token_file_want *want,
                    struct token_data *ret, struct error *err) MUST_CHECK;

#endif
