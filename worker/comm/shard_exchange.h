/* shard_exchange.h - rank 0 reads and writes sharded arrays as if it had all of
 * them: for checkpoints and results.
 *
 * Rank 0 calls shard_fetch() and shard_store(), in any order, and then
 * shard_end(). Meanwhile the others are in shard_serve(), which does their
 * part and returns after shard_end(). One unit at a time is whole, in the
 * exchange's room on each rank.
 */
#ifndef MGPU_WORKER_COMM_SHARD_EXCHANGE_H
#define MGPU_WORKER_COMM_SHARD_EXCHANGE_H

#include <stdbool.h>

#include "kernels/device.h"
#include "worker/comm/comm.h"
#include "worker/comm/shards.h"

enum { SHARD_ARRAYS = 8 };

struct shard_array {
    void *data; /* [shards.elements] on the device */
    enum dtype dt;
};

struct shard_exchange {
    /* set by the owner; all borrowed */
    struct device *dev;
    struct comm *comm; /* over the device's memory */
    struct comm *host; /* over the host's */
    const struct shards *shards;
    void *room; /* device: [shards.largest] of the widest array's type */
    double deadline_s;
    struct shard_array arrays[SHARD_ARRAYS];
    int32_t n;

    /* Rank 0: what room holds; unit -1: nothing. */
    int32_t array, unit;
    bool is_changed;
};

/* Elements [first, first + count) of a whole array, in its type.
 * err  ERR_TIMEOUT, ERR_EXTERN: the communicator is dead */
int shard_fetch(struct shard_exchange *x, int32_t array, int64_t first,
                int64_t count, void *host, struct error *err) MUST_CHECK;
int shard_store(struct shard_exchange *x, int32_t array, int64_t first,
                int64_t count, const void *host, struct error *err) MUST_CHECK;
int shard_end(struct shard_exchange *x, struct error *err) MUST_CHECK;

int shard_serve(struct shard_exchange *x, struct error *err) MUST_CHECK;

#endif
