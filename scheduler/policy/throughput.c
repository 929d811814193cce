/* throughput.c - running means of iteration times, and the rate of a size; see
 * throughput.h. */
#include "scheduler/policy/throughput.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Fewer iterations tell no deviation to compare an outlier with. */
enum { FEW = 8 };
/* A deviation below this part of the mean is noise of the clock. */
static const double DEVIATION_MIN = 0.01;

const char *throughput_basis_name(enum rate_basis b)
{
    static const char *const names[] = {"assumed", "fitted", "measured"};

    return names[b];
}

static int64_t gpus_of(int32_t nodes, int32_t per_node)
{
    return (int64_t)nodes * per_node;
}

/* By GPUs, then by nodes: below 0, 0 or above 0. */
static int compare(const struct throughput_row *row, int32_t nodes,
                   int32_t per_node)
{
    int64_t a = gpus_of(row->nodes, row->per_node);
    int64_t b = gpus_of(nodes, per_node);

    if (a != b)
        return a < b ? -1 : 1;
    return (row->nodes > nodes) - (row->nodes < nodes);
}

/* The row of the size, a new one if there was none; NULL: no room. */
static struct throughput_row *row_for(struct throughput *m, int32_t nodes,
                                      int32_t per_node)
{
    int32_t i = 0;

    while (i < m->n && compare(&m->rows[i], nodes, per_node) < 0)
        i++;
    if (i < m->n && compare(&m->rows[i], nodes, per_node) == 0)
        return &m->rows[i];
    if (m->n == THROUGHPUT_SIZES)
        return NULL;
    memmove(&m->rows[i + 1], &m->rows[i],
            (size_t)(m->n - i) * sizeof(m->rows[0]));
    m->n++;
    m->rows[i] = (struct throughput_row){.nodes = nodes, .per_node = per_node};
    return &m->rows[i];
}

static bool is_size(int32_t nodes, int32_t per_node)
{
    return nodes > 0 && per_node > 0 && gpus_of(nodes, per_node) <= INT32_MAX;
}

static bool is_time(double t_s)
{
    return isfinite(t_s) && t_s > 0;
}

/* The curve is fitted when there are enough sizes, and again when it is off. */
static void look_at_curve(struct throughput *m,
                          const struct throughput_row *row, bool is_new)
{
    bool is_off =
        m->is_fitted &&
        fabs(throughput_curve_s(m, row->nodes, row->per_node) / row->mean_s -
             1) > THROUGHPUT_REFIT;

    if (is_off || (is_new && m->n >= THROUGHPUT_FIT_SIZES))
        throughput_fit(m);
}

void throughput_add(struct throughput *m, int32_t nodes, int32_t per_node,
                    double t_iter_s, int64_t n)
{
    if (!is_size(nodes, per_node) || !is_time(t_iter_s) || n < 1)
        return;
    struct throughput_row *row = row_for(m, nodes, per_node);
    if (!row)
        return;
    bool is_new = row->n == 0;
    double x_s = t_iter_s;
    if (row->n >= FEW) {
        double dev_s = fmax(sqrt(row->var_s2), DEVIATION_MIN * row->mean_s);
        x_s = fmin(x_s, row->mean_s + THROUGHPUT_OUTLIER * dev_s);
        x_s = fmax(x_s, row->mean_s - THROUGHPUT_OUTLIER * dev_s);
    }
    int64_t weight = n < THROUGHPUT_WINDOW ? n : THROUGHPUT_WINDOW;
    int64_t old = row->n < THROUGHPUT_WINDOW ? row->n : THROUGHPUT_WINDOW;
    double part = (double)weight / (double)(old + weight);
    double off_s = x_s - row->mean_s;
    row->mean_s += part * off_s;
    row->var_s2 =
        is_new ? 0 : (1 - part) * (row->var_s2 + part * off_s * off_s);
    row->n = row->n > INT64_MAX - n ? INT64_MAX : row->n + n;
    look_at_curve(m, row, is_new);
}

bool throughput_set(struct throughput *m, const struct throughput_row *row)
{
    if (!is_size(row->nodes, row->per_node) || !is_time(row->mean_s) ||
        row->n < 1 || !isfinite(row->var_s2) || row->var_s2 < 0)
        return false;
    struct throughput_row *to = row_for(m, row->nodes, row->per_node);
    if (!to)
        return false;
    *to = *row;
    return true;
}

/* How many times as long m takes as `from`, on the sizes that both have. */
static double stretch_of(const struct throughput *m,
                         const struct throughput *from)
{
    double sum = 0, n = 0;

    for (int32_t i = 0; i < m->n; i++) {
        const struct throughput_row *own = &m->rows[i];
        const struct throughput_row *row =
            throughput_row(from, own->nodes, own->per_node);
        if (!row)
            continue;
        sum += log(own->mean_s / row->mean_s);
        n++;
    }
    return n > 0 ? exp(sum / n) : 1;
}

void throughput_borrow(struct throughput *m, const struct throughput *from)
{
    double stretch = stretch_of(m, from);

    for (int32_t i = 0; i < from->n; i++) {
        struct throughput_row row = from->rows[i];
        if (throughput_row(m, row.nodes, row.per_node))
            continue;
        row.mean_s *= stretch;
        row.var_s2 *= stretch * stretch;
        (void)throughput_set(m, &row);
    }
    if (m->is_fitted || !from->is_fitted)
        return;
    memcpy(m->theta, from->theta, sizeof(m->theta));
    m->is_fitted = true;
    throughput_stretch(m, stretch);
}

const struct throughput_row *throughput_row(const struct throughput *m,
                                            int32_t nodes, int32_t per_node)
{
    for (int32_t i = 0; i < m->n; i++)
        if (compare(&m->rows[i], nodes, per_node) == 0)
            return &m->rows[i];
    return NULL;
}

int32_t throughput_largest(const struct throughput *m)
{
    const struct throughput_row *last = m->n > 0 ? &m->rows[m->n - 1] : NULL;

    return last ? (int32_t)gpus_of(last->nodes, last->per_node) : 0;
}

double throughput_units(const struct throughput *m, int32_t gpus,
                        double t_iter_s)
{
    return (m->is_weak ? gpus : 1) / t_iter_s;
}

static double rate_of(const struct throughput *m,
                      const struct throughput_row *row)
{
    return throughput_units(m, (int32_t)gpus_of(row->nodes, row->per_node),
                            row->mean_s);
}

/* Scales perfectly from the largest measured size below, or down from the
 * smallest one above; NAN: nothing is measured. */
static double perfect(const struct throughput *m, int32_t nodes,
                      int32_t per_node)
{
    const struct throughput_row *from = m->n > 0 ? &m->rows[0] : NULL;
    int64_t gpus = gpus_of(nodes, per_node);

    for (int32_t i = 0; i < m->n; i++)
        if (gpus_of(m->rows[i].nodes, m->rows[i].per_node) <= gpus)
            from = &m->rows[i];
    return from ? rate_of(m, from) * (double)gpus /
                      (double)gpus_of(from->nodes, from->per_node)
                : (double)NAN;
}

struct throughput_rate throughput_rate(const struct throughput *m,
                                       int32_t nodes, int32_t per_node)
{
    const struct throughput_row *row = throughput_row(m, nodes, per_node);
    struct throughput_rate r = {.per_s = NAN, .hoped_per_s = NAN};

    if (row) {
        r.per_s = r.hoped_per_s = rate_of(m, row);
        r.basis = RATE_MEASURED;
        r.n = row->n;
        return r;
    }
    r.per_s = r.hoped_per_s = perfect(m, nodes, per_node);
    if (!m->is_fitted)
        return r;
    r.basis = RATE_FITTED;
    r.per_s = throughput_units(m, (int32_t)gpus_of(nodes, per_node),
                               throughput_curve_s(m, nodes, per_node));
    r.hoped_per_s = fmax(r.per_s, r.hoped_per_s);
    return r;
}
