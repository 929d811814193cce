/* packing.h - rows put together to samples of max_seq_len tokens.
 *
 * Greedy, in the order of the rows: a row that does not fit into the sample
 * begins the next one. No row is cut.
 *
 * src  torchtune 0.6.1, PackedDataset with split_across_pack false
 */
#ifndef MGPU_WORKER_DATA_TEXT_PACKING_H
#define MGPU_WORKER_DATA_TEXT_PACKING_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/data/text/token_data.h"

/* Sample i is rows [first[i], first[i + 1]). */
struct packing {
    int32_t n;
    int32_t *first; /* [n + 1]; owned */
};

/* in   max_seq_len  0: a sample is a row; else no row is longer
 * out  ret  end it with packing_clear()
 * err  ERR_NOMEM */
int packing_of(const struct token_data *d, int32_t max_seq_len,
               struct packing *ret, struct error *err) MUST_CHECK;
void packing_clear(struct packing *p); /* NULL and zeroed are fine */

/* Tokens of sample i. */
int32_t packing_tokens(const struct packing *p, const struct token_data *d,
                       int32_t i);

#endif
