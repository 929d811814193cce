/* tokenizer_internal.h - the kinds of a struct tokenizer. tokenizer.c chooses
 * one by the content of the file. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_INTERNAL_H
#define MGPU_WORKER_DATA_TOKENIZER_INTERNAL_H

#include <stdbool.h>

#include "worker/data/tokenizer/text_steps.h"
#include "worker/data/tokenizer/tokenizer.h"

#ifdef __cplusplus /* for tokenizer_spm.cpp */
extern "C" {
#endif

/* encode and decode may leave part of a result when they fail: tokenizer.c
 * takes it back. */
struct tokenizer_ops {
    void (*close)(struct tokenizer *t);
    int (*encode)(const struct tokenizer *t, const char *text, size_t len,
                  enum text_place place, size_t most, struct buf *ret,
                  struct error *err);
    /* The ids are within 0..size-1. */
    int (*decode)(const struct tokenizer *t, const int32_t *ids, size_t n,
                  struct buf *ret, struct error *err);
    int32_t (*special)(const struct tokenizer *t, const char *name);
    bool knows_behind; /* encode tells TEXT_BEHIND from TEXT_BEGINS */
};

/* Each kind begins with it. */
struct tokenizer {
    const struct tokenizer_ops *ops;
    struct tokenizer_ids ids;
};

/* A sentencepiece model.
 * in   file  the bytes of the file; not used after the call
 * err  ERR_INVAL it is none; ERR_NOMEM */
int tokenizer_spm_open(const struct buf *file, struct tokenizer **ret,
                       struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
