/* conversation.h - the messages of a conversation, and its prompt in the chat
 * format of a model. */
#ifndef MGPU_WORKER_MODEL_TOOL_CONVERSATION_H
#define MGPU_WORKER_MODEL_TOOL_CONVERSATION_H

#include "worker/data/text/chat_format.h"

struct conversation {
    struct tokenizer *tokenizer;
    enum spec_prompt prompt; /* not PROMPT_AUTO */
    struct chat_format format;
    struct messages *messages; /* their texts are owned */
    int32_t n_system;          /* messages of the system, at the front: 0, 1 */
};

/* In the format of the chat template in `dir`, or of the job in `file`.
 * in   file    NULL: none; its new_system_prompt is the system's without one
 *      eos     as in chat_format_init()
 *      system  what the system says; NULL: nothing
 * out  ret     end it with conversation_clear(), also when it fails
 * err  ERR_INVAL the directory has no chat template, or one that is not known,
 *      or its format has no message of the system; those of model_args_job(),
 *      tokenizer_open(), chat_format_init() */
int conversation_open(struct conversation *ret, const char *dir,
                      const char *file, int32_t eos, const char *system,
                      struct error *err) MUST_CHECK;
void conversation_clear(struct conversation *c); /* zeroed is fine */

/* Adds a message. A NUL and what is not UTF-8 in it become U+FFFD.
 * in   len  bytes of the text
 * err  ERR_NOMEM */
int conversation_add(struct conversation *c, enum message_role role,
                     const char *text, size_t len,
                     struct error *err) MUST_CHECK;
/* Removes the last message. */
void conversation_drop_last(struct conversation *c);
/* Removes all but the system's. */
void conversation_restart(struct conversation *c);

/* The ids of a conversation whose last message is the user's, and of what is
 * before its answer. Where they are more than `most`, or the messages are too
 * many, the oldest question and its answer are removed, until there is room.
 * inout ids          replaced
 * out   ret_dropped  messages that were removed
 * err   ERR_INVAL the last message and the system's alone are more; ERR_NOMEM;
 *       those of chat_format_ask(). No message is removed then. */
int conversation_ask(struct conversation *c, int32_t most, struct buf *ids,
                     int32_t *ret_dropped, struct error *err) MUST_CHECK;

#endif
