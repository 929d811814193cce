/* token_read.h - rows of files as tokens, in order, on several threads.
 *
 * One thread, the caller's, reads the files and hands their rows out in
 * batches; others tokenise them. The batches come back in the order of the
 * files, so that the result, and which bad row is named, do not depend on the
 * number of threads. Memory is bounded by the bytes of rows that are on their
 * way, whatever the size of the files. */
#ifndef MGPU_WORKER_DATA_TEXT_TOKEN_READ_H
#define MGPU_WORKER_DATA_TEXT_TOKEN_READ_H

#include "worker/data/text/token_encode.h"

struct token_reading {
    const struct token_conf *conf;
    const struct data_files *files;
    int32_t most; /* rows from the beginning; 0: all */
    /* Gets the tokens of the next rows, in the caller's thread. */
    int (*take)(void *arg, const struct token_part *part, struct error *err);
    void *arg;
};

/* Counts of what was read. */
struct token_read {
    int32_t rows; /* bad ones as well */
    struct rows_skipped skipped;
    struct row_keys unread; /* of messages */
};

/* err  of the first row that cannot be left out: ERR_INVAL "file: row 17: line
 *      20: what is wrong"; as data_rows_read(), token_encode() and take(). ret
 *      is filled in then as well */
int token_read(const struct token_reading *r, struct token_read *ret,
               struct error *err) MUST_CHECK;

#endif
