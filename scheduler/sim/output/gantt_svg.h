/* gantt_svg.h - which job has which GPU, as a picture that follows the reader's
 * preference for light or dark. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_GANTT_SVG_H
#define MGPU_SCHEDULER_SIM_OUTPUT_GANTT_SVG_H

#include "scheduler/sim/output/run_figures.h"

/* One row a GPU, a colour for each class. */
int gantt_svg(const struct sim_conf *conf, const struct sim_output *o,
              struct buf *out, struct error *err) MUST_CHECK;
/* The same as a part of a page, of the attempts with the most GPU time on a
 * node: at most so many. */
struct gantt_shown {
    size_t bars, shown; /* attempts, by node */
    double share;       /* of the GPU time */
};
int gantt_svg_largest(const struct sim_conf *conf, const struct sim_output *o,
                      size_t most, struct gantt_shown *ret, struct buf *out,
                      struct error *err) MUST_CHECK;

#endif
