/* pretokenize.h - cut text into pieces by a regular expression, as tiktoken
 * and HF tokenizers do before they merge bytes. No token crosses a piece. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_PRETOKENIZE_H
#define MGPU_WORKER_DATA_TOKENIZER_PRETOKENIZE_H

#include <stddef.h>

#include "jobs/base/error.h"

struct pretokenizer;

extern const char pretokenize_llama3[]; /* Meta's expression for Llama 3 */
extern const char pretokenize_gpt2[];   /* that of ByteLevel with use_regex */

/* in   pattern  what is not matched is a piece, too
 * err  ERR_INVAL no expression, or one that other engines read otherwise */
int pretokenizer_open(const char *pattern, struct pretokenizer **ret,
                      struct error *err) MUST_CHECK;
/* The same without a compiled program, for tests and measurements. */
int pretokenizer_open_slow(const char *pattern, struct pretokenizer **ret,
                           struct error *err) MUST_CHECK;
void pretokenizer_close(struct pretokenizer *p); /* NULL is fine */

/* Calls use() for the pieces from left to right; together they are the text.
 * It stops at the first that fails.
 * in   text  valid UTF-8
 * err  ERR_INVAL the expression gives up on the text; ERR_NOMEM */
int pretokenize(const struct pretokenizer *p, const char *text, size_t len,
                int (*use)(void *arg, const char *piece, size_t n,
                           struct error *err),
                void *arg, struct error *err) MUST_CHECK;

#endif
