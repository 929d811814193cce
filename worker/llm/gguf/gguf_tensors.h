/* gguf_tensors.h - the tensors of a GGUF file: names, types, places, and their
 * values out of a model directory.
 *
 * src  llama.cpp, gguf-py/gguf/constants.py: TENSOR_NAMES; conversion/base.py:
 *      prepare_tensors() says which keep float; conversion/llama.py: permute()
 *      and generate_extra_tensors() */
#ifndef MGPU_WORKER_LLM_GGUF_TENSORS_H
#define MGPU_WORKER_LLM_GGUF_TENSORS_H

#include "jobs/base/file_atomic.h"
#include "worker/llm/files/hf_dir.h"
#include "worker/llm/gguf/gguf_values.h"
#include "worker/llm/llama_shape.h"

enum { GGUF_NAME_CAP = 64, GGUF_ALIGNMENT = 32 };

struct gguf_tensor {
    char name[GGUF_NAME_CAP];
    const struct st_tensor *from; /* NULL: the factors of the positions */
    int64_t rows, cols;           /* a vector: rows of one value */
    bool is_vector;
    enum gguf_type type;
    int32_t heads; /* above 0: their rows change places */
    int64_t at, bytes;
};

/* Zeroed: none. */
struct gguf_tensors {
    struct gguf_tensor *list;
    int32_t n;
    int64_t values; /* in all */
    float *factors; /* [head_dim / 2] of llama3's scaling; NULL: it has none */
};

/* Vectors are f32. A matrix whose rows are no multiple of 32 is f16 where q8_0
 * is asked for, as llama.cpp's converter makes it.
 * in   h      has all tensors of the shape (llama_check_weights())
 *      pairs  the rows of q and k of a head become pairs that are neighbours,
 *             as the architecture llama rotates them
 * out  ret    end it with gguf_tensors_clear()
 * err  ERR_NOMEM */
int gguf_tensors_list(const struct llama_shape *s, const struct hf_dir *h,
                      enum gguf_type type, bool pairs, struct gguf_tensors *ret,
                      struct error *err) MUST_CHECK;
void gguf_tensors_clear(struct gguf_tensors *t);

/* Appends names, shapes, types and places. err  ERR_NOMEM */
int gguf_tensors_encode(const struct gguf_tensors *t, struct buf *to,
                        struct error *err) MUST_CHECK;

/* Writes the values one tensor after the other, each filled up to
 * GGUF_ALIGNMENT. Memory is that of some rows.
 * err  ERR_INVAL a value is not finite, or does not fit the type: its tensor is
 *      named; ERR_IO, ERR_NOMEM */
int gguf_tensors_write(const struct gguf_tensors *t, struct file_atomic *to,
                       struct error *err) MUST_CHECK;

#endif
