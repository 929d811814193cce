/* hf_write.h - write a model directory as Hugging Face lays it out: shards of
 * at most 5 GB and an index, or model.safetensors where one shard is enough;
 * config.json and the tokenizer's files are copied, also those of Meta in
 * original/; generation_config.json as hf_ends.h says. base_file.h says which
 * links of theirs are followed.
 */
#ifndef MGPU_WORKER_LLM_FILES_HF_WRITE_H
#define MGPU_WORKER_LLM_FILES_HF_WRITE_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/llm/files/hf_ends.h"

struct hf_tensor {
    const char *name;
    enum st_type type;
    int32_t dims;
    int64_t shape[4];
    const void *data; /* host */
    /* The shard that it is in; NULL: as many bytes a shard as below. Of all
     * tensors or of none; those of a shard follow each other. */
    const char *file;
};

/* Each file is written under a temporary name and synced; when all are there
 * they are renamed, the index last. A failure before that leaves dir as it was.
 * A model.safetensors, or an index, of an earlier write in the other layout is
 * removed.
 * in   base         directory that config.json and tokenizer files come from
 *      ends         what joins eos_token_id of generation_config.json
 *      shard_bytes  0: 5 GB
 *      each         calls take() for every tensor in order, twice as
 *                   adapter_write()
 * err  ERR_INVAL there are no tensors; ERR_IO the disk; each()'s */
int hf_write(const char *dir, const char *base, const struct hf_ends *ends,
             int64_t shard_bytes,
             int (*each)(void *arg,
                         int (*take)(void *to, const struct hf_tensor *t,
                                     struct error *err),
                         void *to, struct error *err),
             void *arg, struct error *err) MUST_CHECK;
/* The same files without tensors: what makes a directory with
 * model.safetensors a model of Hugging Face.
 * err  ERR_IO the disk */
int hf_write_config(const char *dir, const char *base,
                    const struct hf_ends *ends, struct error *err) MUST_CHECK;
/* Beside an adapter: generation_config.json, if answers end in a token that the
 * base's file does not name.
 * err  ERR_IO the disk */
int hf_write_ends(const char *dir, const char *base, const struct hf_ends *ends,
                  struct error *err) MUST_CHECK;

#endif
