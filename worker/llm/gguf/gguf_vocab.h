/* gguf_vocab.h - the tokens of a GGUF file.
 *
 * A sentencepiece model, or a tokenizer.json with tokens for bytes, becomes the
 * model "llama", whose merges are the tokens' scores; a tokenizer.json with a
 * BPE of bytes becomes "gpt2", which has merges, and a name for how a text is
 * cut before them.
 *
 * src  llama.cpp, conversion/base.py: _create_vocab_sentencepiece(),
 *      get_vocab_base(); gguf-py/gguf/vocab.py */
#ifndef MGPU_WORKER_LLM_GGUF_VOCAB_H
#define MGPU_WORKER_LLM_GGUF_VOCAB_H

#include <jansson.h>

#include "worker/llm/gguf/gguf_meta.h"

/* Those of sentencepiece. */
enum gguf_token_type {
    GGUF_TOKEN_NORMAL = 1,
    GGUF_TOKEN_UNKNOWN = 2,
    GGUF_TOKEN_CONTROL = 3,
    GGUF_TOKEN_USER = 4,
    GGUF_TOKEN_UNUSED = 5,
    GGUF_TOKEN_BYTE = 6,
};

struct gguf_token {
    size_t at; /* of its text */
    uint32_t len;
    enum gguf_token_type type;
    float score;
};

/* Zeroed: none. */
struct gguf_vocab {
    const char *model, *pre; /* "llama", "default"; or "gpt2" and a name */
    bool has_scores;
    bool is_bare; /* no space stands before a text */
    struct gguf_token *token;
    int32_t size;
    struct buf text;
    struct buf merges; /* as the file has them */
    uint64_t n_merges;
    json_t *json;   /* tokenizer.json; NULL: there is none */
    json_t *config; /* tokenizer_config.json; NULL: likewise */
};

/* Reads the tokenizer of a model directory. Ids without a token are unused.
 * in   size  vocab_size of config.json
 * out  ret   end it with gguf_vocab_clear()
 * err  ERR_NOTFOUND there is no tokenizer.model and no tokenizer.json;
 *      ERR_INVAL a damaged file, more tokens than size, a pre_tokenizer that
 *      llama.cpp has no name for; ERR_IO, ERR_NOMEM */
int gguf_vocab_read(const char *dir, int32_t size, struct gguf_vocab *ret,
                    struct error *err) MUST_CHECK;
void gguf_vocab_clear(struct gguf_vocab *v);

/* Appends tokens, scores, types and merges. err  ERR_NOMEM */
int gguf_vocab_encode(const struct gguf_vocab *v, struct gguf_meta *m,
                      struct error *err) MUST_CHECK;

/* The id of a text; -1: no token has it. cost  all tokens */
int32_t gguf_vocab_find(const struct gguf_vocab *v, const char *text);
/* The type of a token that is added to a vocabulary: some that a text can
 * become have names as if they were special. in  v  of added_tokens */
enum gguf_token_type gguf_vocab_added(const json_t *v);

/* For the readers of files. */

/* Gives an id its token, another one if it has one.
 * err  ERR_INVAL there is no such id; ERR_NOMEM */
int gguf_vocab_set(struct gguf_vocab *v, int64_t id, const char *text,
                   enum gguf_token_type type, float score,
                   struct error *err) MUST_CHECK;
/* Those of tokenizer.model, then those added in added_tokens.json and
 * tokenizer_config.json. */
int gguf_vocab_pieces(const char *dir, const struct buf *file,
                      struct gguf_vocab *v, struct error *err) MUST_CHECK;
/* Those of v->json. in  file  its text */
int gguf_vocab_json(const struct buf *file, struct gguf_vocab *v,
                    struct error *err) MUST_CHECK;

#endif
