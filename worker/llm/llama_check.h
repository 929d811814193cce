/* llama_check.h - whether files have the tensors that a Llama needs, and no
 * others. */
#ifndef MGPU_WORKER_LLM_LLAMA_CHECK_H
#define MGPU_WORKER_LLM_LLAMA_CHECK_H

#include "worker/llm/files/hf_dir.h"
#include "worker/llm/llama_shape.h"

/* config.json of a directory, and what its files make of it: with
 * tie_word_embeddings and an "lm_head.weight" of other values than the
 * embeddings the model is not tied, as transformers has it. Files that cannot
 * be opened are left to those who load them.
 * in   files  as hf_open()
 * err  those of llama_config_read() */
int llama_read_dir(const char *dir, const struct spec_list *files,
                   struct llama_config *ret, struct error *err) MUST_CHECK;
extern const char llama_untied_words[]; /* for people: that it is so */

/* Buffers have the frequencies that config.json gives.
 * err  as hf_check() */
int llama_check_weights(const struct hf_dir *h, const struct llama_shape *s,
                        struct error *err) MUST_CHECK;

/* Each adapter of the shape is there, and each tensor of the file is one. PEFT
 * copies the frozen weights of the output layer beside its adapter; these must
 * be those of the base, but for rounding to either's type.
 * err  ERR_INVAL one is missing, has another shape or type, has no linear, or
 *      is a copy of another base; it is named */
int llama_check_adapters(const struct safetensors *f, const struct hf_dir *base,
                         const struct llama_shape *s,
                         struct error *err) MUST_CHECK;

#endif
