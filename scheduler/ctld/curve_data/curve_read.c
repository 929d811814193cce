/* curve_read.c - see curve_read.h. */
#include "scheduler/ctld/curve_data/curve_read.h"

#include <math.h>

void curve_read_init(struct curve_read *r, const struct curve_read *like,
                     size_t points, int64_t width)
{
    *r = *like;
    r->limit = CURVE_PORTION / r->cost + 1;
    r->is_over = r->attempt > r->attempt_last;
    thinning_init(&r->curve, points, width);
}

void curve_read_clear(struct curve_read *r)
{
    thinning_clear(&r->curve);
}

static int end_row(struct curve_read *r, struct error *err)
{
    if (!r->has_row)
        return 0;
    r->has_row = false;
    if (r->source.amount)
        r->row.value = r->t_iter > 0 ? r->amount / r->t_iter : (double)NAN;
    return thinning_add(&r->curve, &r->row, err);
}

static thinning_row begin_row(const struct curve_read *r,
                              const struct store_cell *cells, int64_t x)
{
    const struct curve_source *s = &r->source;
    const bool is_epoch = s->view == VIEW_EPOCH;
    return (thinning_row){
        .attempt = r->attempt,
        .first = x,
        .time_s = curve_source_real(s, cells, CURVE_STARTED_AT),
        .epoch = is_epoch ? x : curve_source_cell(s, cells, CURVE_EPOCH)->i,
        .value = curve_source_real(s, cells, CURVE_VALUE)};
}

/* Of several ranks the lowest one that has a row counts; of a rate, all. */
static int take_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    struct curve_read *r = arg;
    const struct curve_source *s = &r->source;
    const int64_t x = curve_source_cell(s, cells, CURVE_X)->i;
    (void)n;
    r->last_x = x;
    r->n_query++;
    if (x < r->begin || x > r->to || !curve_source_has(s, cells))
        return 0;
    const bool is_first = !r->has_row || r->row.first != x;
    if (is_first) {
        if (end_row(r, err) < 0)
            return -1;
        r->row = begin_row(r, cells, x);
        r->has_row = true;
        r->amount = NAN;
        r->t_iter = 0;
    }
    r->row.stored++;
    if (is_first || s->amount)
        r->row.samples += curve_source_cell(s, cells, CURVE_SAMPLES)->i;
    if (s->amount) {
        const double amount = curve_source_real(s, cells, CURVE_VALUE);
        r->amount = isnan(r->amount) ? amount
                    : isnan(amount)  ? r->amount
                                     : r->amount + amount;
        r->t_iter = fmax(r->t_iter, curve_source_real(s, cells, CURVE_T_ITER));
    }
    return 0;
}

/* Where the next query begins. A query that was cut may have cut an iteration,
 * whose ranks and names are several rows: it is read again, with a greater
 * limit if the query had nothing behind it. */
static int next_query(struct curve_read *r, struct error *err)
{
    const bool is_cut = r->n_query == r->limit && r->last_x <= r->to;
    if (is_cut)
        r->has_row = r->has_row && r->row.first != r->last_x;
    if (end_row(r, err) < 0)
        return -1;
    if (is_cut && r->last_x <= r->begin) {
        r->limit *= 2;
        return 0;
    }
    r->is_over = !is_cut && r->attempt >= r->attempt_last;
    if (is_cut) {
        r->begin = r->last_x;
    } else if (!r->is_over) {
        r->attempt++;
        r->begin = r->from;
    } else if (r->n_query > 0 && r->last_x >= r->begin) {
        r->begin = r->last_x + 1;
    }
    return 0;
}

/* For a store_query `after` 0 is no bound, so iteration 0 may come again;
 * take_row() leaves it out. Below 0 are rows without an iteration. */
static struct store_query next_rows(const struct curve_read *r)
{
    return (struct store_query){.view = r->source.view,
                                .columns = r->source.columns,
                                .job = r->job,
                                .attempt = r->attempt,
                                .rank = r->rank,
                                .after = r->begin == 1 ? -1 : r->begin - 1,
                                .limit = r->limit};
}

int curve_read_portion(struct curve_read *r, struct store *s, int64_t *io_n,
                       struct error *err)
{
    r->is_over = r->attempt > r->attempt_last;
    for (int64_t n = 0; n < CURVE_PORTION && !r->is_over;
         n += 1 + r->n_query * r->cost) {
        const struct store_query q = next_rows(r);
        r->n_query = 0;
        if (s->metrics->query(s, &q, take_row, r, err) < 0 ||
            next_query(r, err) < 0)
            return -1;
        *io_n += 1 + r->n_query;
    }
    return 0;
}

void curve_read_again(struct curve_read *r, int32_t attempt, int64_t x)
{
    const int64_t begin = x / r->curve.width * r->curve.width;
    r->curve.n = thinning_find(&r->curve, attempt, x);
    r->has_row = false;
    r->is_over = false;
    r->attempt = attempt > 0 ? attempt : 1;
    r->begin = attempt > 0 ? begin : 0;
    if (r->curve.n == 0) { /* what was wide may be narrow now */
        r->attempt = 1;
        r->begin = 0;
        r->curve.width = 1;
    }
}

bool curve_read_has(const struct curve_read *r, int32_t attempt, int64_t x)
{
    return attempt < r->attempt || (attempt == r->attempt && x < r->begin);
}
