/* size_table.c - the time of an iteration by class, GPU type and size.
 *
 * A row without a GPU type holds for every type. Of several rows of a size the
 * last one counts. For a size without a row the largest measured size with
 * fewer GPUs scales perfectly, or, below all of them, the smallest one; those
 * that were needed are counted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/sim/trace/speed.h"

enum { ROWS_MAX = 1 << 20, GPUS_MAX = 65536, GUESSES_MAX = 64 };
static const double T_MAX_S = 1e9;

struct row {
    char class[SIM_CLASS_CAP], gpu_type[32];
    int32_t nodes, per_node;
    double t_iter_s, restart_s;
};

struct guess {
    char class[SIM_CLASS_CAP];
    int32_t nodes, per_node;
};

struct size_table {
    struct speed base;
    struct row *rows;
    size_t n, cap;
    struct guess guesses[GUESSES_MAX];
    size_t n_guesses;
};

static bool has_type(const struct row *r, const char *gpu_type)
{
    return !r->gpu_type[0] || !gpu_type[0] ||
           strcmp(r->gpu_type, gpu_type) == 0;
}

static double size_unit_s(const struct speed *s, const struct sim_job *job,
                          const struct speed_place *p, double done,
                          double *ret_until)
{
    const struct size_table *t = (const struct size_table *)s;
    int64_t gpus = (int64_t)p->nodes * p->per_node, best = 0;
    const struct row *from = NULL;

    (void)done;
    *ret_until = INFINITY;
    for (size_t i = t->n; i-- > 0;) {
        const struct row *r = &t->rows[i];
        int64_t n = (int64_t)r->nodes * r->per_node;
        if (strcmp(r->class, job->class) != 0 || !has_type(r, p->gpu_type))
            continue;
        if (r->nodes == p->nodes && r->per_node == p->per_node)
            return r->t_iter_s;
        bool is_nearer = !from || (n <= gpus ? n > best || best > gpus
                                             : best > gpus && n < best);
        if (is_nearer) {
            from = r;
            best = n;
        }
    }
    if (!from || gpus == 0)
        return NAN;
    return from->t_iter_s * (double)best / (double)gpus;
}

static double size_restart_s(const struct speed *s, const struct sim_job *job,
                             int32_t attempt)
{
    const struct size_table *t = (const struct size_table *)s;

    (void)attempt;
    for (size_t i = t->n; i-- > 0;)
        if (strcmp(t->rows[i].class, job->class) == 0 &&
            !isnan(t->rows[i].restart_s))
            return t->rows[i].restart_s;
    return NAN;
}

static int size_prepare(struct speed *s, struct sim_job *job, struct error *err)
{
    const struct size_table *t = (const struct size_table *)s;

    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].class, job->class) == 0)
            return 0;
    return error_set(err, ERR_INVAL,
                     "job '%s': the table has no row of class '%s'", job->name,
                     job->class);
}

static bool is_measured(const struct size_table *t, const char *class,
                        const struct speed_place *p)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        if (r->nodes == p->nodes && r->per_node == p->per_node &&
            has_type(r, p->gpu_type) && strcmp(r->class, class) == 0)
            return true;
    }
    return false;
}

static void size_ran(struct speed *s, const struct sim_job *job,
                     const struct speed_place *p)
{
    struct size_table *t = (struct size_table *)s;

    for (size_t i = 0; i < t->n_guesses; i++) {
        const struct guess *g = &t->guesses[i];
        if (g->nodes == p->nodes && g->per_node == p->per_node &&
            strcmp(g->class, job->class) == 0)
            return;
    }
    if (t->n_guesses == GUESSES_MAX || is_measured(t, job->class, p))
        return;
    struct guess *g = &t->guesses[t->n_guesses++];
    *g = (struct guess){.nodes = p->nodes, .per_node = p->per_node};
    (void)snprintf(g->class, sizeof(g->class), "%s", job->class);
}

static int size_guessed(const struct speed *s, struct buf *out,
                        struct error *err)
{
    const struct size_table *t = (const struct size_table *)s;

    for (size_t i = 0; i < t->n_guesses; i++) {
        const struct guess *g = &t->guesses[i];
        if (buf_addf(out, err, "%s%s %" PRId32 "x%" PRId32, i ? ", " : "",
                     g->class, g->nodes, g->per_node) < 0)
            return -1;
    }
    return 0;
}

static void size_destroy(struct speed *s)
{
    struct size_table *t = (struct size_table *)s;

    if (!t)
        return;
    free(t->rows);
    free(t);
}

static const struct speed_ops size_ops = {
    .name = "mgpu",
    .prepare = size_prepare,
    .unit_s = size_unit_s,
    .restart_s = size_restart_s,
    .ran = size_ran,
    .guessed = size_guessed,
    .beats = true,
    .destroy = size_destroy,
};

int size_table_create(struct speed **ret, struct error *err)
{
    struct size_table *t = calloc(1, sizeof(*t));

    if (!t)
        return error_set(err, ERR_NOMEM, "table");
    t->base.ops = &size_ops;
    *ret = &t->base;
    return 0;
}

int size_table_add(struct speed *s, const char *class, const char *gpu_type,
                   int32_t nodes, int32_t per_node, double t_iter_s,
                   double restart_s, struct error *err)
{
    struct size_table *t = (struct size_table *)s;

    if (t->n == ROWS_MAX)
        return error_set(err, ERR_LIMIT, "over %d rows", ROWS_MAX);
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct row *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "table of %zu rows", cap);
        if (t->n > 0)
            memcpy(p, t->rows, t->n * sizeof(*p));
        free(t->rows);
        t->rows = p;
        t->cap = cap;
    }
    struct row *r = &t->rows[t->n++];
    *r = (struct row){.nodes = nodes,
                      .per_node = per_node,
                      .t_iter_s = t_iter_s,
                      .restart_s = restart_s};
    (void)snprintf(r->class, sizeof(r->class), "%s", class);
    (void)snprintf(r->gpu_type, sizeof(r->gpu_type), "%s", gpu_type);
    return 0;
}

int size_table_restart(struct speed *s, const char *class, double restart_s,
                       struct error *err)
{
    struct size_table *t = (struct size_table *)s;
    bool has = false;

    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].class, class) == 0) {
            t->rows[i].restart_s = restart_s;
            has = true;
        }
    return has ? 0
               : error_set(err, ERR_NOTFOUND, "no row of class '%s'", class);
}

static const char columns[] =
    "class,gpu_type,nodes,gpus_per_node,t_iter_s,restart_s";

static int read_row(struct lines *l, struct speed *s, struct error *err)
{
    char class[SIM_CLASS_CAP], type[32] = "";
    int64_t nodes, per_node;
    double t_iter_s, restart_s = NAN;

    if (lines_count(l, 6, columns, err) < 0 ||
        lines_name(l, 0, "class", class, sizeof(class), err) < 0 ||
        (l->field[1][0] &&
         lines_name(l, 1, "gpu_type", type, sizeof(type), err) < 0) ||
        lines_int(l, 2, "nodes", 1, GPUS_MAX, &nodes, err) < 0 ||
        lines_int(l, 3, "gpus_per_node", 1, 1024, &per_node, err) < 0 ||
        lines_real(l, 4, "t_iter_s", 1e-9, T_MAX_S, &t_iter_s, err) < 0 ||
        (l->field[5][0] &&
         lines_real(l, 5, "restart_s", 0, T_MAX_S, &restart_s, err) < 0))
        return -1;
    return size_table_add(s, class, type, (int32_t)nodes, (int32_t)per_node,
                          t_iter_s, restart_s, err);
}

int size_table_read(struct lines *l, struct speed **ret, struct error *err)
{
    struct speed *s;
    int rc = 0;

    if (size_table_create(&s, err) < 0)
        return -1;
    while (rc == 0 && lines_next(l, ',')) {
        bool is_header = l->line == 1 && strcmp(l->field[0], "class") == 0;
        if (!is_header)
            rc = read_row(l, s, err);
    }
    if (rc < 0)
        s->ops->destroy(s);
    else
        *ret = s;
    return rc;
}
