/* token_text.h - the text of tokens that come one after the other.
 *
 * A character may need several tokens: its text comes with the last of them. */
#ifndef MGPU_WORKER_MODEL_TOOL_TOKEN_TEXT_H
#define MGPU_WORKER_MODEL_TOOL_TOKEN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "jobs/base/buf.h"
#include "worker/data/tokenizer/tokenizer.h"

struct token_text {
    const struct tokenizer *tokenizer; /* borrowed */
    struct buf ids;                    /* int32_t: all so far */
    struct buf text;                   /* of these */
    size_t shown;                      /* bytes of it that were returned */
};

static inline struct token_text token_text_of(const struct tokenizer *t)
{
    return (struct token_text){.tokenizer = t};
}
void token_text_clear(struct token_text *t);

/* *ret: the characters that the token completes, which may be none; valid until
 * the next call. */
int token_text_add(struct token_text *t, int32_t id, const char **ret,
                   size_t *ret_len, struct error *err) MUST_CHECK;
/* The bytes left at the end, a complete character or not. */
const char *token_text_rest(const struct token_text *t);

/* Prints characters that a model made. For a terminal each control character
 * but line feed and tab is U+FFFD, and so is each byte that is not UTF-8: none
 * may move the cursor, name the window or fill the clipboard.
 * in   n  bytes */
void token_text_print(FILE *to, bool is_terminal, const char *text, size_t n);

/* A token that never has a text, such as the end of one. */
int token_text_is_special(const struct tokenizer *t, int32_t id, bool *ret,
                          struct error *err) MUST_CHECK;

#endif
