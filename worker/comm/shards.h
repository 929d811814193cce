/* shards.h - an array that is sharded over the ranks: each keeps a part.
 *
 * The whole array is a row of units, such as the layers of a model. Every unit
 * is cut into as many chunks of one size as there are ranks, and zeros fill
 * the last one up. Rank r keeps chunk r of each; its chunks lie one behind
 * the other and are its shard. So one all-gather makes a unit whole, and one
 * reduce-scatter hands out its sum.
 */
#ifndef MGPU_WORKER_COMM_SHARDS_H
#define MGPU_WORKER_COMM_SHARDS_H

#include <stdint.h>

#include "jobs/base/error.h"

/* A chunk is a multiple of this, so that each begins at a multiple of 256
 * bytes in every type. */
enum { SHARD_ALIGN = 128 };

struct shard_unit {
    int64_t first, count; /* of the whole array's elements */
    int64_t chunk;        /* elements that each rank keeps */
    int64_t at;           /* where they lie in a shard */
};

struct shards {
    int32_t rank, ranks;
    int32_t n;                /* 0: the array is not sharded */
    struct shard_unit *units; /* owned */
    int64_t elements;         /* of a shard */
    int64_t largest;          /* of the largest unit, filled up */
};

/* in   counts  [n] elements of each unit */
int shards_init(struct shards *ret, int32_t rank, int32_t ranks,
                const int64_t *counts, int32_t n, struct error *err) MUST_CHECK;
void shards_clear(struct shards *s); /* zeroed is fine */

/* Elements of the whole array. */
int64_t shards_whole(const struct shards *s);

/* The unit that an element of the whole array is in. */
int32_t shards_find(const struct shards *s, int64_t element);

/* The elements that this rank keeps of a range within one unit. */
struct shard_part {
    int64_t first; /* of the whole's elements */
    int64_t at;    /* where it lies in the shard */
    int64_t count; /* 0: nothing */
};
struct shard_part shards_part(const struct shards *s, int64_t first,
                              int64_t count);

#endif
