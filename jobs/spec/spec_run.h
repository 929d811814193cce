/* spec_run.h - how the processes of a job are started and logged: see
 * mgpu-job(5). */
#ifndef MGPU_JOBS_SPEC_SPEC_RUN_H
#define MGPU_JOBS_SPEC_SPEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

/* The processes of a command, and what they are told of each other. */
enum spec_launch {
    LAUNCH_RANKS, /* one per GPU, told its number as MGPU_RANK */
    LAUNCH_TORCH, /* one per GPU, with the variables of PyTorch's env:// */
    LAUNCH_MPI,   /* one per GPU, each an MPI process of one world */
    LAUNCH_NODE   /* one per node, which sees all of its GPUs */
};

/* In a directory of results or checkpoints: whose it is
 * (worker/checkpoint/dir_owner.h). */
#define SPEC_OWNER_FILE ".mgpu-owner"

/* What becomes of a training whose checkpoint cannot be written. */
enum spec_on_error { ON_ERROR_WARN, ON_ERROR_FAIL };

/* What becomes of a job that prints more than logs.max_bytes. */
enum spec_on_limit { ON_LIMIT_TRUNCATE, ON_LIMIT_FAIL };

/* watchdog.action: what to do with a job without progress. */
enum spec_stall {
    STALL_AUTO, /* spec_stall_ends() */
    STALL_END,
    STALL_ALERT
};

/* What the ranks print. */
struct spec_logs {
    int64_t max_bytes;
    enum spec_on_limit on_limit;
    bool per_rank; /* lines have rank labels */
};

#endif
