/* length_guess.h - a guess of the length of a job, if nothing tells it.
 *
 * The length of a job is known when its iterations are, or those of earlier
 * jobs of its class, and its class has run. Else it is, in this order,
 *
 *   its own time limit;
 *   the mean of the jobs of its program that have completed, on this speed;
 *   the median GPU time of all jobs that have completed;
 *   an hour, before one has;
 *
 * the last three up to the limit that its partition has for jobs without one.
 * None of these depends on who is queued or runs: a job that is paused for its
 * rank must not change it by that.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_LENGTH_GUESS_H
#define MGPU_SCHEDULER_ENGINE_TABLE_LENGTH_GUESS_H

#include <stdint.h>

struct engine;
struct eng_model;
struct job;
struct job_record;

/* GPU times of jobs that have completed, each eighth of a doubling counted from
 * 1/16 s on: so a median is known to a twelfth, in memory that does not grow.
 * At LENGTHS_MAX all counts are halved: the newest count most, and what a
 * replay of the log does not know is bounded.
 */
enum { LENGTH_OCTAVE = 8, LENGTH_LEAST = -4, LENGTHS_N = 320 };
enum { LENGTHS_MAX = 4096 };
struct eng_lengths {
    uint64_t n[LENGTHS_N];
    uint64_t total;
    double median_s; /* 0: none has completed */
};

/* Counts a job that has ended, if it has completed. */
void eng_length_note(struct engine *e, const struct job *job);

/* Seconds on one GPU of what is left of the job.
 * in  m  of its class
 *     speed  of the size that it has, before of its smallest one, over one
 *            GPU; NAN: unknown */
double eng_length_guess_s(const struct engine *e, const struct job_record *rec,
                          const struct eng_model *m, double speed);

#endif
