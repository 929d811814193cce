/* chat_tokenizer.h - the tokenizer for messages: with the chat format of a
 * model the file that transformers reads, with those of torchtune the one that
 * torchtune does. */
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

#endif
