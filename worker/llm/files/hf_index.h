/* hf_index.h - model.safetensors.index.json: which tensor is in which shard. */
#ifndef MGPU_WORKER_LLM_FILES_HF_INDEX_H
#define MGPU_WORKER_LLM_FILES_HF_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct hf_index_entry {
    char *name;
    size_t file; /* of files */
};

struct hf_index {
    struct hf_index_entry *entries; /* by name */
    size_t n;
    char **files;
    size_t n_files;
};

/* A name of a file in the directory itself: no path, not hidden. */
int hf_index_check_file(const char *name, struct error *err) MUST_CHECK;

/* The text of an index. metadata are ignored.
 * err  ERR_INVAL not JSON, no weight_map, nothing in it, a name that is no
 *      file in the directory */
int hf_index_parse(const char *text, size_t len, struct hf_index *ret,
                   struct error *err) MUST_CHECK;
void hf_index_clear(struct hf_index *x); /* zeroed is fine */

/* Appends the text of an index. in  bytes  of all tensors, for metadata */
int hf_index_encode(const struct hf_index *x, int64_t bytes, struct buf *out,
                    struct error *err) MUST_CHECK;

#endif
