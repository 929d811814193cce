/* exec_cuda.h - internals of the CUDA device, for its own files. */
#ifndef MGPU_KERNELS_EXEC_EXEC_CUDA_H
#define MGPU_KERNELS_EXEC_EXEC_CUDA_H

#include "kernels/exec/exec_device.h"

enum { RETIRED_MOST = 32 };

/* How work is divided. */
enum {
    CUDA_LANES = 256,
    /* 8 blocks of 256 lanes fill a multiprocessor of compute capability 9.0
     * (2048 threads). Partial sums are read back by one lane per column, so
     * fewer blocks make them. */
    CUDA_BLOCKS_PER_SM = 8,
    CUDA_PARTS_PER_SM = 2,
    CUDA_BLOCK_WORK = 1024,
    CUDA_ROW_BYTES = 16, /* of a vector, and of a load for tensor cores */
};

struct cuda_gemm;
struct cuda_queue;

struct cuda_device {
    struct exec_device exec;
    char bus[32];             /* the PCI address */
    struct cuda_gemm *gemm;   /* gemm_cuda.c */
    struct cuda_queue *queue; /* graph_cuda.c */
    bool captures;
    int32_t graphs; /* number of existing ones */
    /* Graphs may still use a scratch that has grown since. */
    void *retired[RETIRED_MOST];
    int32_t n_retired;
};

/* 0, or -1 and err for a cudaError_t. */
int cuda_check(int status, const char *what, struct error *err);

int cuda_gemm_open(struct cuda_device *cuda, struct error *err);
void cuda_gemm_close(struct cuda_device *cuda); /* half-opened is fine */
int cuda_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err);
int cuda_allow_tf32(struct device *d, bool allow, struct error *err);
int cuda_tune(struct device *d, bool on, struct error *err);
/* With tune() the way that took less time when this key came first; else the
 * first one. See struct exec_device. */
int cuda_faster(struct exec_device *exec, const int64_t key[VARIANT_KEY],
                int (*run)(void *arg, bool second, struct error *err),
                void *arg, bool *ret_second, struct error *err);

/* Capture and replay, marks, and copies in parallel with the work. */
int cuda_queue_open(struct cuda_device *cuda, struct error *err);
void cuda_queue_close(struct cuda_device *cuda); /* half-opened is fine */
void cuda_queue_install(struct device_ops *ops);

/* The symbols that the plug-in exports: a device_cuda_open_f and a
 * device_cuda_count_f. */
int mgpu_cuda_open(int32_t index, struct device **ret, struct error *err);
int mgpu_cuda_count(int32_t *ret, struct error *err);

#endif
