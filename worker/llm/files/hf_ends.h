/* hf_ends.h - generation_config.json of a directory that is written: programs
 * that generate with it stop at its eos_token_id. */
#ifndef MGPU_WORKER_LLM_FILES_HF_ENDS_H
#define MGPU_WORKER_LLM_FILES_HF_ENDS_H

#include "jobs/base/buf.h"
#include "jobs/spec/spec_text.h"

/* What ends an answer of the model that is written. Zeroed: as torchtune's
 * formats end it, with the base's tokenizer. */
struct hf_ends {
    enum spec_prompt prompt; /* PROMPT_AUTO: that of the base's template */
    const char *tokenizer;   /* NULL: in the base */
    const char *first;       /* its file comes before the base's; NULL */
};

/* Where answers end in a token of their own, that token joins the list of ends:
 * as the format says, or where the tokenizer has Llama 3's headers. Otherwise,
 * and where it is in the list or the file is no JSON object, the text stays. A
 * text that is new has bos_token_id and pad_token_id of config.json, too.
 * in     base  directory with config.json
 * inout  text  of generation_config.json; empty: there is none
 * err    ERR_NOMEM */
int hf_ends_join(const struct hf_ends *e, const char *base, struct buf *text,
                 struct error *err) MUST_CHECK;

#endif
