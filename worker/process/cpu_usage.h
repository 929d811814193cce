/* cpu_usage.h - CPU time of this rank, and the CPU time that was available to
 * it.
 *
 * A command's is that of the processes which it waited for, the program's own
 * and those of strays; in training that of this process. */
#ifndef MGPU_WORKER_PROCESS_CPU_USAGE_H
#define MGPU_WORKER_PROCESS_CPU_USAGE_H

#include <stdbool.h>
#include <stdint.h>

struct used {
    int64_t cpu_ms;
    int64_t cores_ms; /* of the cores that it may use; 0: unknown */
};

struct used_since {
    bool is_command;
    double at_s, cpu_s;
};

struct used_since cpu_usage_begin(bool is_command);
/* in  cores  that this rank may use; a share of those that it has with others;
 *            0: unknown */
struct used cpu_usage_end(const struct used_since *since, double cores);

#endif
