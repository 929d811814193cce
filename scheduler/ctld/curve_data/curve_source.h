/* curve_source.h - what a curve is called, and which rows it is made of. */
#ifndef MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_SOURCE_H
#define MGPU_SCHEDULER_CTLD_CURVE_DATA_CURVE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/metric_store.h"

/* Columns that a curve may need; CURVE_VALUE is its own. */
enum curve_column {
    CURVE_X,
    CURVE_VALUE,
    CURVE_NAME,
    CURVE_STARTED_AT,
    CURVE_EPOCH,
    CURVE_SAMPLES,
    CURVE_T_ITER,
    CURVE_COLUMNS_N
};

struct curve_source {
    enum store_view view;
    const char *name;   /* the column, or the job's own metric */
    const char *x;      /* "iteration" or "epoch" */
    const char *amount; /* a rate: samples or tokens of all ranks by the time
                         * of the slowest; else NULL */
    uint32_t columns;   /* of the view, as in struct store_query */
    int at[CURVE_COLUMNS_N]; /* where in a row; -1: the view has it not */
};

/* What `of` names: a column of v_iteration or v_epoch, a rate, else a metric of
 * the job's own, which `is_own` asks for alone. *ret borrows `of`. */
void curve_source_find(const char *of, bool is_own, struct curve_source *ret);

/* The cell of a row; one that is NULL, if the view has no such column. */
const struct store_cell *curve_source_cell(const struct curve_source *s,
                                           const struct store_cell *cells,
                                           enum curve_column column);
/* Its number, which a store may keep as an integer; else NAN. */
double curve_source_real(const struct curve_source *s,
                         const struct store_cell *cells,
                         enum curve_column column);
/* Whether the row is one of the curve: it has an iteration or an epoch, and the
 * curve's name. */
bool curve_source_has(const struct curve_source *s,
                      const struct store_cell *cells);

/* The name of a curve that is closest to `of`; NULL: none is near.
 * in  own    n names of the job's own metrics */
const char *curve_source_near(const char *of, const char *const *own, size_t n);

#endif
