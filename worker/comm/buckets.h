/* buckets.h - gradients are summed over the ranks while backward() still
 * computes: in pieces, each started when its last gradient is final.
 *
 * The pieces run from the last layer to the first, as backward() does, and
 * start in that order on every rank. The first is small, so that the first
 * transfer starts early; the rest are large, so that latency does not count:
 * 1 MiB and 25 MiB, as torch.nn.parallel.DistributedDataParallel has them.
 * Which piece a gradient is in does not change its sum.
 */
#ifndef MGPU_WORKER_COMM_BUCKETS_H
#define MGPU_WORKER_COMM_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/clock.h"
#include "kernels/device.h"
#include "worker/comm/comm.h"

enum { BUCKET_FIRST_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };

struct buckets {
    /* set by buckets_init() */
    struct comm *comm; /* borrowed; NULL: one rank, nothing to do */
    const struct clock *clock;
    char *grads;
    int64_t n; /* elements */
    size_t size;
    enum comm_type type;
    double deadline_s;
    int64_t first_elems, elems;

    /* of one backward pass */
    int64_t low, high; /* [low, high) is final and not yet started */
    int tickets[COMM_INFLIGHT];
    int n_tickets, n_started;
    double busy_s; /* in here: not computing */
};

void buckets_init(struct buckets *ret, struct comm *comm,
                  const struct clock *clock, void *grads, int64_t n,
                  enum dtype dt, double deadline_s);

void buckets_begin(struct buckets *b);
/* A callback for model_backward(); arg is the struct buckets. */
int buckets_on_ready(void *arg, int64_t first, int64_t count,
                     struct error *err) MUST_CHECK;
/* Would the gradients from `first` on complete a piece? */
bool buckets_are_due(const struct buckets *b, int64_t first);
/* Counts that piece as started, in a copy of the buckets. */
void buckets_suppose(struct buckets *copy, int64_t first);
/* Starts the last piece, when all gradients are final. */
int buckets_flush(struct buckets *b, struct error *err) MUST_CHECK;
/* All sums are there when it returns.
 * err  ERR_TIMEOUT, ERR_EXTERN: the communicator is dead */
int buckets_finish(struct buckets *b, struct error *err) MUST_CHECK;

#endif
