/* gpu_figures.h - what is known of how well a job used its GPUs. */
#ifndef MGPU_JOBS_ADVICE_GPU_FIGURES_H
#define MGPU_JOBS_ADVICE_GPU_FIGURES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* Shares; NAN: not known. */
struct gpu_figures {
    double memory; /* in use of the fullest one at the end of an epoch, among
                      those that were sampled */
    double busy;   /* of a command's, as its worker sampled them */
    double limit;  /* sol of rank 0 over its iterations' time, without the first
                      three of each attempt */
    int64_t batch_fits; /* of the last attempt; 0: not known */
};

/* in  reply       mgpu.job/1, with "profile", "events" and "values" if there
 *                 are any, and the first values of its attempt, which the
 *                 others may lack, as "first_values"
 *     iterations  mgpu.iterations/1 */
struct gpu_figures gpu_figures_of(const json_t *reply,
                                  const json_t *iterations);

/* Prints a note if the job would gain by giving its GPU more to do at once.
 * in  computing  the share of the time in which it computes
 *     other      the largest share of what it does otherwise
 * Returns how many. */
int gpu_figures_note(FILE *out, const json_t *job, const struct gpu_figures *g,
                     double computing, double other);

#endif
