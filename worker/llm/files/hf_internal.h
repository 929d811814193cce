/* hf_internal.h - shared declarations of the files behind hf_dir.h. */
#ifndef MGPU_WORKER_LLM_FILES_HF_INTERNAL_H
#define MGPU_WORKER_LLM_FILES_HF_INTERNAL_H

#include "worker/llm/files/hf_dir.h"

struct hf_file {
    char *name;
    struct safetensors st;
};

struct hf_slot {
    const struct st_tensor *tensor;
    size_t file; /* of files */
};

struct hf_dir {
    struct hf_file *files;
    size_t n_files;
    struct hf_slot *slots; /* the tensors of all files, by name */
    size_t n;
};

/* NULL: no such tensor. */
const struct hf_slot *hf_slot_find(const struct hf_dir *h, const char *name);

#endif
