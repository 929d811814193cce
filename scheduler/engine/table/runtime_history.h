/* runtime_history.h - expected run times, from the measured speed of a job,
 * from that of its class, and from earlier jobs of its name.
 *
 * A time limit says how long a job may run, and most jobs end long before.
 * These estimates are no promise and no plan uses them: they answer when a job
 * may start (what_if.c, start_forecast.c).
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_RUNTIME_HISTORY_H
#define MGPU_SCHEDULER_ENGINE_TABLE_RUNTIME_HISTORY_H

#include <stdint.h>

struct engine;
struct job_record;

/* Run times of the last two jobs of a kind: one user's jobs with the same name
 * and the same number of GPUs. A kind with the same slot in the table replaces
 * another. */
enum { RUNS_N = 1024 };
struct eng_runs {
    uint64_t kind; /* 0: unused */
    double fast_s, slow_s, last_s;
};

/* Notes the run time of a job that completed in its first attempt. */
void eng_runtime_note(struct engine *e, const struct job_record *rec);

/* Seconds from its start to its end on this size, if it keeps its speed, is as
 * fast as its class, or takes as long as the jobs before it; never more than
 * its limit. NAN: unknown.
 *
 * in   nodes, gpus  that it has, or would have
 *      for_s   since its start
 *      share   0 the fastest run time known of it, 1 the slowest */
double eng_runtime_expect_s(const struct engine *e,
                            const struct job_record *rec, int32_t nodes,
                            int32_t gpus, double for_s, double share);

/* The average step time, from its heartbeats; NAN: unknown. */
double eng_runtime_average_s(const struct job_record *rec);

#endif
