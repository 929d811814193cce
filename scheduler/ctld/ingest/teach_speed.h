/* teach_speed.h - tell the engine how fast jobs are, and how long. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_TEACH_SPEED_H
#define MGPU_SCHEDULER_CTLD_INGEST_TEACH_SPEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/wire/metric_rows.h"

struct ctld;
struct job;

/* Iteration times of rank 0 in one batch of rows. All ranks wait for each
 * other in an iteration, so one of them is enough. A longer batch than
 * TIMES_MAX tells no more of a size than that. */
enum { TIMES_MAX = 256 };
struct iteration_times {
    size_t n;
    struct {
        int64_t iteration;
        double t_iter_s;
    } at[TIMES_MAX];
};

/* Notes the row if it has an iteration time of rank 0. */
void teach_times_add(struct iteration_times *t, const struct metric_row *m);

/* On the loop. Each iteration is told once. The first iterations of a size that
 * had not run are compared with the rate that was predicted for it. */
struct attempt_metrics;
void teach_times(struct ctld *c, struct attempt_metrics *i,
                 const struct iteration_times *t);
/* On the loop, for a new job: the iterations that its spec asks for, if it says
 * so; and what teach_policy() does. */
void teach_submit(struct ctld *c, const struct job *job);

/* At the start: the lengths of the jobs that have not ended, and
 * teach_policy(). */
int teach_begin(struct ctld *c, struct error *err) MUST_CHECK;
/* After each change of the policy: the first time that it is goodput and a job
 * with a range of GPUs has not ended, queries the speed of all classes on the
 * reader's thread.
 * err  ERR_BUSY the thread has too much to do; ERR_NOMEM */
int teach_policy(struct ctld *c, struct error *err) MUST_CHECK;

/* Whether the samples of an iteration of jobs of this class grow with the
 * number of GPUs: not of a command or a program, and not with a constant global
 * batch ("b8-g96"). As engine_is_weak() of such a job. */
bool teach_class_is_weak(const char *class);
/* Iterations on one GPU of a job with this resolved spec; 0: not known. */
int64_t teach_iterations_of(const char *spec);

#endif
