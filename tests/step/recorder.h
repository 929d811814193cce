/* recorder.h - the device that writes launches down, for the files that note
 * what its ops are called with: device_record.cpp, record_llm.cpp. */
#ifndef MGPU_TESTS_STEP_RECORDER_H
#define MGPU_TESTS_STEP_RECORDER_H

#include "kernels/exec/exec_device.h"
#include "tests/step/step.h"

struct recorder {
    struct exec_device exec;
    struct device_ops own; /* the ops, without what notes their calls */
    struct step *to;
    struct step_op op;
    const char *before;
    int64_t parts;
    uintptr_t memory;
    const void *patches; /* the last im2col3's */
    const void *put_at;  /* the last put()'s, whose bytes are remembered */
    size_t put_bytes;
    unsigned char put[PUT_BYTES];
    int32_t document, vocab; /* of text; see struct step_launch */
};

static inline recorder *of(struct device *d)
{
    return reinterpret_cast<recorder *>(d);
}

/* What is called outside any op of the table. */
static inline struct step_op plain(const char *name)
{
    struct step_op op = step_op();

    op.name = name;
    return op;
}

static inline struct step_op shaped(const char *name, enum dtype dt, int64_t in,
                                    int64_t out, int32_t K, int32_t N)
{
    struct step_op op = plain(name);

    op.value = (int32_t)dtype_bytes(dt);
    op.in = in;
    op.out = out;
    op.K = K;
    op.N = N;
    return op;
}

static inline void begin(struct device *d, const struct step_op &op)
{
    of(d)->op = op;
    of(d)->before = nullptr;
    of(d)->parts = 1;
}

/* A launch that follows is of no op. */
static inline int end(struct device *d, int rc)
{
    of(d)->op = plain(nullptr);
    return rc;
}

/* The ops of a transformer, and those of its optimizers, note their calls. */
void record_llm(struct exec_device *exec);

#endif
