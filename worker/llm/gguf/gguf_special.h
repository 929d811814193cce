/* gguf_special.h - the special tokens of a GGUF file, and its chat template.
 *
 * src  llama.cpp, gguf-py/gguf/vocab.py: SpecialVocab */
#ifndef MGPU_WORKER_LLM_GGUF_SPECIAL_H
#define MGPU_WORKER_LLM_GGUF_SPECIAL_H

#include "worker/llm/gguf/gguf_vocab.h"

/* Appends the ids of bos, eos, unk and pad, as tokenizer_config.json names them
 * or config.json has them; whether bos and eos stand around a text, as
 * tokenizer.json's template or tokenizer_config.json says; and the chat
 * template, which is that of transformers.
 * in   dir     of the model
 *      config  its config.json
 * err  ERR_NOMEM */
int gguf_special_encode(const char *dir, const json_t *config,
                        const struct gguf_vocab *v, struct gguf_meta *m,
                        struct error *err) MUST_CHECK;

#endif
