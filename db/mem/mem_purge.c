/* mem_purge.c - purge metric rows of the in-memory store. The caller holds the
 * lock. */
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

static const enum store_view views_of_rows[] = {VIEW_ITERATION, VIEW_METRIC,
                                                VIEW_PROFILE, VIEW_EPOCH};
enum { N_VIEWS = sizeof(views_of_rows) / sizeof(views_of_rows[0]) };

static bool is_due(const struct mem_table *jobs, uint64_t job, double before_s)
{
    enum job_state state;
    for (size_t i = 0; i < jobs->n; i++) {
        const struct store_job *j = &jobs->items[i]->job;
        if (j->id == job)
            return j->end_s < before_s && j->state &&
                   job_state_from_name(j->state, &state) == 0 &&
                   job_state_is_final(state);
    }
    return false;
}

/* The first job from `at` on that has rows; 0: none. */
static uint64_t next_of(const struct mem_table *tables, uint64_t at)
{
    uint64_t job = 0;
    for (size_t v = 0; v < N_VIEWS; v++) {
        const struct mem_table *t = &tables[views_of_rows[v]];
        for (size_t i = 0; i < t->n; i++)
            if (t->items[i]->key.job >= at &&
                (job == 0 || t->items[i]->key.job < job))
                job = t->items[i]->key.job;
    }
    return job;
}

static size_t remove_of(struct mem_table *t, uint64_t job, size_t max)
{
    size_t gone = 0, kept = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (gone < max && t->items[i]->key.job == job) {
            free(t->items[i]);
            gone++;
        } else {
            t->items[kept++] = t->items[i];
        }
    }
    t->n = kept;
    return gone;
}

void mem_purge(struct mem_table *tables, struct store_purge *io)
{
    io->n = 0;
    while ((io->at = next_of(tables, io->at)) > 0 &&
           !is_due(&tables[VIEW_JOB], io->at, io->before_s))
        io->at++;
    io->is_over = io->at == 0;
    for (size_t v = 0; !io->is_over && v < N_VIEWS; v++)
        io->n += remove_of(&tables[views_of_rows[v]], io->at, io->max - io->n);
}
