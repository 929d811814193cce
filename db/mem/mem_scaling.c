/* mem_scaling.c - compute the rows of v_scaling from the in-memory tables. The
 * caller holds the lock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/mem/mem.h"

/* A size of a class. The first member of what is sorted by it. */
struct size_key {
    const char *class;    /* borrowed */
    const char *gpu_type; /* likewise; NULL: unknown */
    int32_t gpus, nodes;
};

static int key_cmp(const void *pa, const void *pb)
{
    const struct size_key *a = pa, *b = pb;
    int c = strcmp(a->class, b->class);

    if (c == 0 && a->gpus != b->gpus)
        c = a->gpus < b->gpus ? -1 : 1;
    if (c == 0 && a->nodes != b->nodes)
        c = a->nodes < b->nodes ? -1 : 1;
    return c == 0 ? mem_type_cmp(a->gpu_type, b->gpu_type) : c;
}

/* ---- measured sizes ------------------------------------------------------ */

struct group {
    struct size_key key; /* texts of the attempts */
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

static struct group *group_of(struct groups *gs, const struct store_attempt *a,
                              struct error *err)
{
    struct group g = {.key = {.class = a->class,
                              .gpu_type = a->gpu_type,
                              .gpus = a->gpus,
                              .nodes = a->nodes}};

    for (size_t i = 0; i < gs->n; i++)
        if (key_cmp(&gs->at[i].key, &g.key) == 0)
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

/* ---- rows ----------------------------------------------------------------
 */
/* A measured size, or a guess. */
struct size_row {
    struct size_key key;
    const char *basis; /* borrowed */
    int64_t n, runs;
    double t_iter, sd, rate, tokens, one_rate;
};

struct size_rows {
    struct size_row *at; /* [groups + guesses] */
    size_t n, n_measured;
};

static bool is_one(const struct size_row *r, const char *class,
                   const char *gpu_type)
{
    return strcmp(r->key.class, class) == 0 &&
           mem_type_cmp(r->key.gpu_type, gpu_type) == 0;
}

/* In the order of the groups, which is that of the rows. */
static void add_measured(struct size_rows *rs, const struct group *g)
{
    const struct size_row *first = rs->at;
    struct size_row *r = &rs->at[rs->n];
    double rate = g->samples / g->t_sampled; /* NaN without samples */

    *r = (struct size_row){
        .key = g->key,
        .basis = "measured",
        .n = g->n,
        .runs = g->runs,
        .t_iter = g->t_sum / (double)g->n,
        .sd = sqrt(g->off_sum / (double)(g->n - 1)), /* NaN if n is 1 */
        .rate = rate,
        .tokens = g->tokens / g->t_tokens, /* NaN without tokens */
        .one_rate = rate / g->key.gpus,
    };
    while (!is_one(first, g->key.class, g->key.gpu_type))
        first++;
    r->one_rate = first->one_rate;
    rs->n_measured = ++rs->n;
}

static const struct size_row *measured_at(const struct size_rows *rs,
                                          const char *class,
                                          const char *gpu_type, int32_t gpus,
                                          int32_t nodes)
{
    for (size_t i = 0; i < rs->n_measured; i++) {
        const struct size_row *r = &rs->at[i];
        if (is_one(r, class, gpu_type) && r->key.gpus == gpus &&
            r->key.nodes == nodes)
            return r;
    }
    return NULL;
}

static void add_guess(struct size_rows *rs, const struct mem_guess *m)
{
    const struct store_guess *g = &m->g;
    const struct size_row *b =
        measured_at(rs, m->class, m->gpu_type, g->base_gpus, g->base_nodes);
    if (!b)
        b = measured_at(rs, m->class, NULL, g->base_gpus, g->base_nodes);
    if (!b || measured_at(rs, m->class, m->gpu_type, g->gpus, g->nodes) ||
        measured_at(rs, m->class, NULL, g->gpus, g->nodes))
        return;
    rs->at[rs->n++] = (struct size_row){
        .key = {.class = m->class,
                .gpu_type = m->gpu_type,
                .gpus = g->gpus,
                .nodes = g->nodes},
        .basis = g->basis,
        .t_iter = b->t_iter * g->t_iter_ratio,
        .sd = NAN,
        .rate = b->rate * g->rate_ratio,
        .tokens = b->tokens * g->rate_ratio,
        .one_rate = b->one_rate,
    };
}

static int collect_rows(struct size_rows *ret, const struct mem_table *attempts,
                        const struct mem_table *iterations,
                        const struct mem_guesses *guesses, struct error *err)
{
    struct groups gs = {.n = 0};
    int rc = collect(&gs, attempts, iterations, err);

    *ret = (struct size_rows){.n = 0};
    if (rc == 0) {
        ret->at = calloc(gs.n + guesses->n + 1, sizeof(*ret->at));
        rc = ret->at ? 0 : error_set(err, ERR_NOMEM, "%zu sizes", gs.n);
    }
    if (rc == 0 && gs.n > 0)
        qsort(gs.at, gs.n, sizeof(gs.at[0]), key_cmp);
    for (size_t i = 0; rc == 0 && i < gs.n; i++)
        if (gs.at[i].n > 0)
            add_measured(ret, &gs.at[i]);
    for (size_t i = 0; rc == 0 && i < guesses->n; i++)
        add_guess(ret, &guesses->at[i]);
    free(gs.at);
    if (rc == 0 && ret->n > 0)
        qsort(ret->at, ret->n, sizeof(ret->at[0]), key_cmp);
    return rc;
}

static void fill_scaling(struct mem_cells *c, const struct size_row *r)
{
    c->n = 0;
    c->view = &views[VIEW_SCALING];
    mem_put_text(c, r->key.class);
    mem_put_int(c, r->key.gpus);
    mem_put_int(c, r->key.nodes);
    mem_put_real(c, r->t_iter);
    mem_put_real(c, r->rate);
    mem_put_real(c, r->rate / r->one_rate);
    mem_put_real(c, r->rate / r->one_rate / r->key.gpus);
    mem_put_int(c, r->n);
    mem_put_text(c, r->basis);
    mem_put_real(c, r->sd);
    mem_put_int(c, r->runs);
    mem_put_real(c, r->key.gpus * 1e6 / r->rate / 3600);
    mem_put_real(c, r->tokens);
    mem_put_text(c, r->key.gpu_type);
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

static bool is_asked(const struct mem_table *attempts,
                     const struct store_query *q, const struct size_row *r)
{
    return (q->job == 0 || ran_as(attempts, q->job, r->key.class)) &&
           (q->after == 0 || r->key.gpus > q->after);
}

int mem_scaling(const struct mem_table *attempts,
                const struct mem_table *iterations,
                const struct mem_guesses *guesses, const struct store_query *q,
                int (*row)(void *arg, const struct store_cell *cells, size_t n,
                           struct error *err),
                void *arg, struct error *err)
{
    struct size_rows rs;
    int rc = collect_rows(&rs, attempts, iterations, guesses, err);
    size_t limit = q->limit ? (size_t)q->limit : SIZE_MAX, left = 0;

    for (size_t i = 0; i < rs.n; i++)
        left += is_asked(attempts, q, &rs.at[i]);
    size_t skip = q->last && left > limit ? left - limit : 0, n = 0;
    for (size_t i = 0; rc == 0 && i < rs.n && n < limit; i++) {
        struct mem_cells cells;
        if (!is_asked(attempts, q, &rs.at[i]) || (skip > 0 && skip--))
            continue;
        fill_scaling(&cells, &rs.at[i]);
        n++;
        rc = row(arg, cells.at, cells.n, err);
    }
    free(rs.at);
    return rc;
}
