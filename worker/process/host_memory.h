/* host_memory.h - host memory that a job has, and that is left for it. */
#ifndef MGPU_WORKER_PROCESS_HOST_MEMORY_H
#define MGPU_WORKER_PROCESS_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_left {
    int64_t bytes; /* negative: not known */
    bool is_share; /* what the process's control groups leave, as Slurm sets
                      them for --mem, is less than what the machine has */
};

/* in  root  "" but for tests: stands before /proc and /sys */
struct memory_left memory_left(const char *root);

/* Resident memory of this process: now, and at its highest. Negative: not
 * known. */
struct memory_used {
    int64_t bytes, highest;
};
struct memory_used memory_used(const char *root);

#endif
