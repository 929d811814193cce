/* optimizer_state8.h - the state of adamw8bit on the host: its maps, and its
 * values for checkpoints.
 *
 * Each of the optimizer's ranges, mostly a tensor, begins with a block of its
 * own. A checkpoint has the values, as adamw's, with which a run can go on, and
 * the largest value of each block, so that they get the same codes again.
 */
#ifndef MGPU_WORKER_TRAIN_OPTIMIZER_STATE8_H
#define MGPU_WORKER_TRAIN_OPTIMIZER_STATE8_H

#include "kernels/ops/state8.h"
#include "worker/train/optimizer.h"

enum { STATE8_SIGNED, STATE8_UNSIGNED, STATE8_MAPS };

/* bitsandbytes' dynamic maps: of the mean, and of the mean of squares. */
void state8_maps(float ret[STATE8_MAPS][STATE8_CODES]);

/* host [n] A, the values of array i of the optimizer in arg; of i - n_state the
 * largest of each block, [blocks], which are stored first.
 * err  the device's; ERR_NOMEM */
int state8_fetch(void *arg, int32_t i, void *host,
                 struct error *err) MUST_CHECK;
int state8_store(void *arg, int32_t i, const void *host,
                 struct error *err) MUST_CHECK;

#endif
