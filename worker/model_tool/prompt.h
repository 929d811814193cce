/* prompt.h - the prompt to continue: a text, or a row of a job. */
#ifndef MGPU_WORKER_MODEL_TOOL_PROMPT_H
#define MGPU_WORKER_MODEL_TOOL_PROMPT_H

#include "jobs/base/buf.h"
#include "jobs/spec/spec_text.h"
#include "worker/data/tokenizer/tokenizer.h"

struct prompt {
    struct tokenizer *tokenizer;
    struct buf ids; /* int32_t */
    int32_t n;
    struct buf expected;     /* text of a row's answer; else empty */
    enum spec_prompt format; /* of the row's job; PROMPT_AUTO: the model's */
};

/* in   dir  of the model, with its tokenizer
 * out  ret  end it with prompt_clear(), also when it fails
 * err  those of tokenizer_open() and tokenizer_encode() */
int prompt_of_text(const char *dir, const char *text, struct prompt *ret,
                   struct error *err) MUST_CHECK;
/* A row of train.dataset: its tokens before its first answer, and the words
 * that stand before every answer of the format. in   file  of a job row   from
 * 1 on, as rows are counted that are not left out eos   as token_conf.eos err
 * ERR_INVAL no such row, or none of its tokens is a prompt; those of
 *      token_data_open() */
int prompt_of_row(const char *dir, const char *file, int64_t row, int32_t eos,
                  struct prompt *ret, struct error *err) MUST_CHECK;
void prompt_clear(struct prompt *p); /* zeroed is fine */

#endif
