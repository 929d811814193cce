/* profile.c - which iterations are profiled, and what that costs. */
#include "worker/profile/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"

/* Times of the iterations of one block; of a longer one the last. */
struct block {
    double t[PROFILE_BLOCK];
    int32_t n;
};

struct profile {
    struct profile_source *source; /* NULL: it failed */
    enum spec_profile mode;
    double share;              /* of the iterations, once the cost is known */
    bool is_on;                /* the source counts */
    bool is_over;              /* and will not again */
    int64_t n;                 /* iterations since the start */
    struct block now, before;  /* now: is_on; before: not */
    int32_t pairs;             /* that were compared */
    double sum, squares, base; /* of their differences; of the times before */

    int32_t seen, iterations;    /* of the epoch */
    double seen_s, iterations_s; /* what these took */
};

/* ---- rows ----------------------------------------------------------------
 */

static struct profile_row *row_of(struct profile_rows *io, const char *metric)
{
    for (int32_t i = 0; i < io->n; i++)
        if (strcmp(io->at[i].metric, metric) == 0)
            return &io->at[i];
    bool is_full = io->n == PROFILE_ROWS;
    struct profile_row *row = &io->at[is_full ? PROFILE_ROWS - 1 : io->n++];
    if (!is_full)
        *row = (struct profile_row){.bytes = -1};
    if (io->n == PROFILE_ROWS)
        metric = "other";
    size_t n = strnlen(metric, sizeof(row->metric) - 1);
    memcpy(row->metric, metric, n);
    row->metric[n] = '\0';
    return row;
}

void profile_add(struct profile_rows *io, const char *metric, int64_t calls,
                 double total_s, int64_t bytes)
{
    struct profile_row *row = row_of(io, metric);
    row->calls += calls;
    row->total_s += total_s;
    if (bytes >= 0)
        row->bytes = (row->bytes > 0 ? row->bytes : 0) + bytes;
}

/* ---- the cost ------------------------------------------------------------
 */

static void block_add(struct block *b, double t)
{
    b->t[b->n % PROFILE_BLOCK] = t;
    b->n++;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median ignores one late iteration among four. */
static double block_median(const struct block *b)
{
    double t[PROFILE_BLOCK];
    int32_t n = b->n < PROFILE_BLOCK ? b->n : PROFILE_BLOCK;
    memcpy(t, b->t, sizeof(t));
    qsort(t, (size_t)n, sizeof(*t), compare);
    return (t[(n - 1) / 2] + t[n / 2]) / 2;
}

/* A block that was profiled has ended, after one that was not. */
static void compare_blocks(struct profile *p)
{
    if (p->now.n >= PROFILE_BLOCK && p->before.n >= PROFILE_BLOCK) {
        double base = block_median(&p->before);
        double d = block_median(&p->now) - base;
        p->pairs++;
        p->sum += d;
        p->squares += d * d;
        p->base += base;
    }
    p->now.n = p->before.n = 0;
}

double profile_cost(const struct profile *p, double *ret_error)
{
    *ret_error = NAN;
    if (p == NULL || p->pairs < 2 || p->base <= 0)
        return NAN;
    double n = p->pairs, mean = p->sum / n;
    double variance = (p->squares / n - mean * mean) * n / (n - 1);
    *ret_error = sqrt(variance > 0 ? variance / n : 0) / (p->base / n);
    return mean / (p->base / n);
}

/* Lowers the share only if the cost exceeds PROFILE_MOST by more than chance
 * does: two standard errors. */
double profile_wish(const struct profile *p)
{
    double error, cost = profile_cost(p, &error);
    if (p == NULL || p->source == NULL)
        return 1;
    if (p->mode == PROFILE_SAMPLED || p->pairs < PROFILE_PAIRS ||
        !(cost - 2 * error > PROFILE_MOST))
        return p->share;
    double share = PROFILE_MOST / cost;
    return share < p->share ? share : p->share;
}

void profile_agree(struct profile *p, double share)
{
    if (p != NULL)
        p->share = share;
}

/* ---- which iterations ----------------------------------------------------
 */

/* The first blocks, off before on, and then windows in the middle of equal
 * parts of the epoch, away from its first batches. */
static bool is_wanted(const struct profile *p, int32_t batch, int32_t batches)
{
    int64_t n = p->n - PROFILE_WARM;
    if (p->mode == PROFILE_EPOCH && p->share >= 1)
        return n < 0 || n >= 2LL * PROFILE_BLOCK * PROFILE_PAIRS ||
               n / PROFILE_BLOCK % 2 == 1;
    double period_f = ceil((double)PROFILE_BLOCK / p->share);
    int32_t period = period_f < batches ? (int32_t)period_f : batches;
    int32_t first = period > PROFILE_BLOCK ? (period - PROFILE_BLOCK) / 2 : 0;
    int32_t at = batch % period;
    return at >= first && at < first + PROFILE_BLOCK;
}

/* Training goes on without it. */
static void give_up(struct profile *p, const struct error *why)
{
    log_warn("worker",
             "profiling is off, training goes on source=%s why=\"%s\"",
             p->source->ops->name, why->msg);
    p->source->ops->destroy(p->source);
    p->source = NULL;
    p->is_on = false;
}

static void turn(struct profile *p, bool on)
{
    struct error why = ERROR_INIT;
    const struct profile_source_ops *ops = p->source->ops;
    if (!on)
        compare_blocks(p);
    if ((on ? ops->start(p->source, &why) : ops->stop(p->source, &why)) < 0)
        give_up(p, &why);
    else
        p->is_on = on;
}

void profile_begin(struct profile *p, int32_t batch, int32_t batches)
{
    if (p == NULL || p->source == NULL)
        return;
    bool on = !p->is_over && is_wanted(p, batch, batches);
    if (on != p->is_on)
        turn(p, on);
}

void profile_end(struct profile *p, double t_iter)
{
    if (p == NULL || p->source == NULL || p->is_over)
        return;
    if (p->n >= PROFILE_WARM)
        block_add(p->is_on ? &p->now : &p->before, t_iter);
    p->n++;
    p->iterations++;
    p->iterations_s += t_iter;
    if (p->is_on) {
        p->seen++;
        p->seen_s += t_iter;
    }
}

void profile_finish(struct profile *p)
{
    if (p != NULL)
        p->is_over = true;
}

/* ---- epochs --------------------------------------------------------------
 */

static void scale(struct profile_rows *rows, double by)
{
    for (int32_t i = 0; i < rows->n; i++) {
        struct profile_row *r = &rows->at[i];
        r->calls = llround((double)r->calls * by);
        r->total_s *= by;
        if (r->bytes > 0)
            r->bytes = llround((double)r->bytes * by);
    }
}

bool profile_take(struct profile *p, struct profile_epoch *ret)
{
    struct error why = ERROR_INIT;
    double error;
    if (p == NULL || p->source == NULL)
        return false;
    double begin_s = clock_real.now_s(&clock_real);
    if (p->is_on)
        turn(p, false); /* an evaluation is no training */
    p->now.n = p->before.n = 0;
    *ret = (struct profile_epoch){.seen = p->seen,
                                  .iterations = p->iterations,
                                  .iterations_s = p->iterations_s};
    if (p->source == NULL)
        return false;
    if (p->source->ops->take(p->source, &ret->rows, &why) < 0) {
        give_up(p, &why);
        return false;
    }
    double cost = profile_cost(p, &error);
    /* Within two standard errors it is as likely to be none. */
    bool is_known = cost - 2 * error > 0;
    ret->cost_s = (is_known ? cost / (1 + cost) * p->seen_s : 0) +
                  clock_real.now_s(&clock_real) - begin_s;
    p->seen = p->iterations = 0;
    p->seen_s = p->iterations_s = 0;
    if (ret->seen == 0)
        return false;
    ret->sampled = (double)ret->seen / ret->iterations;
    scale(&ret->rows, (double)ret->iterations / ret->seen);
    return true;
}

int profile_create(struct profile_source *source, enum spec_profile mode,
                   struct profile **ret, struct error *err)
{
    struct profile *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        source->ops->destroy(source);
        return error_set(err, ERR_NOMEM, "profile");
    }
    p->source = source;
    p->mode = mode;
    p->share = mode == PROFILE_SAMPLED ? PROFILE_SHARE : 1;
    *ret = p;
    return 0;
}

void profile_destroy(struct profile *p)
{
    if (p == NULL)
        return;
    if (p->source != NULL)
        p->source->ops->destroy(p->source);
    free(p);
}

#if !HAVE_CUPTI
int profile_cupti_create(const char *library, struct profile_source **ret,
                         struct error *err)
{
    (void)library;
    (void)ret;
    return error_set(err, ERR_UNAVAIL, "CUPTI: not in this build (CUPTI=0)");
}
#endif
