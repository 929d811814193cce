/* spec_stopping.h - what ends a training before its last epoch: see
 * mgpu-job(5). */
#ifndef MGPU_JOBS_SPEC_SPEC_STOPPING_H
#define MGPU_JOBS_SPEC_SPEC_STOPPING_H

#include <stdint.h>

enum spec_watched {
    WATCH_NONE,
    WATCH_TRAIN_LOSS, /* of a whole epoch */
    WATCH_EVAL_LOSS,
    WATCH_EVAL_ACCURACY
};

/* train.early_stopping */
struct spec_early_stopping {
    enum spec_watched metric;
    int32_t patience;
    double min_delta;
};

#endif
