/* token_list.h - a list of token ids or labels that may grow beyond memory.
 *
 * A list begins in memory. With a file behind it, what was appended goes there
 * whenever its owner flushes the list, and memory holds the rest alone. */
#ifndef MGPU_WORKER_DATA_TEXT_TOKEN_LIST_H
#define MGPU_WORKER_DATA_TEXT_TOKEN_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct token_list {
    struct buf memory; /* int32_t: those behind the ones in the file */
    bool has_file;
    int fd;       /* with a file; owned */
    int64_t base; /* where the list begins in it */
    size_t bytes; /* of the list that are in it */
    uint64_t sum; /* CRC-64 of these */
};

void token_list_clear(struct token_list *l); /* zeroed is fine */

size_t token_list_values(const struct token_list *l);

/* A list without a file is here as a whole. Valid until the next call. */
const int32_t *token_list_data(const struct token_list *l);

/* From now on flushes write to the file, from offset base on.
 * in   l   without a file
 * own  fd  open for reading and writing */
void token_list_use_file(struct token_list *l, int fd, int64_t base);

/* Writes what is in memory to the file; nothing is left in memory.
 * in   l    with a file
 * err  ERR_IO, ERR_LIMIT; the list is as it was */
int token_list_flush(struct token_list *l, struct error *err) MUST_CHECK;

/* All of the list is in memory again, and the file is closed.
 * err  ERR_NOMEM, ERR_IO; the list is as it was */
int token_list_recall(struct token_list *l, struct error *err) MUST_CHECK;

/* Writes the list to fd, a piece of it at a time.
 * out  ret_sum  its CRC-64
 * err  ERR_IO, ERR_NOMEM */
int token_list_write(const struct token_list *l, int fd, uint64_t *ret_sum,
                     struct error *err) MUST_CHECK;

/* write(2) or pwrite(2) until all is written; at < 0: where the file is.
 * err  errno says why */
int token_list_write_all(int fd, const void *p, size_t n, int64_t at);

#endif
