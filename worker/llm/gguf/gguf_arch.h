/* gguf_arch.h - what a GGUF file says of a model's architecture.
 *
 * src  llama.cpp, conversion/base.py: set_gguf_parameters(),
 * conversion/llama.py and qwen.py; src/models/ for what is read of it */
#ifndef MGPU_WORKER_LLM_GGUF_ARCH_H
#define MGPU_WORKER_LLM_GGUF_ARCH_H

#include <jansson.h>

#include "worker/llm/config/llama_config.h"
#include "worker/llm/gguf/gguf_meta.h"

struct gguf_arch {
    const char *name; /* general.architecture, and before the keys */
    bool pairs;       /* gguf_tensors_list() */
    bool is_llama;    /* has the keys of that architecture alone */
};

/* Whether llama.cpp computes the model as it was trained.
 * in   config  the file, whose values c has
 * err  ERR_INVAL no such architecture, or a part of the model that it does not
 *      have: biases of Qwen3, llama3's rotation with Qwen, yarn with
 *      mscale or without truncate */
int gguf_arch_find(const struct llama_config *c, const json_t *config,
                   struct gguf_arch *ret, struct error *err) MUST_CHECK;

/* Appends sizes, rotation and windows. A window is written, but llama.cpp does
 * not read it for these architectures.
 * err  ERR_INVAL, ERR_NOMEM */
int gguf_arch_encode(const struct gguf_arch *a, const struct llama_config *c,
                     const json_t *config, struct gguf_meta *m,
                     struct error *err) MUST_CHECK;

#endif
