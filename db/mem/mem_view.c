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

static void put_int(struct mem_cells *c, int64_t i)
{
    next(c, CELL_INT)->i = i;
}

/* For columns where a negative number means "unknown". */
static void put_count(struct mem_cells *c, int64_t i)
{
    next(c, i < 0 ? CELL_NULL : CELL_INT)->i = i < 0 ? 0 : i;
}

static void put_real(struct mem_cells *c, double r)
{
    next(c, isfinite(r) ? CELL_REAL : CELL_NULL)->r = isfinite(r) ? r : 0;
}

static void put_text(struct mem_cells *c, const char *s)
{
    next(c, s ? CELL_TEXT : CELL_NULL)->s = s;
}

static void fill_job(struct mem_cells *c, const struct store_job *j)
{
    put_int(c, (int64_t)j->id);
    put_text(c, j->name);
    put_text(c, j->user);
    put_count(c, j->uid);
    put_text(c, j->kind);
    put_text(c, j->state);
    put_text(c, j->reason);
    put_int(c, j->priority);
    put_int(c, j->gpus_min);
    put_int(c, j->gpus_max);
    put_int(c, j->gpus);
    put_int(c, j->attempt);
    put_count(c, j->exit_code);
    put_real(c, j->submit_s);
    put_real(c, j->start_s);
    put_real(c, j->end_s);
    put_text(c, j->idempotency_key);
    put_text(c, j->spec);
    put_text(c, j->dir);
}

static void fill_attempt(struct mem_cells *c, const struct store_attempt *a)
{
    put_int(c, (int64_t)a->job);
    put_int(c, a->attempt);
    put_text(c, a->state);
    put_text(c, a->reason);
    put_text(c, a->native_id);
    put_text(c, a->place);
    put_text(c, a->class);
    put_int(c, a->gpus);
    put_int(c, a->nodes);
    put_count(c, a->exit_code);
    put_int(c, a->signal);
    put_real(c, a->intent_s);
    put_real(c, a->claim_s);
    put_real(c, a->run_s);
    put_real(c, a->end_s);
    put_count(c, a->resized_from > 0 ? a->resized_from : -1);
    put_real(c, a->resized_from > 0 ? a->checkpoint_s : (double)NAN);
    put_real(c, a->resized_from > 0 ? a->allocator_s : (double)NAN);
    put_real(c, a->resized_from > 0 ? a->start_s : (double)NAN);
    put_text(c, a->cause);
    put_count(c, a->cause ? a->needed_bytes : -1);
    put_count(c, a->cause ? a->available_bytes : -1);
    put_text(c, a->gpu_type);
    put_text(c, a->account);
}

void mem_cells_usage(struct mem_cells *c, const struct store_attempt *a,
                     const struct store_job *j)
{
    c->n = 0;
    c->view = &views[VIEW_USAGE];
    put_int(c, (int64_t)a->job);
    put_int(c, a->attempt);
    put_text(c, j->user);
    put_count(c, j->uid);
    put_text(c, a->account);
    put_text(c, a->class);
    put_text(c, a->gpu_type);
    put_text(c, a->place);
    put_int(c, a->gpus);
    put_text(c, a->state);
    put_real(c, j->submit_s);
    put_real(c, a->claim_s);
    put_real(c, a->run_s);
    put_real(c, a->end_s);
}

static void fill_event(struct mem_cells *c, const struct store_event *e)
{
    put_int(c, (int64_t)e->seq);
    put_int(c, (int64_t)e->job);
    put_int(c, e->attempt);
    put_text(c, job_event_name(e->ev));
    put_real(c, e->at_s);
    put_count(c, e->uid);
    put_text(c, e->detail);
}

static void fill_iteration(struct mem_cells *c,
                           const struct metric_iteration *m)
{
    put_int(c, m->rank);
    put_int(c, m->iteration);
    put_count(c, m->epoch);
    put_real(c, m->started_at);
    put_real(c, m->t_iter);
    put_real(c, m->t_data);
    put_real(c, m->t_h2d);
    put_real(c, m->t_forward);
    put_real(c, m->t_backward);
    put_real(c, m->t_comm);
    put_real(c, m->t_optimizer);
    put_real(c, m->loss);
    put_real(c, m->lr);
    put_count(c, m->samples);
    put_count(c, m->tokens);
    put_count(c, m->gpu_mem_bytes);
}

static void fill_epoch(struct mem_cells *c, const struct metric_epoch *m)
{
    put_int(c, m->epoch);
    put_real(c, m->seconds);
    put_real(c, m->train_loss);
    put_real(c, m->eval_loss);
    put_real(c, m->eval_accuracy);
    put_real(c, m->samples_per_s);
    put_real(c, m->tokens_per_s);
}

static void fill_profile(struct mem_cells *c, const struct metric_profile *m)
{
    put_int(c, m->rank);
    put_int(c, m->epoch);
    put_text(c, m->metric);
    put_count(c, m->calls);
    put_real(c, m->total_s);
    put_count(c, m->bytes);
    put_real(c, m->sampled);
}

static void fill_value(struct mem_cells *c, const struct metric_value *m)
{
    put_int(c, m->rank);
    put_count(c, m->iteration);
    put_text(c, m->name);
    put_real(c, m->value);
}

void mem_cells_fill(struct mem_cells *c, enum store_view view,
                    const struct mem_item *item)
{
    c->n = 0;
    c->view = &views[view];
    if (view >= VIEW_ITERATION) { /* rows do not have these two */
        put_int(c, (int64_t)item->key.job);
        put_int(c, item->key.attempt);
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

/* ---- scaling ------------------------------------------------------------- */

struct group {
    const char *class;    /* borrowed from the attempts */
    const char *gpu_type; /* likewise; NULL: unknown */
    int32_t gpus, nodes;
    int64_t n, runs;
    double t_sum;              /* over the n steps */
    double off_sum;            /* sum of squared deviations from their mean */
    double samples, t_sampled; /* over the steps that report samples */
    double tokens, t_tokens;   /* likewise */
};

struct groups {
    struct group *at;
    size_t n, cap;
};

/* NULL is before all, as in SQL. */
static int type_cmp(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

static int group_cmp(const void *pa, const void *pb)
{
    const struct group *a = pa, *b = pb;
    int c = strcmp(a->class, b->class);

    if (c == 0 && a->gpus != b->gpus)
        c = a->gpus < b->gpus ? -1 : 1;
    if (c == 0 && a->nodes != b->nodes)
        c = a->nodes < b->nodes ? -1 : 1;
    return c == 0 ? type_cmp(a->gpu_type, b->gpu_type) : c;
}

static struct group *group_of(struct groups *gs, const struct store_attempt *a,
                              struct error *err)
{
    struct group g = {.class = a->class,
                      .gpu_type = a->gpu_type,
                      .gpus = a->gpus,
                      .nodes = a->nodes};

    for (size_t i = 0; i < gs->n; i++)
        if (group_cmp(&gs->at[i], &g) == 0)
            return &gs->at[i];
    if (gs->n == gs->cap) {
        size_t cap = gs->cap ? 2 * gs->cap : 16;
        struct group *at = realloc(gs->at, cap * sizeof(*at));
        if (!at) {
            (void)error_set(err, ERR_NOMEM, "%zu classes", cap);
            return NULL;
        }
        gs->at = at;
        gs->cap = cap;
    }
    gs->at[gs->n] = g;
    return &gs->at[gs->n++];
}

/* Adds one step of one attempt: all ranks of one iteration, from items[at] on.
 * The slowest rank's time counts. Returns the index of the next step. */
static size_t step_add(const struct mem_table *t, size_t at, struct group *g)
{
    const struct mem_key *k = &t->items[at]->key;
    double slowest = NAN, samples = 0, tokens = 0;
    bool sampled = false, has_tokens = false;

    for (; at < t->n; at++) {
        const struct mem_item *it = t->items[at];
        if (it->key.job != k->job || it->key.attempt != k->attempt ||
            it->key.at != k->at)
            break;
        if (!isfinite(it->iteration.t_iter))
            continue;
        slowest = fmax(slowest, it->iteration.t_iter);
        if (it->iteration.samples >= 0) {
            samples += (double)it->iteration.samples;
            sampled = true;
        }
        if (it->iteration.tokens >= 0) {
            tokens += (double)it->iteration.tokens;
            has_tokens = true;
        }
    }
    if (g && !isnan(slowest)) {
        double before = g->n ? g->t_sum / (double)g->n : slowest;
        g->n++;
        g->t_sum += slowest;
        g->off_sum += (slowest - before) * (slowest - g->t_sum / (double)g->n);
        g->samples += samples;
        g->t_sampled += sampled ? slowest : 0;
        g->tokens += tokens;
        g->t_tokens += has_tokens ? slowest : 0;
    }
    return at;
}

/* An attempt's first three iterations are warm-up and do not count. */
enum { WARM_UP = 3 };

static int collect(struct groups *gs, const struct mem_table *attempts,
                   const struct mem_table *t, struct error *err)
{
    for (size_t at = 0; at < t->n;) {
        struct mem_key k = t->items[at]->key;
        struct mem_key of = {
            .job = k.job, .attempt = k.attempt, .at = k.attempt, .name = ""};
        const struct store_attempt *a = NULL;
        size_t i;
        if (mem_table_find(attempts, &of, &i))
            a = &attempts->items[i]->attempt;
        bool is_new = true; /* to the number of devices that it ran on */
        while (at < t->n && t->items[at]->key.job == k.job &&
               t->items[at]->key.attempt == k.attempt) {
            struct group *g = NULL;
            if (a && a->class && a->gpus > 0 &&
                t->items[at]->key.at >= k.at + WARM_UP) {
                g = group_of(gs, a, err);
                if (!g)
                    return -1;
            }
            int64_t n = g ? g->n : 0;
            at = step_add(t, at, g);
            if (g && g->n > n) {
                g->runs += is_new;
                is_new = false;
            }
        }
    }
    return 0;
}

static void fill_scaling(struct mem_cells *c, const struct group *g,
                         const struct group *base)
{
    double rate = g->samples / g->t_sampled; /* NaN without samples */
    double one = base->samples / base->t_sampled / base->gpus;

    c->n = 0;
    c->view = &views[VIEW_SCALING];
    put_text(c, g->class);
    put_int(c, g->gpus);
    put_int(c, g->nodes);
    put_real(c, g->t_sum / (double)g->n);
    put_real(c, rate);
    put_real(c, rate / one);
    put_real(c, rate / one / g->gpus);
    put_int(c, g->n);
    put_text(c, "measured");
    put_real(c, sqrt(g->off_sum / (double)(g->n - 1))); /* NaN if n is 1 */
    put_int(c, g->runs);
    put_real(c, g->gpus * 1e6 / rate / 3600);
    put_real(c, g->tokens / g->t_tokens); /* NaN without tokens */
    put_text(c, g->gpu_type);
}

/* The fewest devices of its class and type. */
static const struct group *base_of(const struct groups *gs,
                                   const struct group *g)
{
    const struct group *base = gs->at;
    while (base->n == 0 || strcmp(base->class, g->class) != 0 ||
           type_cmp(base->gpu_type, g->gpu_type) != 0)
        base++;
    return base;
}

static bool ran_as(const struct mem_table *attempts, uint64_t job,
                   const char *class)
{
    for (size_t i = 0; i < attempts->n; i++) {
        const struct store_attempt *a = &attempts->items[i]->attempt;
        if (a->job == job && a->class && strcmp(a->class, class) == 0)
            return true;
    }
    return false;
}

int mem_scaling(const struct mem_table *attempts,
                const struct mem_table *iterations, const struct store_query *q,
                int (*row)(void *arg, const struct store_cell *cells, size_t n,
                           struct error *err),
                void *arg, struct error *err)
{
    struct groups gs = {.n = 0};
    int rc = collect(&gs, attempts, iterations, err);

    if (rc == 0 && gs.n > 0)
        qsort(gs.at, gs.n, sizeof(gs.at[0]), group_cmp);
    for (size_t i = 0; q->job != 0 && i < gs.n; i++)
        if (!ran_as(attempts, q->job, gs.at[i].class))
            gs.at[i].n = 0; /* filtered out */
    size_t limit = q->limit ? (size_t)q->limit : SIZE_MAX, left = 0;
    for (size_t i = 0; i < gs.n; i++)
        left += gs.at[i].n > 0 && (q->after == 0 || gs.at[i].gpus > q->after);
    size_t skip = q->last && left > limit ? left - limit : 0, n = 0;
    for (size_t i = 0; rc == 0 && i < gs.n && n < limit; i++) {
        const struct group *g = &gs.at[i];
        struct mem_cells cells;
        if (g->n == 0)
            continue;
        if ((q->after && g->gpus <= q->after) || (skip > 0 && skip--))
            continue;
        fill_scaling(&cells, g, base_of(&gs, g));
        n++;
        rc = row(arg, cells.at, cells.n, err);
    }
    free(gs.at);
    return rc;
}
