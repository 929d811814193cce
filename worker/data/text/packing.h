/* packing.h - rows put together to samples of max_seq_len tokens.
 *
 * In order: a row that does not fit into the sample begins the next one; with
 * split, what does not fit of it does.
 *
 * Best fit: of each 1,024 rows in order, the longest first, a row goes to the
 * sample that has the least room for it, or begins one. So samples are fuller,
 * and rows are still near those that they were near. With split, rows that are
 * longer than a sample are cut.
 *
 * src  in order: torchtune 0.6.1, PackedDataset
 */
#ifndef MGPU_WORKER_DATA_TEXT_PACKING_H
#define MGPU_WORKER_DATA_TEXT_PACKING_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/data/text/token_data.h"

enum { PACKING_WINDOW = 1024 };

/* Tokens [at, at + n) of a row. */
struct pack_piece {
    int32_t row, at, n;
};

/* Sample i is pieces [first[i], first[i + 1]). */
struct packing {
    int32_t n;
    int32_t *first;           /* [n + 1]; owned */
    struct pack_piece *piece; /* owned */
};

struct packing_conf {
    int32_t max_seq_len; /* 0: a sample is a row */
    enum spec_packing order;
    bool split; /* otherwise no row is longer */
    bool pairs; /* a sample is two rows, without a limit */
};

/* out  ret  end it with packing_clear()
 * err  ERR_NOMEM
 * cost n log n */
int packing_of(const struct token_data *d, const struct packing_conf *conf,
               struct packing *ret, struct error *err) MUST_CHECK;
void packing_clear(struct packing *p); /* NULL and zeroed are fine */

/* Tokens of sample i. */
int32_t packing_tokens(const struct packing *p, int32_t i);

#endif
