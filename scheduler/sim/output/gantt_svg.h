/* gantt_svg.h - pictures of a simulation: which job has which GPU, and how long
 * jobs take. They follow the reader's preference for light or dark. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_GANTT_SVG_H
#define MGPU_SCHEDULER_SIM_OUTPUT_GANTT_SVG_H

#include "scheduler/sim/output/run_figures.h"

/* One row a GPU, a colour for each class. */
int gantt_svg(const struct sim_conf *conf, const struct sim_output *o,
              struct buf *out, struct error *err) MUST_CHECK;
/* The distribution of the JCT, a line for each policy. */
int cdf_svg(const struct sim_conf *conf, const struct sim_named *runs, size_t n,
            struct buf *out, struct error *err) MUST_CHECK;

#endif
