/* tokenizer_pieces.h - the pieces of a sentencepiece model, for those who write
 * them into another file. */
#ifndef MGPU_WORKER_DATA_TOKENIZER_PIECES_H
#define MGPU_WORKER_DATA_TOKENIZER_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"

#ifdef __cplusplus /* for tokenizer_spm.cpp */
extern "C" {
#endif

struct tokenizer_piece {
    int32_t id;
    const char *text; /* valid during the call */
    float score;
    bool is_unknown, is_control, is_unused, is_byte; /* at most one */
};

/* Calls use() for the pieces by rising ids. It stops at the first that fails.
 * in   file  the bytes of a sentencepiece model
 * err  ERR_INVAL it is none; ERR_NOMEM; those of use() */
int tokenizer_pieces_each(const struct buf *file,
                          int (*use)(void *arg, const struct tokenizer_piece *p,
                                     struct error *err),
                          void *arg, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
