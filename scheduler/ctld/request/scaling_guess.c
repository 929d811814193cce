/* scaling_guess.c - see scaling_guess.h. */
#include "scheduler/ctld/request/scaling_guess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/view.h"
#include "jobs/spec/gpu_sizes.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/engine/teach.h"

/* ---- on the loop ----------------------------------------------------------
 */
/* GPUs of the largest node; 0: there is none. */
static int32_t node_size(const struct ctld *c)
{
    size_t n = 0;
    const struct alloc_node *nodes = engine_nodes(c->engine, &n);
    int32_t most = 0;

    for (size_t i = 0; i < n; i++)
        if (nodes[i].gpus_total > most)
            most = nodes[i].gpus_total;
    return most;
}

void scaling_guess_take(const struct ctld *c, const struct job *job,
                        struct scaling_guess *ret)
{
    const struct throughput *m = engine_throughput(c->engine, job);
    const struct gpu_sizes sizes = {
        .gpus = {job->gpus_min, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
    int32_t size = node_size(c);

    *ret = (struct scaling_guess){.n = 0};
    if (!m || m->n == 0 || size == 0)
        return;
    ret->m = *m;
    (void)snprintf(ret->type, sizeof(ret->type), "%s",
                   engine_model_type(c->engine, job));
    /* The policy uses no size above. */
    int64_t most =
        (int64_t)c->parts.conf->goodput.explore * throughput_largest(m);
    for (int32_t g = job->gpus_min; g <= job->gpus_max && g <= most; g++) {
        int32_t nodes = g <= size ? 1 : g / size;
        if (ret->n == SCALING_GUESSES_MAX)
            break;
        if ((g > size && g % size != 0) || g < 1 ||
            !gpu_sizes_have(&sizes, g, nodes) ||
            throughput_row(m, nodes, g / nodes))
            continue;
        ret->at[ret->n].nodes = nodes;
        ret->at[ret->n++].per_node = g / nodes;
    }
}

/* ---- on the reader's thread -----------------------------------------------
 */
static double real_of(const struct store_cell *c)
{
    return c->kind == CELL_REAL  ? c->r
           : c->kind == CELL_INT ? (double)c->i
                                 : (double)NAN;
}

static const struct store_cell *find(const struct store_cell *cells, size_t n,
                                     const char *name)
{
    static const struct store_cell none = {.kind = CELL_NULL};

    for (size_t i = 0; i < n; i++)
        if (strcmp(cells[i].name, name) == 0)
            return &cells[i];
    return &none;
}

int scaling_guess_note(struct scaling_guess *g, const struct store_cell *cells,
                       size_t n, struct error *err)
{
    const struct store_cell *class = find(cells, n, "class");
    const struct store_cell *type = find(cells, n, "gpu_type");
    int32_t nodes = (int32_t)real_of(find(cells, n, "nodes"));
    int32_t gpus = (int32_t)real_of(find(cells, n, "gpus"));

    bool is_typed = type->kind == CELL_TEXT;
    if (g->n == 0 || class->kind != CELL_TEXT ||
        (g->class && (g->gpu_type || !is_typed)) ||
        (is_typed && strcmp(type->s, g->type) != 0) || nodes < 1 ||
        gpus % nodes != 0)
        return 0;
    double per_s = throughput_rate(&g->m, nodes, gpus / nodes).per_s;
    if (!(per_s > 0)) /* a size that the model has no room for */
        return 0;
    free(g->class);
    g->one_per_s = per_s;
    g->class = strdup(class->s);
    g->gpu_type = is_typed ? strdup(type->s) : NULL;
    if (!g->class || (is_typed && !g->gpu_type))
        return error_set(err, ERR_NOMEM, "sizes");
    g->samples_per_s = real_of(find(cells, n, "samples_per_s"));
    g->tokens_per_s = real_of(find(cells, n, "tokens_per_s"));
    g->speedup = real_of(find(cells, n, "speedup"));
    return 0;
}

static struct store_cell cell(const struct scaling_guess *g, int32_t i,
                              const char *name)
{
    const struct throughput_rate r =
        throughput_rate(&g->m, g->at[i].nodes, g->at[i].per_node);
    int32_t gpus = g->at[i].nodes * g->at[i].per_node;
    double times = r.per_s / g->one_per_s;
    struct store_cell c = {.name = name, .kind = CELL_REAL};

    if (strcmp(name, "class") == 0 || strcmp(name, "gpu_type") == 0 ||
        strcmp(name, "basis") == 0) {
        c.s = strcmp(name, "class") == 0      ? g->class
              : strcmp(name, "gpu_type") == 0 ? g->gpu_type
                                              : rate_basis_name(r.basis);
        c.kind = c.s ? CELL_TEXT : CELL_NULL;
    } else if (strcmp(name, "gpus") == 0 || strcmp(name, "nodes") == 0) {
        c.kind = CELL_INT;
        c.i = strcmp(name, "gpus") == 0 ? gpus : g->at[i].nodes;
    } else if (strcmp(name, "n") == 0 || strcmp(name, "runs") == 0) {
        c.kind = CELL_INT;
    } else if (strcmp(name, "t_iter") == 0) {
        c.r = throughput_units(&g->m, gpus, 1) / r.per_s;
    } else if (strcmp(name, "samples_per_s") == 0) {
        c.r = g->samples_per_s * times;
    } else if (strcmp(name, "tokens_per_s") == 0) {
        c.r = g->tokens_per_s * times;
    } else if (strcmp(name, "speedup") == 0) {
        c.r = g->speedup * times;
    } else if (strcmp(name, "efficiency") == 0) {
        c.r = g->speedup * times / gpus;
    } else if (strcmp(name, "gpu_hours_per_million") == 0) {
        c.r = gpus * 1e6 / (g->samples_per_s * times) / 3600;
    } else { /* the deviation of nothing */
        c.kind = CELL_NULL;
    }
    return c;
}

int scaling_guess_rows(const struct scaling_guess *g,
                       int (*row)(void *arg, const struct store_cell *cells,
                                  size_t n, struct error *err),
                       void *arg, struct error *err)
{
    const char *const *columns = views[VIEW_SCALING].columns;
    struct store_cell cells[VIEW_COLUMNS_MAX];

    for (int32_t i = 0; g->class && i < g->n; i++) {
        size_t n = 0;
        for (; columns[n]; n++)
            cells[n] = cell(g, i, columns[n]);
        if (row(arg, cells, n, err) < 0)
            return -1;
    }
    return 0;
}

void scaling_guess_clear(struct scaling_guess *g)
{
    free(g->class);
    free(g->gpu_type);
    *g = (struct scaling_guess){.n = 0};
}
