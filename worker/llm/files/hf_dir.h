/* hf_dir.h - the tensors of a model directory as Hugging Face lays it out:
 * model.safetensors, or shards named by model.safetensors.index.json.
 *
 * Files are mapped, not read: a tensor costs memory when it is copied out,
 * until safetensors_forget().
 */
#ifndef MGPU_WORKER_LLM_FILES_HF_DIR_H
#define MGPU_WORKER_LLM_FILES_HF_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec.h"
#include "kernels/dtype.h"
#include "worker/checkpoint/safetensors.h"

struct hf_dir;

/* A tensor that a model needs. */
struct hf_want {
    const char *name;
    int32_t dims;
    int64_t shape[4];
};

/* in   files  names in dir; none: all that the index names, or
 *             model.safetensors. Where both are there the index must name
 *             it: which of the two is the model cannot be told otherwise.
 * err  ERR_NOTFOUND no such directory, or no weights in it (other formats
 *      that are there are named); ERR_INVAL a damaged file, an index that
 *      does not fit its shards, one tensor in two files; ERR_IO */
int hf_open(const char *dir, const struct spec_list *files, struct hf_dir **ret,
            struct error *err) MUST_CHECK;
void hf_close(struct hf_dir *h); /* NULL is fine */

/* NULL: no such tensor. Valid until hf_close(). */
const struct st_tensor *hf_find(const struct hf_dir *h, const char *name);

/* The files that the index names, and their tensors. Valid until hf_close(). */
size_t hf_file_count(const struct hf_dir *h);
const char *hf_file_name(const struct hf_dir *h, size_t i);
const struct safetensors *hf_file_tensors(const struct hf_dir *h, size_t i);

/* All that is wanted is there in its shape, as floating point numbers, and
 * nothing else is: but buffers (hf_is_buffer), and a "lm_head.weight" with the
 * values of `tied_to`, the embeddings of a model that has them tied.
 * in   tied_to  NULL: they are not
 * err  ERR_INVAL how many are missing, left over or have another shape, and a
 *      list of at most 10 of them, as many as an error has room for, "and 7
 *      more"; or the output layer has other values than the embeddings */
int hf_check(const struct hf_dir *h, const struct hf_want *want, int32_t n,
             const char *tied_to, struct error *err) MUST_CHECK;

/* A tensor that a model of ours computes from config.json: the frequencies of
 * the positions, which old files have in each layer. */
bool hf_is_buffer(const char *name);

/* DT_N: it holds no floating point numbers. */
enum dtype hf_dtype(enum st_type type);

/* Values [first, first + count) of a tensor, converted to dt (rounded to the
 * nearest, ties to even) in `to`. */
void hf_copy(const struct st_tensor *t, int64_t first, int64_t count,
             enum dtype dt, void *to);

/* The place of the first value of n that is NaN or infinite; -1: none is. */
int64_t hf_not_finite(enum dtype dt, const void *values, int64_t n);

/* Both have the same shape, and the values of `of`, rounded to the type of
 * `copy`, are those of `copy`. Both hold floating point numbers, or they are
 * different. */
bool hf_is_copy(const struct st_tensor *copy, const struct st_tensor *of);

#endif
