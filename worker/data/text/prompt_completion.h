/* prompt_completion.h - rows of a prompt and its completion as tokens, as TRL
 * reads them.
 *
 * Two texts: one text for the tokenizer, so that the tokens at the seam are
 * those of the whole; bos before it where the tokenizer has one, and the end of
 * a text behind it (chat_tokenizer_end(), else eos), unless the completion ends
 * in its name. Two lists of
 * messages: a conversation in the format of the model.
 *
 * The first tokens, as many as the prompt alone has, have no labels; all others
 * have. Where a token has bytes of both, the whole may have fewer tokens: what
 * counts begins behind as many all the same. With torchtune's formats the
 * messages of the completion count.
 *
 * src  github huggingface/trl f2cd5771, trl/trainer/sft_trainer.py, tokenize_fn
 *      and add_eos
 */
#ifndef MGPU_WORKER_DATA_TEXT_PROMPT_COMPLETION_H
#define MGPU_WORKER_DATA_TEXT_PROMPT_COMPLETION_H

#include "worker/data/text/chat_format.h"

/* Appends the ids of the row, and as many labels. What is longer than
 * max_seq_len is cut.
 * in    c     its template is prompt_completion
 * inout work  the row's messages; end it with messages_clear()
 * out   ret_lost  as token_cut()
 * err   as messages_of_row(), chat_format_encode(); ERR_INVAL one column is a
 *       text and the other a list, the completion is empty. Both lists may have
 *       grown then */
int prompt_completion_encode(const struct chat_format *f,
                             const struct messages_conf *c, const json_t *row,
                             struct messages *work, struct buf *ids,
                             struct buf *labels, int32_t *ret_lost,
                             struct error *err) MUST_CHECK;

#endif
