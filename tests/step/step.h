/* step.h - the launches of a training step, recorded where there is no GPU.
 *
 * A device takes the calls of the product's own code, chooses kernels, widths
 * and numbers of blocks as on an H100, and writes down what it would launch.
 * Nothing runs, and no address of its memory may be read: images of 224x224 in
 * batches of 256 cost nothing, nor do eight billion weights.
 *
 * An op is a member of struct device_ops (kernels/device.h). A launch knows the
 * op that it is part of and what that op was called with.
 */
#ifndef MGPU_TESTS_STEP_H
#define MGPU_TESTS_STEP_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Launches that are no kernels of ours. */
#define STEP_PRODUCT "product" /* of a library */
#define STEP_ZERO "zero"
#define STEP_COPY "copy"
/* Of sharded weights: a collective may begin when the launches before it are
 * done, on a stream of its own; the launches behind STEP_AWAITED need it. */
#define STEP_GATHER "gather"
#define STEP_SCATTER "scatter"
#define STEP_AWAITED "awaited"

enum {
    STEP_LAUNCHES = 8192,
    STEP_SMS = 132, /* multiprocessors of an H100, and of an H200 */
};

struct step_op {
    const char *name; /* NULL: launched by none of those that are noted */
    int32_t value;    /* bytes of T */
    int64_t in;       /* values of the input; of a convolution x */
    int64_t out;      /* of the result; of a convolution z */
    int32_t K, N;     /* channels of both */
    int32_t stride;
    bool is_stem;            /* or the product on the stem's patches */
    bool skip, keeps, extra; /* what is NULL in a call and what not */
    int32_t from, to;        /* bytes of a value, of a cast */
    /* Of attention; in is that of q, out that of k. */
    int64_t rows;
    int32_t heads, kv_heads, D;
};

struct step_launch {
    char kernel[96]; /* "norm_rows<bf16,8>" */
    int64_t grid;
    struct step_op op;
    const char *before; /* the op's launch before this one; "": none */
    int64_t parts;      /* its blocks: partial sums */
    int64_t m, n, k;    /* of a product */
    double beta;        /* of it, and its type */
    enum dtype type;
    bool is_transposed; /* its first factor: the gradient of weights */
    int64_t bytes;      /* of a copy, a zero; sent by a rank, of a collective */
    int32_t ticket;     /* of a collective */
    /* Of text: tokens of each document, which only the data knows, and how many
     * tokens there are to choose from. 0: it is no text. */
    int32_t document, vocab;
};

struct step {
    struct step_launch at[STEP_LAUNCHES];
    int32_t n;
};

/* Of one process one at a time. It records when it is told to.
 * err  ERR_NOMEM; ERR_IO the program's own names cannot be read; ERR_NOTFOUND
 * an op of struct llm_ops notes no call: which */
int device_record_create(struct device **ret, struct error *err) MUST_CHECK;
void device_record_to(struct device *d, struct step *to); /* NULL: stop */
/* Writes down what is no call of the device. */
void device_record_add(struct device *d, const struct step_launch *l);
/* What all launches from now on have as document and vocab. */
void device_record_text(struct device *d, int32_t document, int32_t vocab);

/* A step of MobileNetV2 with SGD on a batch that is there already: the calls of
 * worker/train for one rank, with fp32 weights beside those of 16 bits.
 * err  as mobilenet_create() and optimizer_step() */
int step_record(struct device *d, int32_t size, int32_t batch, enum dtype dt,
                struct step *ret, struct error *err) MUST_CHECK;

enum step_method { STEP_LORA, STEP_QLORA, STEP_DPO, STEP_FULL, STEP_QAT };
/* Some of the layers, for what has to be short. */
enum step_shape {
    STEP_LLAMA3_8B,
    STEP_LLAMA3_8B_8,
    STEP_LLAMA3_8B_2,
    STEP_QWEN2_7B,
    STEP_SHAPES,
};

/* A step on rows of text, which consist of documents. */
struct step_text {
    enum step_method method;
    enum step_shape shape;
    int32_t rows, row_tokens, document; /* document divides row_tokens */
    bool recomputes;                    /* activation checkpointing */
};

/* A shape as llm_step has it: hidden, ffn, layers, heads, kv_heads, vocabulary.
 */
void step_shape_words(enum step_shape shape, char *ret, size_t cap);

/* A step of a Llama in bf16: the calls of worker/train for one rank and one
 * micro-batch. Adapters of rank 16 at all linears of the layers, with AdamW; or
 * all weights, with AdamW of 8 bits. A pair is two documents. Tokens of a
 * document but the last one are labelled.
 * out  ret_bytes  that the model plans of the GPU's memory
 * err  as llama_create() and optimizer_step() */
int step_record_text(struct device *d, const struct step_text *of,
                     struct step *ret, int64_t *ret_bytes,
                     struct error *err) MUST_CHECK;
/* The same of the first of so many ranks that shard the weights; 0: none do. */
int step_record_shared(struct device *d, const struct step_text *of,
                       int32_t ranks, struct step *ret, int64_t *ret_bytes,
                       struct error *err) MUST_CHECK;

/* Rank 0 of so many, over the device's memory: collectives are written down
 * like launches. */
struct comm;
int comm_record_create(struct device *d, int32_t ranks, struct comm **ret,
                       struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
