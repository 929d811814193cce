/* scaling_guess.c - see scaling_guess.h. */
#include "scheduler/ctld/ingest/scaling_guess.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/spec/gpu_sizes.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/engine/teach.h"

/* ---- the sizes ------------------------------------------------------------
 */
struct guesses {
    const struct throughput *m;
    const struct scaling_sizes *sizes;
    struct store_guess *at;
    size_t n;
};

static void add(struct guesses *gs, int64_t nodes, int32_t per_node)
{
    const struct throughput_row *base = &gs->m->rows[0];
    int64_t gpus = nodes * per_node;
    int64_t most = (int64_t)gs->sizes->explore * throughput_largest(gs->m);

    if (gs->n == SCALING_GUESSES_MAX || gpus > most || gpus > INT32_MAX ||
        !gpu_sizes_divide(gs->sizes->parts, gpus, nodes) ||
        throughput_row(gs->m, (int32_t)nodes, per_node))
        return;
    struct throughput_rate r = throughput_rate(gs->m, (int32_t)nodes, per_node);
    double base_per_s =
        throughput_rate(gs->m, base->nodes, base->per_node).per_s;
    if (!(r.per_s > 0) || !(base_per_s > 0))
        return;
    gs->at[gs->n++] = (struct store_guess){
        .gpus = (int32_t)gpus,
        .nodes = (int32_t)nodes,
        .basis = throughput_basis_name(r.basis),
        .base_gpus = base->nodes * base->per_node,
        .base_nodes = base->nodes,
        .rate_ratio = r.per_s / base_per_s,
        .t_iter_ratio =
            throughput_units(gs->m, (int32_t)gpus, 1) / r.per_s / base->mean_s,
    };
}

size_t scaling_guess_fill(const struct throughput *m,
                          const struct scaling_sizes *sizes,
                          struct store_guess ret[SCALING_GUESSES_MAX])
{
    struct guesses gs = {.m = m, .sizes = sizes, .at = ret};

    if (m->n == 0)
        return 0;
    for (int32_t g = 1; g <= sizes->per_node; g++)
        add(&gs, 1, g);
    for (int64_t k = 2; k <= sizes->nodes; k++)
        add(&gs, k, sizes->per_node);
    return gs.n;
}

/* ---- the store ------------------------------------------------------------
 */
struct note {
    struct task task;
    struct ctld *c;
    char *class; /* owned */
    char gpu_type[32];
    struct store_guess at[SCALING_GUESSES_MAX];
    size_t n;
    int rc;
    struct error err;
};

static void note_run(struct task *t)
{
    struct note *n = (struct note *)t;
    struct store *s = n->c->parts.store;

    n->rc = s->metrics->guesses(
        s, n->class, n->gpu_type[0] ? n->gpu_type : NULL, n->at, n->n, &n->err);
}

static void note_free(struct note *n)
{
    free(n->class);
    free(n);
}

static void note_done(struct task *t)
{
    struct note *n = (struct note *)t;

    if (n->rc < 0)
        log_warn("metrics", "sizes that did not run are not noted why=\"%s\"",
                 n->err.msg);
    note_free(n);
}

static void find_sizes(const struct ctld *c, const struct job *job,
                       struct scaling_sizes *ret)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);

    *ret = (struct scaling_sizes){.parts = job->parts,
                                  .explore = c->parts.conf->goodput.explore};
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].gpus_total > ret->per_node)
            *ret = (struct scaling_sizes){.parts = ret->parts,
                                          .explore = ret->explore,
                                          .per_node = nodes[i].gpus_total};
        ret->nodes += ret->per_node > 0 && nodes[i].gpus_total == ret->per_node;
    }
}

static int post(struct ctld *c, const struct job *job, const char *class,
                struct error *err)
{
    const struct throughput *m = engine_throughput(c->engine, job);
    struct scaling_sizes sizes;
    struct note *n = calloc(1, sizeof(*n));

    if (!n || !(n->class = strdup(class))) {
        free(n);
        return error_set(err, ERR_NOMEM, "sizes");
    }
    n->task = (struct task){.run = note_run, .done = note_done};
    n->c = c;
    (void)snprintf(n->gpu_type, sizeof(n->gpu_type), "%s",
                   engine_model_type(c->engine, job));
    find_sizes(c, job, &sizes);
    n->n = m ? scaling_guess_fill(m, &sizes, n->at) : 0;
    if (work_queue_post(c->writer, &n->task, err) < 0) {
        note_free(n);
        return -1;
    }
    return 0;
}

void scaling_guess_note(struct ctld *c, struct attempt_metrics *i,
                        const struct job *job, size_t n)
{
    const char *class = engine_model_class(c->engine, job);
    const struct gpu_sizes sizes = {
        .gpus = {job->gpus_min, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
    struct error err = ERROR_INIT;

    i->n_taught += (int64_t)n;
    if (i->n_taught <= THROUGHPUT_WARM_UP || i->n_taught < i->guess_at ||
        !class || !gpu_sizes_several(&sizes))
        return;
    /* The writer has too much to do: the next rows try again. */
    if (post(c, job, class, &err) == 0)
        i->guess_at = 2 * i->n_taught;
}
