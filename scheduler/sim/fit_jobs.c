/* fit_jobs.c - see fit_jobs.h. */
#include "scheduler/sim/fit_jobs.h"

/* The smallest size from `gpus` on that fits; 0: none does. */
static int32_t size_that_fits(const struct sim_cluster *c, int32_t gpus)
{
    for (int32_t g = gpus; g <= c->gpus_total; g++)
        if (sim_cluster_fit(c, g).nodes > 0)
            return g;
    return 0;
}

void fit_jobs(const struct sim_cluster *c, struct sim_trace *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        struct sim_job *job = &t->jobs[i];
        int32_t gpus = size_that_fits(c, job->gpus_max);
        if (gpus == 0) {
            t->left_out.too_large++;
            continue;
        }
        t->left_out.rounded += gpus != job->gpus_max;
        job->gpus_min = job->gpus_max = job->work_gpus = gpus;
        t->jobs[n++] = *job;
    }
    t->n = n;
}
