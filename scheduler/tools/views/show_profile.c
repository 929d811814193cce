/* show_profile.c - print the profile of each epoch of a job (v_profile), summed
 * over the ranks.
 *
 * Calls and bytes are sums; seconds are the average per rank, so that they can
 * be compared with the epoch. Shares need not add up to 100 %: a call that
 * waits for a kernel includes the kernel's time.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/tools/common/client.h"
#include "scheduler/tools/views/show.h"

struct sum {
    const char *metric;           /* borrowed from the reply */
    double calls, seconds, bytes; /* NAN: the metric has none */
};

struct part { /* one epoch of one attempt */
    int64_t attempt, epoch;
    struct sum *sums; /* owned */
    size_t n;
    int64_t ranks;
    double sampled, cost_s, epoch_s;
    double part_s; /* of it that was profiled, of all ranks; 0: all of it */
};

struct columns {
    int attempt, rank, epoch, metric, calls, total_s, bytes, sampled;
};

static struct columns columns_of(const json_t *reply)
{
    return (struct columns){.attempt = cells_column(reply, "attempt"),
                            .rank = cells_column(reply, "rank"),
                            .epoch = cells_column(reply, "epoch"),
                            .metric = cells_column(reply, "metric"),
                            .calls = cells_column(reply, "calls"),
                            .total_s = cells_column(reply, "total_s"),
                            .bytes = cells_column(reply, "bytes"),
                            .sampled = cells_column(reply, "sampled")};
}

static void add(double *io, double v)
{
    if (isfinite(v))
        *io = (isfinite(*io) ? *io : 0) + v;
}

static struct sum *sum_of(struct part *p, const char *metric)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->sums[i].metric, metric) == 0)
            return &p->sums[i];
    p->sums[p->n] = (struct sum){metric, NAN, NAN, NAN};
    return &p->sums[p->n++];
}

/* The cost of profiling is in the head line; the other rows are summed. */
static void add_row(struct part *p, const json_t *row, const struct columns *c)
{
    const json_t *name = json_array_get(row, (size_t)c->metric);
    double rank = show_cell(row, c->rank), sampled = show_cell(row, c->sampled);
    if (!json_is_string(name))
        return;
    p->ranks = rank + 1 > (double)p->ranks ? (int64_t)rank + 1 : p->ranks;
    if (sampled < p->sampled)
        p->sampled = sampled;
    if (strcmp(json_string_value(name), "profiler") == 0) {
        double cost = show_cell(row, c->total_s);
        p->cost_s = cost > p->cost_s || isnan(p->cost_s) ? cost : p->cost_s;
        return;
    }
    if (strcmp(json_string_value(name), "profiled part") == 0) {
        p->part_s += show_cell(row, c->total_s);
        return;
    }
    struct sum *s = sum_of(p, json_string_value(name));
    add(&s->calls, show_cell(row, c->calls));
    add(&s->seconds, show_cell(row, c->total_s));
    add(&s->bytes, show_cell(row, c->bytes));
}

static double epoch_seconds(const json_t *epochs, const struct part *p)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(epochs, "rows"), i, row)
    {
        if (show_cell(row, cells_column(epochs, "epoch")) == (double)p->epoch &&
            show_cell(row, cells_column(epochs, "attempt")) ==
                (double)p->attempt)
            return show_cell(row, cells_column(epochs, "seconds"));
    }
    return NAN;
}

/* What shares are of. */
static double profiled_seconds(const struct part *p)
{
    return p->part_s > 0 ? p->part_s / (double)p->ranks : p->epoch_s;
}

/* The longest first; memory, which has no seconds, last in its own order. */
static int by_seconds(const void *pa, const void *pb)
{
    const struct sum *a = pa, *b = pb;
    double x = isfinite(a->seconds) ? a->seconds : -1;
    double y = isfinite(b->seconds) ? b->seconds : -1;
    return x != y ? (x < y) - (x > y) : strcmp(a->metric, b->metric);
}

static int add_sum(struct render_table *t, const struct part *p,
                   const struct sum *s, struct error *err)
{
    char calls[32] = "-", seconds[32] = "-", share[32] = "-", each[32] = "-";
    char bytes[32];
    double per_rank = s->seconds / (double)p->ranks;
    if (isfinite(s->calls))
        render_count((long long)s->calls, calls, sizeof(calls));
    if (isfinite(per_rank))
        (void)snprintf(seconds, sizeof(seconds), "%.3f", per_rank);
    if (isfinite(per_rank) && profiled_seconds(p) > 0)
        (void)snprintf(share, sizeof(share), "%.1f %%",
                       100 * per_rank / profiled_seconds(p));
    if (s->calls > 0 && isfinite(s->seconds))
        render_time(s->seconds / s->calls, each, sizeof(each));
    (void)render_bytes(s->bytes, bytes, sizeof(bytes));
    if (render_table_add(t, err, "%s", s->metric) < 0 ||
        render_table_add(t, err, "%s", calls) < 0 ||
        render_table_add(t, err, "%s", seconds) < 0 ||
        render_table_add(t, err, "%s", share) < 0 ||
        render_table_add(t, err, "%s", each) < 0 ||
        render_table_add(t, err, "%s", bytes) < 0)
        return -1;
    return 0;
}

static void head_line(const struct show_conf *s, const struct part *p)
{
    (void)fprintf(s->out, "epoch %" PRId64 " of attempt %" PRId64, p->epoch,
                  p->attempt);
    if (isfinite(p->epoch_s))
        (void)fprintf(s->out, ": %.2f s", p->epoch_s);
    (void)fprintf(s->out, ", %" PRId64 " rank%s", p->ranks,
                  p->ranks == 1 ? "" : "s");
    if (p->part_s > 0)
        (void)fprintf(s->out, ", the first %.2f s profiled",
                      p->part_s / (double)p->ranks);
    if (p->sampled < 1)
        (void)fprintf(s->out, ", scaled up from %.0f %% of the iterations",
                      100 * p->sampled);
    if (isfinite(p->cost_s))
        (void)fprintf(s->out, ", profiling took %.3f s", p->cost_s);
    (void)fputc('\n', s->out);
}

static int print_part(const struct show_conf *s, struct part *p,
                      struct error *err)
{
    static const struct render_column columns[] = {
        {"METRIC", RENDER_LEFT},        {"CALLS", RENDER_RIGHT},
        {"SECONDS/RANK", RENDER_RIGHT}, {"SHARE", RENDER_RIGHT},
        {"EACH", RENDER_RIGHT},         {"BYTES", RENDER_RIGHT},
    };
    struct render_table *t = NULL;
    if (render_table_create(columns, 6, &t, err) < 0)
        return -1;
    qsort(p->sums, p->n, sizeof(*p->sums), by_seconds);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        rc = add_sum(t, p, &p->sums[i], err);
    if (rc == 0) {
        if (s->header)
            head_line(s, p);
        render_table_print(t, &s->style, s->header, s->out);
    }
    render_table_destroy(t);
    return rc;
}

/* -1 for a value that is not ours. */
static int64_t whole(double v)
{
    return v >= 0 && v < 1e15 ? (int64_t)v : -1;
}

/* Rows are ordered by attempt, then epoch: a part ends where either changes. */
int show_profile(const struct show_conf *s, const json_t *reply,
                 const json_t *epochs, struct error *err)
{
    const json_t *rows = json_object_get(reply, "rows");
    struct columns c = columns_of(reply);
    size_t n = json_array_size(rows), i = 0;
    if (!cells_removed(s->out, reply) && n == 0)
        (void)fprintf(s->out, "no profile: it needs train.profile in the "
                              "specification, and an epoch\n");
    for (bool first = true; i < n; first = false) {
        const json_t *row = json_array_get(rows, i);
        const double attempt = show_cell(row, c.attempt),
                     epoch = show_cell(row, c.epoch);
        struct part p = {.attempt = whole(attempt),
                         .epoch = whole(epoch),
                         .sampled = 1,
                         .cost_s = NAN,
                         .sums = calloc(n - i, sizeof(*p.sums))};
        if (!p.sums)
            return error_set(err, ERR_NOMEM, "%zu rows", n);
        do { /* at least this row, even if its numbers are NaN */
            add_row(&p, row, &c);
            row = json_array_get(rows, ++i);
        } while (i < n && show_cell(row, c.attempt) == attempt &&
                 show_cell(row, c.epoch) == epoch);
        p.epoch_s = epoch_seconds(epochs, &p);
        if (!first)
            (void)fputc('\n', s->out);
        int rc = print_part(s, &p, err);
        free(p.sums);
        if (rc < 0)
            return -1;
    }
    return 0;
}
