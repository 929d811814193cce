/* attempt_progress.c - how far an attempt came, from its rows.
 *
 * While the daemon runs, heartbeats report the progress. What a job did while
 * the daemon was away stands in its spools, and in the store when they are
 * drained: the last iteration, and the last evaluation. Without them a job that
 * ended meanwhile would end as if it had done nothing.
 */
#include "scheduler/ctld/ingest/attempt_progress.h"

#include <math.h>

#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"

static int iteration_row(void *arg, const struct store_cell *cells, size_t n,
                         struct error *err)
{
    struct engine_beat *b = arg;
    (void)err;
    b->iteration = store_cell(cells, n, "iteration")->i;
    b->epoch = (int32_t)store_cell(cells, n, "epoch")->i;
    b->loss = store_cell_real(cells, n, "loss");
    b->t_iter = store_cell_real(cells, n, "t_iter");
    return 0;
}

/* Of an epoch that has ended, for only such have a row. */
static int epoch_row(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    struct attempt_progress *f = arg;
    (void)err;
    f->epochs_done = (int32_t)store_cell(cells, n, "epoch")->i;
    f->last.eval_loss = store_cell_real(cells, n, "eval_loss");
    f->last.eval_accuracy = store_cell_real(cells, n, "eval_accuracy");
    return 0;
}

int attempt_progress_read(struct store *s, uint64_t job, int32_t attempt,
                          struct attempt_progress *ret, struct error *err)
{
    struct attempt_progress f = {.last = {.loss = NAN,
                                          .t_iter = NAN,
                                          .eval_loss = NAN,
                                          .eval_accuracy = NAN}};
    struct store_query q = {.view = VIEW_ITERATION,
                            .job = job,
                            .attempt = attempt,
                            .limit = 1,
                            .last = 1};
    if (s->metrics->query(s, &q, iteration_row, &f.last, err) < 0)
        return -1;
    q.view = VIEW_EPOCH;
    if (s->metrics->query(s, &q, epoch_row, &f, err) < 0)
        return -1;
    *ret = f;
    return 0;
}

/* 0: it is not known. */
static int32_t epochs_of(const struct job *job)
{
    json_t *o = json_loads(job->spec, 0, NULL);
    const json_t *n = json_object_get(json_object_get(o, "train"), "epochs");
    int32_t epochs = (int32_t)json_integer_value(n);
    json_decref(o);
    return epochs;
}

void attempt_progress_use(struct engine *e, const struct job *job,
                          const struct attempt_progress *f)
{
    struct engine_beat last = f->last;
    if (job->epochs_total == 0 && last.epoch > 0)
        last.epochs_total = epochs_of(job);
    if (f->epochs_done > 0 && f->epochs_done == last.epochs_total)
        last.iterations_total = last.iteration;
    engine_last_figures(e, job->id, job->attempt, &last);
}
