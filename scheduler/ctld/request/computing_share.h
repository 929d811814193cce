/* computing_share.h - which part of its time an attempt computed. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_COMPUTING_SHARE_H
#define MGPU_SCHEDULER_CTLD_REQUEST_COMPUTING_SHARE_H

#include <stdint.h>

#include "db/metric_store.h"

/* The share, 0..1, of the forward and backward passes and of the optimizer in
 * the attempt's last iterations; from any thread.
 * out  *ret  NAN: its rows do not say */
int computing_share(struct store *s, uint64_t job, int32_t attempt, double *ret,
                    struct error *err) MUST_CHECK;

#endif
