/* sol.h - the share of its GPU's limit that an iteration reached ("speed of
 * light"): the least time of its work on this card (worker/process/
 * card_limits.h), divided by t_iter.
 *
 * Nothing is said where the share would be one of something else: on the host
 * and on a card without known limits; in a run with train.profile, which slows
 * iterations down; of an iteration that captured a graph, or left the weights
 * as they were. Iterations that are launched as graphs do the same work as
 * others. With train.mixed products are those of the 16-bit type, and the
 * update moves the weights in fp32 as well.
 */
#ifndef MGPU_WORKER_TRAIN_SOL_H
#define MGPU_WORKER_TRAIN_SOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/model_call.h"
#include "worker/process/card_limits.h"
#include "worker/train/optimizer.h"

struct sol {
    int32_t gpu;             /* its index; -1: it is the host */
    int64_t room;            /* what it had free for the plan; -1: not known */
    bool is_on;              /* its limits are known, and are used */
    struct card_floor floor; /* of the iteration under way */
    bool has_captured, has_updated; /* likewise */
    int64_t iterations;             /* of this run */
    double floor_s, took_s; /* of this epoch's, without the first of the run;
                               took_s 0: there are none */
};

/* Finds the card's limits.
 * out  ret  a line for the log; "": there is none to say */
enum { SOL_LINE_CAP = 400 };
void sol_open(struct sol *s, const struct job_spec *spec, enum dtype dt,
              char ret[SOL_LINE_CAP]);

/* Before an iteration, for each of its batches, and behind it.
 * in  update_bytes  what the update reads and writes at least
 * Returns the share; NAN: nothing is said. */
void sol_begin(struct sol *s);
void sol_add(struct sol *s, const struct model *m, const struct batch *b);
double sol_end(struct sol *s, double update_bytes, double t_iter);
/* Between two epochs. */
void sol_next_epoch(struct sol *s);

/* ", 43.1 % of the GPU's limit", of the epoch's iterations; "" if it is not
 * known. */
enum { SOL_TEXT_CAP = 40 };
const char *sol_text(const struct sol *s, char ret[SOL_TEXT_CAP]);

#endif
