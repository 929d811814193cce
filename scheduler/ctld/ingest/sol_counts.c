/* sol_counts.c - see sol_counts.h. */
#include "scheduler/ctld/ingest/sol_counts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

const double sol_counts_bounds[SOL_BUCKETS - 1] = {0.05, 0.1, 0.2, 0.3, 0.4,
                                                   0.5,  0.6, 0.7, 0.8, 0.9};

void sol_shares_clear(struct sol_shares *s)
{
    free(s->at);
    *s = (struct sol_shares){.n = 0};
}

int sol_counts_note(struct sol_shares *io, const struct metric_row *m,
                    struct error *err)
{
    if (m->kind != METRIC_VALUE || m->value.rank != 0 ||
        m->value.iteration < 1 || !isfinite(m->value.value) ||
        strcmp(m->value.name, "sol") != 0)
        return 0;
    if (io->n == io->cap) {
        const size_t cap = io->cap > 0 ? 2 * io->cap : 64;
        struct sol_share *at = realloc(io->at, cap * sizeof(*at));
        if (!at)
            return error_set(err, ERR_NOMEM, "shares of metric rows");
        io->at = at;
        io->cap = cap;
    }
    io->at[io->n++] = (struct sol_share){.iteration = m->value.iteration,
                                         .share = m->value.value};
    return 0;
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
