/* token_encode.h - rows of data as token ids and labels (token_data.h). */
#ifndef MGPU_WORKER_DATA_TEXT_TOKEN_ENCODE_H
#define MGPU_WORKER_DATA_TEXT_TOKEN_ENCODE_H

#include <jansson.h>

#include "worker/data/text/chat_format.h"
#include "worker/data/text/token_data.h"

/* Tokens of rows, one behind the other. */
struct token_part {
    struct buf ids, labels; /* int32_t; not labelled: < 0 */
    struct buf list;        /* struct token_row; `first` of these tokens */
    int32_t most;           /* the highest id, of labels as well */
};

void token_part_clear(struct token_part *p); /* zeroed is fine */

/* An encoder serves one thread at a time. */
struct token_encoder {
    const struct token_conf *conf;
    const struct chat_format *format; /* template tokens: not read */
    struct messages messages;         /* zero; end it with messages_clear() */
};

/* Appends the row's tokens; both rows of template preference. What its messages
 * have and is not read is in e->messages until the row ends.
 * err  ERR_INVAL the row is bad, ERR_NOMEM; the part is as it was */
int token_encode(struct token_encoder *e, const json_t *row,
                 struct row_place place, struct token_part *io,
                 struct error *err) MUST_CHECK;

#endif
