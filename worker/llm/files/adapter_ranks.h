/* adapter_ranks.h - which linears of a model have an adapter, and its rank and
 * alpha, where an adapter_config.json makes them differ: by rank_pattern,
 * alpha_pattern, layers_to_transform, or an expression for target_modules.
 *
 * src  PEFT 0.21.2: utils/other.py, get_pattern_key(); tuners/tuners_utils.py,
 *      check_target_module_exists(); tuners/lora/model.py
 */
#ifndef MGPU_WORKER_LLM_FILES_ADAPTER_RANKS_H
#define MGPU_WORKER_LLM_FILES_ADAPTER_RANKS_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/llm/files/adapter_file.h"

/* Of the linears of a layer, by adapter_target_index(). */
struct adapter_layer {
    int32_t rank[LORA_TARGETS]; /* 0: it has none */
    double alpha[LORA_TARGETS]; /* as in struct adapter_config */
    /* Of the layers before it: sums of the ranks, and how many linears have an
     * adapter. */
    int64_t before[LORA_TARGETS];
    int32_t linears;
};

struct adapter_ranks {
    int32_t layers, least, most; /* ranks of any linear */
    struct adapter_layer *layer; /* [layers], and the output layer's; NULL: all
                                  * linears are as struct adapter_config says */
    char *keys; /* the keys of the file that say so, a JSON object */
};

/* Reads both files of a directory. An expression for target_modules is taken
 * at its tensors: the linears that have one are those that it names.
 * in   layers     of the model
 * out  ret_ranks  the caller clears it
 * err  those of adapter_config_read() and adapter_open(); ERR_INVAL a key is
 *      not understood, or names no linear of such a model; ERR_NOMEM */
int adapter_read(const char *dir, int32_t layers, struct adapter_config *ret,
                 struct adapter_ranks *ret_ranks, struct error *err) MUST_CHECK;
/* The same of a text that adapter_config_parse() has read as c, with the
 * tensors beside it. */
int adapter_ranks_parse(const char *text, size_t len,
                        const struct adapter_config *c, int32_t layers,
                        const struct safetensors *tensors,
                        struct adapter_ranks *ret,
                        struct error *err) MUST_CHECK;
/* err  ERR_NOMEM */
int adapter_ranks_copy(const struct adapter_ranks *from,
                       struct adapter_ranks *ret, struct error *err) MUST_CHECK;
void adapter_ranks_clear(struct adapter_ranks *r);

/* The module's name in the base model: "model.layers.0.mlp.up_proj",
 * "lm_head". */
enum { ADAPTER_MODULE_CAP = 64 };
void adapter_module(enum lora_target t, int32_t layer,
                    char ret[ADAPTER_MODULE_CAP]);

#endif
