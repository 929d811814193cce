/* watch_blocks.h - encoded pieces of the list of jobs, which the beginnings of
 * many streams share. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_BLOCKS_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/http/http_server.h"

/* Jobs of one block: less than a millisecond of encoding. */
enum { WATCH_BLOCK_JOBS = 64 };

struct watch_block {
    uint64_t after, last; /* has the jobs behind `after`, up to `last` */
    int64_t viewer;       /* who may see it */
    struct http_shared *text;
};

struct watch_blocks {
    struct watch_block *v; /* owned, with its texts */
    size_t n, cap;
};

/* Borrowed until the next call; NULL: there is none. */
const struct watch_block *watch_blocks_find(const struct watch_blocks *b,
                                            uint64_t after, int64_t viewer);
/* own  takes the reference to block->text, also on failure
 * ret  as watch_blocks_find(); NULL: no memory */
const struct watch_block *watch_blocks_add(struct watch_blocks *b,
                                           const struct watch_block *block);
/* The job has changed: what has it, or would have it, is dropped. */
void watch_blocks_changed(struct watch_blocks *b, uint64_t job);
void watch_blocks_clear(struct watch_blocks *b); /* zeroed is fine */

#endif
