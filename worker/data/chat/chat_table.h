/* chat_table.h - the chat formats of published models: what stands around the
 * messages of a conversation, as their chat_template writes it.
 *
 * In words "\1" is the token that begins a text and "\2" the one that ends it.
 * The names in `tokens` are special tokens, where the tokenizer has them. A
 * message's text is never read for either.
 */
#ifndef MGPU_WORKER_DATA_CHAT_CHAT_TABLE_H
#define MGPU_WORKER_DATA_CHAT_CHAT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/spec/spec_text.h"

enum chat_system {
    SYSTEM_TURN,    /* a turn of its own */
    SYSTEM_FIRST,   /* in the first message of the user */
    SYSTEM_LAST,    /* in the last message, if it is the user's; else nowhere */
    SYSTEM_DROPPED, /* nowhere */
    SYSTEM_REFUSED  /* the template ends with an error */
};

struct chat_words {
    const char *before, *after;
};

enum { CHAT_TOKENS = 4, CHAT_MARKS = 3 };

struct chat_table {
    enum spec_prompt prompt;
    const char *name;  /* of train.tokenizer.prompt_template */
    const char *begin; /* before the first message */
    struct chat_words system, user, assistant;
    enum chat_system where;
    const char *no_system; /* text of a row without one; NULL: no turn */
    bool strips;           /* white space at the ends of texts is left out */
    bool thinks;           /* an empty thought is before the last answer */
    const char *end;       /* token that ends an answer; NULL: eos */
    const char *asks;      /* before an answer that the model is to make */
    const char *tokens[CHAT_TOKENS]; /* NULL: no more */
    int needs; /* so many of them, the first, the tokenizer must have */
    /* Texts that a template which resembles it has; NULL: no more. */
    const char *marks[CHAT_MARKS];
};

/* NULL: the prompt is not the format of a model. */
const struct chat_table *chat_table_of(enum spec_prompt prompt);
/* Of 0..n-1; NULL: there are no more. */
const struct chat_table *chat_table_at(int i);

#endif
