/* mem_view.c - convert rows of the in-memory store to the cells of the
 * views. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

static struct store_cell *next(struct mem_cells *c, enum cell_kind kind)
{
    struct store_cell *cell = &c->at[c->n];

    *cell = (struct store_cell){.name = c->view->columns[c->n], .kind = kind};
    c->n++;
    return cell;
}

void mem_put_int(struct mem_cells *c, int64_t i)
{
    next(c, CELL_INT)->i = i;
}

/* For columns where a negative number means "unknown". */
static void put_count(struct mem_cells *c, int64_t i)
{
    next(c, i < 0 ? CELL_NULL : CELL_INT)->i = i < 0 ? 0 : i;
}

void mem_put_real(struct mem_cells *c, double r)
{
    next(c, isfinite(r) ? CELL_REAL : CELL_NULL)->r = isfinite(r) ? r : 0;
}

void mem_put_text(struct mem_cells *c, const char *s)
{
    next(c, s ? CELL_TEXT : CELL_NULL)->s = s;
}

static void fill_job(struct mem_cells *c, const struct store_job *j)
{
    mem_put_int(c, (int64_t)j->id);
    mem_put_text(c, j->name);
    mem_put_text(c, j->user);
    put_count(c, j->uid);
    mem_put_text(c, j->kind);
    mem_put_text(c, j->state);
    mem_put_text(c, j->reason);
    mem_put_int(c, j->priority);
    mem_put_int(c, j->gpus_min);
    mem_put_int(c, j->gpus_max);
    mem_put_int(c, j->gpus);
    mem_put_int(c, j->attempt);
    put_count(c, j->exit_code);
    mem_put_real(c, j->submit_s);
    mem_put_real(c, j->start_s);
    mem_put_real(c, j->end_s);
    mem_put_text(c, j->idempotency_key);
    mem_put_text(c, j->spec);
    mem_put_text(c, j->dir);
}

static void fill_attempt(struct mem_cells *c, const struct store_attempt *a)
{
    mem_put_int(c, (int64_t)a->job);
    mem_put_int(c, a->attempt);
    mem_put_text(c, a->state);
    mem_put_text(c, a->reason);
    mem_put_text(c, a->native_id);
    mem_put_text(c, a->place);
    mem_put_text(c, a->class);
    mem_put_int(c, a->gpus);
    mem_put_int(c, a->nodes);
    put_count(c, a->exit_code);
    mem_put_int(c, a->signal);
    mem_put_real(c, a->intent_s);
    mem_put_real(c, a->claim_s);
    mem_put_real(c, a->run_s);
    mem_put_real(c, a->end_s);
    put_count(c, a->resized_from > 0 ? a->resized_from : -1);
    mem_put_real(c, a->resized_from > 0 ? a->checkpoint_s : (double)NAN);
    mem_put_real(c, a->resized_from > 0 ? a->allocator_s : (double)NAN);
    mem_put_real(c, a->resized_from > 0 ? a->start_s : (double)NAN);
    mem_put_text(c, a->cause);
    put_count(c, a->cause ? a->needed_bytes : -1);
    put_count(c, a->cause ? a->available_bytes : -1);
    mem_put_text(c, a->gpu_type);
    mem_put_text(c, a->account);
}

void mem_cells_usage(struct mem_cells *c, const struct store_attempt *a,
                     const struct store_job *j)
{
    c->n = 0;
    c->view = &views[VIEW_USAGE];
    mem_put_int(c, (int64_t)a->job);
    mem_put_int(c, a->attempt);
    mem_put_text(c, j->user);
    put_count(c, j->uid);
    mem_put_text(c, a->account);
    mem_put_text(c, a->class);
    mem_put_text(c, a->gpu_type);
    mem_put_text(c, a->place);
    mem_put_int(c, a->gpus);
    mem_put_text(c, a->state);
    mem_put_real(c, j->submit_s);
    mem_put_real(c, a->claim_s);
    mem_put_real(c, a->run_s);
    mem_put_real(c, a->end_s);
}

static void fill_event(struct mem_cells *c, const struct store_event *e)
{
    mem_put_int(c, (int64_t)e->seq);
    mem_put_int(c, (int64_t)e->job);
    mem_put_int(c, e->attempt);
    mem_put_text(c, job_event_name(e->ev));
    mem_put_real(c, e->at_s);
    put_count(c, e->uid);
    mem_put_text(c, e->detail);
}

static void fill_iteration(struct mem_cells *c,
                           const struct metric_iteration *m)
{
    mem_put_int(c, m->rank);
    mem_put_int(c, m->iteration);
    put_count(c, m->epoch);
    mem_put_real(c, m->started_at);
    mem_put_real(c, m->t_iter);
    mem_put_real(c, m->t_data);
    mem_put_real(c, m->t_h2d);
    mem_put_real(c, m->t_forward);
    mem_put_real(c, m->t_backward);
    mem_put_real(c, m->t_comm);
    mem_put_real(c, m->t_optimizer);
    mem_put_real(c, m->loss);
    mem_put_real(c, m->lr);
    put_count(c, m->samples);
    put_count(c, m->tokens);
    put_count(c, m->gpu_mem_bytes);
}

static void fill_epoch(struct mem_cells *c, const struct metric_epoch *m)
{
    mem_put_int(c, m->epoch);
    mem_put_real(c, m->seconds);
    mem_put_real(c, m->train_loss);
    mem_put_real(c, m->eval_loss);
    mem_put_real(c, m->eval_accuracy);
    mem_put_real(c, m->samples_per_s);
    mem_put_real(c, m->tokens_per_s);
}

static void fill_profile(struct mem_cells *c, const struct metric_profile *m)
{
    mem_put_int(c, m->rank);
    mem_put_int(c, m->epoch);
    mem_put_text(c, m->metric);
    put_count(c, m->calls);
    mem_put_real(c, m->total_s);
    put_count(c, m->bytes);
    mem_put_real(c, m->sampled);
}

static void fill_value(struct mem_cells *c, const struct metric_value *m)
{
    mem_put_int(c, m->rank);
    put_count(c, m->iteration);
    mem_put_text(c, m->name);
    mem_put_real(c, m->value);
}

void mem_cells_fill(struct mem_cells *c, enum store_view view,
                    const struct mem_item *item)
{
    c->n = 0;
    c->view = &views[view];
    if (view >= VIEW_ITERATION) { /* rows do not have these two */
        mem_put_int(c, (int64_t)item->key.job);
        mem_put_int(c, item->key.attempt);
    }
    switch (view) {
    case VIEW_JOB:
        fill_job(c, &item->job);
        break;
    case VIEW_ATTEMPT:
        fill_attempt(c, &item->attempt);
        break;
    case VIEW_EVENT:
        fill_event(c, &item->event);
        break;
    case VIEW_ITERATION:
        fill_iteration(c, &item->iteration);
        break;
    case VIEW_EPOCH:
        fill_epoch(c, &item->epoch);
        break;
    case VIEW_METRIC:
        fill_value(c, &item->value);
        break;
    case VIEW_PROFILE:
        fill_profile(c, &item->profile);
        break;
    default: /* scaling: mem_scaling() */
        break;
    }
}
