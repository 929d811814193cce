/* chat_tokenizer.h - the tokenizer for messages, and the end of its texts: with
 * the chat format of a model the file that transformers reads, with those of
 * torchtune the one that torchtune does. */
#ifndef MGPU_WORKER_DATA_CHAT_CHAT_TOKENIZER_H
#define MGPU_WORKER_DATA_CHAT_CHAT_TOKENIZER_H

#include "jobs/spec/spec.h"
#include "worker/data/tokenizer/tokenizer.h"

/* As tokenizer_open_chat() where `prompt` is the format of a model, otherwise
 * as tokenizer_open(). */
int chat_tokenizer_open(enum spec_prompt prompt, const char *path,
                        struct tokenizer **ret, struct error *err) MUST_CHECK;

/* The tokenizer of a job's rows, in the format of its messages if it reads any.
 * in   dir  of the model, which has it where the job names none
 * err  as tokenizer_open(). A chat template that is not known is none: the rows
 *      are refused for it */
int chat_tokenizer_of_job(const struct job_spec *s, const char *dir,
                          struct tokenizer **ret, struct error *err) MUST_CHECK;

/* The token behind a text, as transformers has it. */
struct chat_text_end {
    int32_t id;
    char name[64]; /* "": none is named */
};

/* Of eos_token in the directory's tokenizer_config.json. None: there is no such
 * file or key, or the tokenizer has no special token of this name.
 * in  dir  NULL: there is none */
void chat_tokenizer_end(const char *dir, const struct tokenizer *t,
                        struct chat_text_end *ret);

#endif
