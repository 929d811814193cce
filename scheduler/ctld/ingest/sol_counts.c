/* sol_counts.c - see sol_counts.h. */
#include "scheduler/ctld/ingest/sol_counts.h"

#include <math.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

const double sol_counts_bounds[SOL_BUCKETS - 1] = {0.05, 0.1, 0.2, 0.3, 0.4,
                                                   0.5,  0.6, 0.7, 0.8, 0.9};

void sol_counts_note(struct sol_shares *io, const struct metric_row *m)
{
    if (m->kind != METRIC_VALUE || m->value.rank != 0 ||
        m->value.iteration < 1 || !isfinite(m->value.value) ||
        strcmp(m->value.name, "sol") != 0 || io->n == SOL_MOST)
        return;
    io->at[io->n].iteration = m->value.iteration;
    io->at[io->n++].share = m->value.value;
}

void sol_counts_add(struct ctld *c, struct attempt_metrics *i,
                    const struct sol_shares *s)
{
    const struct job *job = engine_job(c->engine, i->job);
    struct sol_counts *to = &c->stats.sol;

    if (!job || strcmp(job->kind, "command") == 0)
        return;
    for (size_t k = 0; k < s->n; k++) {
        int b = 0;
        if (s->at[k].iteration <= i->sol_counted) /* it came again */
            continue;
        i->sol_counted = s->at[k].iteration;
        while (b < SOL_BUCKETS - 1 && s->at[k].share > sol_counts_bounds[b])
            b++;
        to->buckets[b]++;
        to->n++;
        to->sum += s->at[k].share;
    }
}
