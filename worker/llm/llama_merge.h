/* llama_merge.h - a model directory of a base and an adapter:
 * W + (alpha / rank) B A.
 *
 * W is as it is in the base, also where the adapter was trained beside what
 * four bits leave of it.
 *
 * Products and sums are double, rounded once to the type that W has in the
 * base. Files and the tensors in them are those of the base. An adapter of the
 * output layer unties it from the embedding: the merged model has a
 * lm_head.weight of its own, in the last file, and config.json says so.
 */
#ifndef MGPU_WORKER_LLM_LLAMA_MERGE_H
#define MGPU_WORKER_LLM_LLAMA_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct llama_merge {
    const char *dir;     /* the base */
    const char *adapter; /* a directory of PEFT's files */
    const char *out;     /* absent, or an empty directory */
};

struct llama_merged {
    int32_t linears;    /* with an adapter */
    size_t files;       /* of weights */
    bool is_untied;     /* the adapter has the output layer of a tied base */
    bool has_own_head;  /* llama_config.is_untied of the base */
    char quantizer[16]; /* adapter_config.quantizer */
};

/* Writes into "OUT.partial", which becomes OUT when it is complete. A failure
 * removes it.
 * err  ERR_INVAL files that do not fit each other; a value that is not finite,
 *      in the base, the adapter or the result; it is named. ERR_STATE there is
 *      something in OUT, or OUT.partial is there. ERR_NOTFOUND, ERR_IO,
 *      ERR_NOMEM */
int llama_merge(const struct llama_merge *conf, struct llama_merged *ret,
                struct error *err) MUST_CHECK;

#endif
