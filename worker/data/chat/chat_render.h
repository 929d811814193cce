/* chat_render.h - messages as tokens, in the chat format of a model
 * (chat_table.h): the ids that transformers' apply_chat_template() gives.
 *
 * The words of a format that are special tokens become these; a text between
 * two of them is tokenised as a whole, words and messages together. No text of
 * a message becomes a special token, whatever it says. It does become a token
 * that tokenizer.json has as added and not special, be it one of the format.
 *
 * Of an answer its text counts in the loss, and what is behind it up to the
 * token that ends the turn. Where a message of the user counts, its words do as
 * well. A token that has bytes of what counts and of what does not counts if
 * the text that counts is behind.
 */
#ifndef MGPU_WORKER_DATA_CHAT_CHAT_RENDER_H
#define MGPU_WORKER_DATA_CHAT_CHAT_RENDER_H

#include "worker/data/chat/chat_table.h"
#include "worker/data/text/messages.h"
#include "worker/data/tokenizer/tokenizer.h"

struct chat_render {
    const struct chat_table *table;
    const struct tokenizer *tokenizer;
    int32_t bos, eos, end;      /* -1: none; `end` ends an answer */
    int32_t token[CHAT_TOKENS]; /* ids of table->tokens; -1: plain text */
    int32_t max_seq_len;        /* 0: rows are not cut */
};

/* err  ERR_INVAL the tokenizer lacks a token that the format needs, or is a
 *      sentencepiece model with special tokens of the format */
int chat_render_init(struct chat_render *r, const struct chat_table *table,
                     const struct tokenizer *t, int32_t max_seq_len,
                     struct error *err) MUST_CHECK;

/* Appends the ids of the messages, and as many labels: the id, or -1 where it
 * does not count. What is longer than max_seq_len is cut.
 * out  ret_lost  as token_cut()
 * err  ERR_INVAL a message that the format has no words for, a byte without a
 *      token; ERR_NOMEM. Both lists may have grown then */
int chat_render(const struct chat_render *r, const struct messages *m,
                struct buf *ids, struct buf *labels, int32_t *ret_lost,
                struct error *err) MUST_CHECK;

/* Appends the ids of a conversation whose last message is the user's, and of
 * the words before the answer to it: apply_chat_template() with
 * add_generation_prompt. A thought of an answer is left out where the format
 * does so: what is before the last "</think>", and line feeds behind it.
 * err  as chat_render(); ERR_INVAL the last message is not the user's */
int chat_render_ask(const struct chat_render *r, const struct messages *m,
                    struct buf *ids, struct error *err) MUST_CHECK;

/* The same of a prompt and a completion, as TRL labels them: all tokens behind
 * the first that are as many as the prompt alone has, with the words before an
 * answer.
 * in   m         n_prompt of them are the prompt
 *      on_input  all tokens count */
int chat_render_completion(const struct chat_render *r,
                           const struct messages *m, bool on_input,
                           struct buf *ids, struct buf *labels,
                           int32_t *ret_lost, struct error *err) MUST_CHECK;

/* The text without white space around it, as Python's strip() has it.
 * out  ret_len  bytes of it */
const char *chat_render_strip(const char *text, size_t len, size_t *ret_len);

#endif
