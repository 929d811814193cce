/* replicates.c - --replicate N: all runs again with other arrivals, as
 * sim_trace_draw() has them. Errors of lengths and of speeds, and failures of
 * nodes, are drawn anew, too. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/simulation.h"

/* Neighbouring seeds of --seed share no replicate. */
static uint32_t seed_of(uint32_t seed, size_t k)
{
    return (seed * 2654435761U) ^ (uint32_t)(k + 1);
}

static int run_one(struct simulation *s, size_t k, size_t i,
                   bool *io_is_unended, struct error *err)
{
    struct sim_output out = {.n = 0};
    struct run_figures f = {.jobs = 0};

    s->args->conf.is_fixed = s->policies[i].policy != &policy_goodput;
    if (sim_run(&s->args->conf, &s->policies[i], &out, err) < 0)
        return -1;
    int rc = run_figures(&s->args->conf, &out, &f, err);
    if (rc == 0)
        run_replicates_add(&s->replicates, k, i, &f);
    *io_is_unended = *io_is_unended || out.n_unended > 0;
    run_figures_clear(&f);
    sim_output_clear(&out);
    return rc;
}

/* The trace and the seed are those of the options again afterwards. */
int replicates_run(struct simulation *s, size_t n, struct error *err)
{
    struct sim_conf *conf = &s->args->conf;
    const struct sim_conf given = *conf;
    struct sim_trace trace = s->trace; /* it borrows all but the jobs */
    int rc = run_replicates_create(n, s->n_runs, &s->replicates, err);

    if (rc < 0)
        return rc;
    trace.jobs = calloc(trace.n + 1, sizeof(*trace.jobs));
    if (!trace.jobs)
        return error_set(err, ERR_NOMEM, "replicate of %zu jobs", trace.n);
    memcpy(trace.jobs, s->trace.jobs, trace.n * sizeof(*trace.jobs));
    conf->trace = &trace;
    for (size_t k = 0; rc == 0 && k < n; k++) {
        bool is_unended = false;
        conf->seed = seed_of(given.seed, k);
        sim_trace_draw(s->trace.jobs, trace.n, conf->seed, trace.jobs);
        for (size_t i = 0; rc == 0 && i < s->n_runs; i++)
            rc = run_one(s, k, i, &is_unended, err);
        s->replicates.n_unended += is_unended;
    }
    *conf = given;
    free(trace.jobs);
    return rc;
}
