/* gguf_export.h - a model directory as one GGUF file, for llama.cpp and the
 * programs that are made of it. */
#ifndef MGPU_WORKER_LLM_GGUF_EXPORT_H
#define MGPU_WORKER_LLM_GGUF_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/llm/gguf/gguf_values.h"

struct gguf_export {
    const char *dir;     /* of a model, with full weights and a tokenizer */
    const char *out;     /* the file, which is absent */
    enum gguf_type type; /* of the matrices; not GGUF_F32 */
};

struct gguf_exported {
    int32_t tensors;
    int64_t bytes;  /* of the file */
    int32_t floats; /* matrices that are f16 where q8_0 was asked for */
    int32_t window; /* tokens, which llama.cpp does not read; 0: none */
    bool has_template;
    bool has_own_head; /* llama_config.is_untied */
};

/* in   word  "f16", "bf16" or "q8_0"
 * out  ret   untouched if it is none of them */
bool gguf_export_type(const char *word, enum gguf_type *ret);

/* Writes OUT.tmp, which is synced and becomes OUT when it is complete. A
 * failure removes it. Memory is that of the vocabulary and some rows.
 * err  ERR_STATE OUT exists. ERR_INVAL DIR is an adapter, or a model that
 *      llama.cpp would compute otherwise; a tokenizer that it has no name for;
 *      a value that is not finite, or does not fit the type.
 *      ERR_NOTFOUND, ERR_IO, ERR_NOMEM */
int gguf_export(const struct gguf_export *conf, struct gguf_exported *ret,
                struct error *err) MUST_CHECK;

#endif
