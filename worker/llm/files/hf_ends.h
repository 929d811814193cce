/* hf_ends.h - generation_config.json of a directory that is written: programs
 * that generate with it stop at its eos_token_id. */
#ifndef MGPU_WORKER_LLM_FILES_HF_ENDS_H
#define MGPU_WORKER_LLM_FILES_HF_ENDS_H

#include "jobs/base/buf.h"

/* Where answers end in a token of their own, that token joins the list of ends:
 * as the base's chat template says, or where its tokenizer has Llama 3's
 * headers. Otherwise, and where
 * it is in the list or the file is no JSON object, the text stays. A text that
 * is new has bos_token_id and pad_token_id of config.json, too.
 * in     base  directory with the tokenizer and config.json
 * inout  text  of generation_config.json; empty: there is none
 * err    ERR_NOMEM */
int hf_ends_join(const char *base, struct buf *text,
                 struct error *err) MUST_CHECK;

#endif
