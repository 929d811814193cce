/* synthetic.h - generated images; see dataset.h. */
#ifndef MGPU_WORKER_DATA_SYNTHETIC_H
#define MGPU_WORKER_DATA_SYNTHETIC_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "worker/data/dataset.h"

/* n images of 28x28 in num_classes classes, labels 0, 1, 2, ... in turn.
 * A class is a grid of bright and dark fields, the same for every stream; an
 * image is its class's grid, moved by up to two pixels, with noise drawn
 * from `stream`.
 *
 * out  ret  filled in; on failure what it holds is for dataset_clear()
 * err  ERR_INVAL, ERR_LIMIT more than 2^31 bytes, ERR_NOMEM
 */
int synthetic_make(int32_t n, int32_t num_classes, uint32_t stream,
                   struct dataset *ret, struct error *err) MUST_CHECK;

#endif
