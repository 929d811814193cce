/* worker_words.h - what the worker of an attempt says of itself, beside its
 * progress. */
#ifndef MGPU_SCHEDULER_ENGINE_WORKER_WORDS_H
#define MGPU_SCHEDULER_ENGINE_WORKER_WORDS_H

#include <stdint.h>

/* Why checkpoints of an attempt could not be written, all of them each time
 * that the worker speaks: what is new becomes events. */
enum { ENGINE_FAILURES_MAX = 16 };
struct engine_failures {
    int32_t n;
    const char *why[ENGINE_FAILURES_MAX];
};

/* What a worker's final report says beside its exit code: sums over all ranks;
 * -1: unknown. */
struct engine_report_extra {
    int64_t cpu_ms;   /* CPU time that the job used */
    int64_t cores_ms; /* CPU time of all cores that it was allowed to use */
    int64_t gpu_busy_ms, gpus_ms; /* time for which the GPUs of a command were
                                     busy, and for which they were sampled */
    int32_t stopped; /* 1: a rank was told to stop before its work was done;
                        0: none was */
    /* "memory", "host_memory": a rank refused its plan, which needs so many
     * bytes of a GPU, or of its share of the machine; NULL, "": none did */
    const char *cause;
    int64_t needed_bytes, available_bytes;
    struct engine_failures failures; /* of checkpoints */
};

#endif
