/* bed.h - a device under test, and tensors whose values the test knows.
 *
 * The contract of kernels/device.h, as tests. One body: it runs on the host
 * device (tests/unit/kernels/device.c), on the emulated CUDA side
 * (tests/simt/device.c) and on a GPU (tests/unit/kernels/cuda.c). References
 * are written from the formulas, in double, with no code of the kernels.
 */
#ifndef MGPU_TESTS_BED_H
#define MGPU_TESTS_BED_H

#include <stdint.h>

#include "kernels/device.h"

struct bed {
    struct device *d;
    const char *name; /* of the device and its variant, for the report */
    enum dtype dt;
    double tol;    /* of a result, relative to the largest one */
    uint64_t seed; /* of the next random value */
    bool small;    /* leave out what takes an emulator long */
    void *scalars; /* PUT_BYTES on the device */
};

/* n values on the device, and the same values here: what is in v is what
 * the device holds, after rounding to its type. */
struct tensor {
    struct bed *bed;
    void *p;
    double *v;
    int64_t n;
    enum dtype dt;
};

/* For the parts of the contract; end it with bed_drop(). */
struct bed bed_make(struct device *d, const char *name, enum dtype dt,
                    bool small);
void bed_drop(struct bed *b);

double bed_uniform(struct bed *b, double lo, double hi);

/* Of type T, or of its accumulator type; filled from lo..hi. */
struct tensor tensor_make(struct bed *b, int64_t n, double lo, double hi);
struct tensor tensor_acc(struct bed *b, int64_t n, double lo, double hi);
/* Integers in lo..hi: sums of them are exact in any order. */
struct tensor tensor_ints(struct bed *b, int64_t n, int lo, int hi);
void tensor_drop(struct tensor *t);
void tensor_push(struct tensor *t); /* v to the device, rounding v */
void tensor_pull(struct tensor *t); /* the device to v */
double rounded(enum dtype dt, double v);

double *zeros(int64_t n); /* the caller frees */

/* A few bytes, in device memory until the next call. */
void *bed_put(struct bed *b, const void *v, size_t bytes);

/* Report one TAP line: the tensor on the device against want. For same(), a
 * value that the type does not have is to be rounded once. */
void near(struct tensor *t, const double *want, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void same(struct tensor *t, const double *want, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* n indices in device memory; released with ops->release. */
int32_t *bed_indices(struct bed *b, const int32_t *v, int64_t n);

/* A call, or a few, that can be repeated. */
struct call {
    struct bed *b;
    void (*run)(void *arg);
    void *arg;
};

/* One TAP line, for fp64: grad is the gradient, with respect to `in`, of the
 * sum of r * y, by central differences. r NULL: of y. */
void differences(const struct call *c, struct tensor *in, struct tensor *grad,
                 struct tensor *y, const double *r, const char *what);

/* One TAP line: the call leaves the same bits in `out` for every number of
 * blocks. Before each call, out holds what it holds now. */
void same_bits(const struct call *c, struct tensor *out, const char *what);

/* A call that has to succeed; a failure is one TAP line with its message. */
#define must(call)                                            \
    do {                                                      \
        struct error err_ = ERROR_INIT;                       \
        if ((call) < 0)                                       \
            must_failed(__FILE__, __LINE__, #call, err_.msg); \
    } while (0)
#define ERR (&err_)
void must_failed(const char *file, int line, const char *call, const char *why);

/* A call that has to be refused with ERR_INVAL. */
#define refused(call)                                                  \
    do {                                                               \
        struct error err_ = ERROR_INIT;                                \
        int rc_ = (call);                                              \
        ok(rc_ == -1 && err_.code == ERR_INVAL && err_.msg[0] != '\0', \
           "refused: %s (%s)", #call, err_.msg);                       \
    } while (0)

/* The parts of the contract. */
void contract_cast(struct bed *b);
void contract_memory(struct bed *b);
void contract_gemm(struct bed *b);
void contract_conv(struct bed *b);
void contract_norm(struct bed *b);
void contract_fused(struct bed *b);
void contract_flat(struct bed *b);
void contract_dropout(struct bed *b);
void contract_loss(struct bed *b);
void contract_image(struct bed *b);
void contract_optim(struct bed *b);
void contract_exact(struct bed *b);     /* sums that must be exact */
void contract_gradients(struct bed *b); /* finite differences, fp64 */
void contract_refusals(struct bed *b);
void contract_llm_norm(struct bed *b);
void contract_llm_head_norm(struct bed *b);
void contract_llm_rope(struct bed *b);
void contract_llm_rows(struct bed *b);
void contract_llm_pairs(struct bed *b);
void contract_llm_swiglu(struct bed *b);
void contract_llm_nf4(struct bed *b);
void contract_llm_fake_quant(struct bed *b);
void contract_llm_attention(struct bed *b);
void contract_llm_attention_even(struct bed *b); /* 16-bit types */
void contract_llm_attention_step(struct bed *b);
void contract_replay(struct bed *b); /* put, capture, marks, slots */

/* All of it, for every dtype. */
void contract_device(struct device *d, const char *name, bool small);

#endif
