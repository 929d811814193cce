/* token_cut.h - which tokens of a row have labels, and what a cut takes. */
#ifndef MGPU_WORKER_DATA_ROWS_TOKEN_CUT_H
#define MGPU_WORKER_DATA_ROWS_TOKEN_CUT_H

#include <stdint.h>

#include "jobs/base/buf.h"

/* A row may have so many tokens behind a cut: those behind are neither read nor
 * counted, so that no row takes longer than this allows. */
enum { TOKEN_CUT_COUNTED = 1 << 20 };

/* Labels of the row that begins at token `first`, but for that token's: nothing
 * before it predicts it. */
int32_t token_cut_labelled(const struct buf *labels, size_t first);

/* Gives all tokens of the row labels, but for its first n, which get none. */
void token_cut_label(const struct buf *ids, struct buf *labels, size_t first,
                     size_t n);

/* Removes what is behind the row's first `most` tokens; 0: nothing. The
 * labelled tokens that it took, or -1: the row is not longer. */
int32_t token_cut(struct buf *ids, struct buf *labels, size_t first,
                  size_t most);

#endif
