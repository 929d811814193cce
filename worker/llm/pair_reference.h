/* pair_reference.h - train.loss.precompute_reference: log p of each pair by the
 * reference, which does not change, computed once and kept.
 *
 * The ranks share the pairs among them. Rank 0 keeps the result in the cache of
 * the data, under the SHA-256 of what it follows from: the base's values, their
 * type, what a pass takes from its config.json, the device, and the tokens.
 * Another job with the same reads it.
 */
#ifndef MGPU_WORKER_LLM_PAIR_REFERENCE_H
#define MGPU_WORKER_LLM_PAIR_REFERENCE_H

#include "worker/batch.h"
#include "worker/model.h"

/* Implements model_kind.prepare; does nothing unless the job asks for it.
 * in   source  of token_batches_open()
 *      m       of llama_create()
 * err  the device's, the ranks'; ERR_NOMEM. A cache that cannot be used is
 *      said, and is no error */
int pair_reference_prepare(const struct batch_env *env,
                           struct batch_source *source, struct model *m,
                           struct error *err) MUST_CHECK;

#endif
