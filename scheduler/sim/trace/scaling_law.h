/* scaling_law.h - how much faster a job is on more GPUs, where nobody measured
 * it. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_SCALING_LAW_H
#define MGPU_SCHEDULER_SIM_TRACE_SCALING_LAW_H

#include "scheduler/sim/trace/speed.h"

enum { LAW_ROWS_MAX = 64 };

struct scaling_law {
    enum { LAW_AMDAHL, LAW_POWER, LAW_TABLE } kind;
    double x; /* amdahl: the part that runs in parallel; power: the exponent */
    struct {
        double gpus, speedup;
    } rows[LAW_ROWS_MAX]; /* of a table, by GPUs; the first one is 1, 1 */
    size_t n;
};

/* "linear"; "amdahl:0.95", 1 / (1 - p + p / n); "power:0.8", n^0.8; or
 * "table:FILE", lines of gpus,speedup, between which it is interpolated: behind
 * the last one it stays.
 * err  ERR_USAGE the form; ERR_INVAL the file, with its place */
int scaling_law_parse(const char *text, struct scaling_law *ret,
                      struct error *err) MUST_CHECK;
/* The speed of jobs of a recorded length on work_gpus GPUs, where a unit of
 * work is a second. Other sizes follow the law. own  *ret: ops->destroy() */
int scaling_law_speed(const struct scaling_law *law, struct speed **ret,
                      struct error *err) MUST_CHECK;

#endif
