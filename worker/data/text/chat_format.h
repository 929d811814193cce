/* chat_format.h - messages as tokens: in the chat format of a published model
 * (chat_render.h), or in torchtune's of Llama 3 or of Llama 2.
 *
 * Of torchtune's, a tokenizer that has the ids of a header has Llama 3's
 * format:
 *
 *     bos (start_header ROLE end_header "\n\n" TEXT eot)... eos
 *
 * Spaces around a text are left out. bos and eos never count in the loss; what
 * stands around a text counts as the text does.
 *
 * Others have Llama 2's: bos before each turn, the texts one behind the other,
 * without the spaces at their ends, and eos after each answer. bos counts as
 * the first text of its turn, eos as the answer.
 *
 * A prompt template puts words around the texts. They are texts of their own:
 * spaces around them are left out as well.
 *
 * src  torchtune 0.6.1, models/llama3/_tokenizer.py,
 *      modules/transforms/tokenizers/_utils.py, data/_prompt_templates.py,
 *      models/llama2/_prompt_template.py
 */
#ifndef MGPU_WORKER_DATA_TEXT_CHAT_FORMAT_H
#define MGPU_WORKER_DATA_TEXT_CHAT_FORMAT_H

#include "worker/data/chat/chat_render.h"
#include "worker/data/text/messages.h"
#include "worker/data/tokenizer/tokenizer.h"

struct chat_format {
    const struct tokenizer *tokenizer;
    enum spec_prompt prompt;
    int32_t bos, eos;                      /* bos -1: there is none */
    int32_t end;                           /* behind a completion */
    int32_t start_header, end_header, eot; /* -1: Llama 2's format */
    int32_t max_seq_len;                   /* 0: texts are not cut */
    /* A message and the words around it are one text, which is stripped and
     * tokenised as a whole, as by torchtune 0.1.1; otherwise each part is. Set
     * it after chat_format_init(). */
    bool is_whole;
    /* The name of `end`; NULL: not known. Set both after chat_format_init()
     * where the tokenizer's files name it. */
    const char *end_name;
    /* The model's template is not known, which rows of messages need. Set it
     * after chat_format_init(). */
    bool is_unknown;
    struct chat_render model; /* its table is NULL: torchtune's formats */
};

/* in   prompt  not PROMPT_AUTO
 *      eos     the id that ends an answer in Llama 2's format; -1: the
 *              tokenizer's
 * err  ERR_INVAL the tokenizer has no id for the end of a text, or lacks a
 *      token that the model's format needs */
int chat_format_init(struct chat_format *f, const struct tokenizer *t,
                     enum spec_prompt prompt, int32_t eos, int32_t max_seq_len,
                     struct error *err) MUST_CHECK;

/* The token that ends each message in Llama 3's format, where the tokenizer has
 * that format: a model that learned it is to be stopped there. -1: it has the
 * format of Llama 2, whose answers end in eos. */
int32_t chat_format_turn_end(const struct tokenizer *t);

/* The token that ends an answer of a model that was trained with `prompt`; with
 * PROMPT_AUTO in the format of the directory's template, if that is known. -1:
 * none but eos. */
int32_t chat_format_answer_end(enum spec_prompt prompt, const char *dir,
                               const struct tokenizer *t);

/* Appends the ids of the messages, and as many labels: the id, or -1 where it
 * does not count. What is longer than max_seq_len is cut, and its last id
 * becomes eos.
 * out  ret_lost  as token_cut()
 * err  ERR_INVAL a byte without a token; ERR_NOMEM. Both lists may have grown
 *      then */
int chat_format_encode(const struct chat_format *f, const struct messages *m,
                       struct buf *ids, struct buf *labels, int32_t *ret_lost,
                       struct error *err) MUST_CHECK;

/* Appends the ids of a conversation whose last message is the user's, and of
 * what is before the answer to it. With the format of a model that is
 * chat_render_ask(); with torchtune's, the ids that a row with an answer has
 * before it.
 * inout m    room for one more message, which is written to; its n are as
 * before when it returns err   as chat_format_encode(); ERR_INVAL the last
 * message is not the user's, or there are too many */
int chat_format_ask(const struct chat_format *f, struct messages *m,
                    struct buf *ids, struct error *err) MUST_CHECK;

/* As chat_format_encode() of a text alone: bos, the text, eos; all counts. It
 * is cut to max_seq_len - 1 ids, without eos, as torchtune does. */
int chat_format_text(const struct chat_format *f, const char *text,
                     struct buf *ids, struct buf *labels, int32_t *ret_lost,
                     struct error *err) MUST_CHECK;

#endif
