/* inbox.h - notes of the allocator that the engine has not handled yet. */
#ifndef MGPU_SCHEDULER_ENGINE_ATTEMPTS_INBOX_H
#define MGPU_SCHEDULER_ENGINE_ATTEMPTS_INBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "slurm/alloc.h"

/* A note stays here until the events that it caused are durable. */
struct inbox {
    struct alloc_note *notes; /* owned */
    bool *handled;            /* owned; staged, not yet durable */
    size_t n, cap;
};

#endif
