/* pollux_math.c - interpolate the measurements of an application.
 *
 * The time of a step on n nodes with k replicas each is linear between the
 * measured local batches of the placement. A placement that was not measured
 * lies between the nearest numbers of nodes that were, and there between the
 * nearest numbers of replicas; the table's own placements do not depend on the
 * order of nodes. */
#include <math.h>

#include "scheduler/sim/trace/pollux_app.h"

double pollux_app_progress(const struct pollux_app *a, int32_t epoch)
{
    double least = INFINITY;

    if (epoch < 1)
        return 0;
    for (size_t i = 0; i < a->n_validations; i++)
        least = fmin(least, a->validations[i].progress[epoch - 1]);
    return least;
}

struct times {
    double step_s, sync_s;
};

static struct times between(struct times a, struct times b, double x)
{
    return (struct times){a.step_s + x * (b.step_s - a.step_s),
                          a.sync_s + x * (b.sync_s - a.sync_s)};
}

static struct times times_of(const struct pollux_step *s)
{
    return (struct times){s->step_s, s->sync_s};
}

/* Rows [from, to) are of one size, sorted by local batch. */
static struct times at_local(const struct pollux_app *a, size_t from, size_t to,
                             double local)
{
    const struct pollux_step *s = a->steps;
    size_t i = from;

    while (i < to && s[i].local < local)
        i++;
    if (i == from)
        return times_of(&s[from]);
    if (i == to)
        return times_of(&s[to - 1]);
    double width = s[i].local - s[i - 1].local;
    double x = width > 0 ? (local - s[i - 1].local) / width : 1;
    return between(times_of(&s[i - 1]), times_of(&s[i]), x);
}

/* The rows of one size from i on end before the returned one. */
static size_t size_end(const struct pollux_app *a, size_t i)
{
    const struct pollux_step *s = a->steps;
    size_t k = i;

    while (k < a->n_steps && s[k].nodes == s[i].nodes &&
           s[k].replicas == s[i].replicas && s[k].per_node == s[i].per_node)
        k++;
    return k;
}

/* On this number of nodes, which has rows: between the nearest numbers of
 * replicas. A size that is the same on each node comes first of its number of
 * replicas (by_size()). */
static struct times on_nodes(const struct pollux_app *a, int32_t nodes,
                             double replicas, double local)
{
    struct times low = {0, 0}, high = {0, 0};
    double low_n = -1, high_n = INFINITY;

    for (size_t i = 0, end; i < a->n_steps; i = end) {
        double n = a->steps[i].replicas;
        end = size_end(a, i);
        if (a->steps[i].nodes != nodes)
            continue;
        if (n <= replicas && n > low_n) {
            low = at_local(a, i, end, local);
            low_n = n;
        }
        if (n >= replicas && n < high_n) {
            high = at_local(a, i, end, local);
            high_n = n;
        }
    }
    if (low_n < 0)
        return high;
    if (!isfinite(high_n) || high_n <= low_n)
        return low;
    return between(low, high, (replicas - low_n) / (high_n - low_n));
}

int pollux_app_step(const struct pollux_app *a, int32_t nodes, int32_t per_node,
                    double local, double *ret_step_s, double *ret_sync_s)
{
    int32_t low = 0, high = INT32_MAX;

    for (size_t i = 0; i < a->n_steps; i++) {
        int32_t n = a->steps[i].nodes;
        if (n <= nodes && n > low)
            low = n;
        if (n >= nodes && n < high)
            high = n;
    }
    if (low == 0 && high == INT32_MAX)
        return -1;
    low = low > 0 ? low : high;
    high = high < INT32_MAX ? high : low;
    struct times t = on_nodes(a, low, (double)low * per_node, local);
    if (high > low)
        t = between(t, on_nodes(a, high, (double)high * per_node, local),
                    (double)(nodes - low) / (high - low));
    *ret_step_s = t.step_s;
    *ret_sync_s = t.sync_s;
    return 0;
}

double pollux_app_gain(const struct pollux_app *a, double batch, int32_t epoch)
{
    const struct pollux_validation *v = a->validations;
    double scale = batch / a->first_batch;
    size_t i = 0;

    while (i + 1 < a->n_validations && v[i + 1].batch <= batch)
        i++;
    double q = v[i].grad_sqr[epoch], var = v[i].grad_var[epoch];
    if (i + 1 < a->n_validations && batch > v[i].batch) {
        double x = (batch - v[i].batch) / (v[i + 1].batch - v[i].batch);
        q += x * (v[i + 1].grad_sqr[epoch] - q);
        var += x * (v[i + 1].grad_var[epoch] - var);
    }
    double gain = (var + q) / (var / scale + q);
    return isfinite(gain) && gain > 0 ? gain : 1;
}
