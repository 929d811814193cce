/* llama_ends.h - the tokens that end an answer. */
#ifndef MGPU_WORKER_LLM_LLAMA_ENDS_H
#define MGPU_WORKER_LLM_LLAMA_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { LLAMA_ENDS_MAX = 16 };
struct llama_ends {
    int32_t n; /* 0: the files name none */
    int32_t id[LLAMA_ENDS_MAX];
};

/* eos_token_id of a text: a number, a list, null or absent.
 * err  ERR_INVAL as below; ERR_NOMEM */
int llama_ends_parse(const char *text, size_t len, int32_t vocab,
                     struct llama_ends *ret, struct error *err) MUST_CHECK;

/* eos_token_id of generation_config.json, or without it, or without that file,
 * of config.json.
 * in   adapter  directory whose generation_config.json comes first; NULL: none
 * err  ERR_INVAL a file that is no JSON, an id outside 0..vocab-1, too many;
 *      ERR_NOTFOUND no config.json; ERR_IO, ERR_NOMEM */
int llama_ends_read(const char *adapter, const char *dir, int32_t vocab,
                    struct llama_ends *ret, struct error *err) MUST_CHECK;

/* Adds an end, unless it is there, is -1, or there are as many as may be. */
void llama_ends_add(struct llama_ends *e, int32_t id);

#endif
