/* latest_values.h - the newest value of each metric that a job named itself,
 * among the rows of v_metric that are given. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_LATEST_VALUES_H
#define MGPU_SCHEDULER_CTLD_REQUEST_LATEST_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "db/metric_store.h"

/* The last rows that are looked at: a few milliseconds of the reader's time.
 * And the first ones of an attempt, for values without an iteration. */
enum { LATEST_ROWS = 20000, LATEST_EARLY = 4096 };

struct latest_values;
struct latest_values *latest_values_create(void); /* NULL: no memory; free() */

void latest_values_reset(struct latest_values *l); /* for another job */
/* Whether the newest value of the name is there, also where more rows stand
 * before those that were given: it is not of the iteration of the first row,
 * which may have begun before. */
bool latest_values_has(const struct latest_values *l, const char *name);

/* Rows come in the order of attempt, iteration and rank. Of one iteration the
 * lowest rank counts; after 256 names others are left out. */
void latest_values_take(struct latest_values *l, const struct store_cell *cells,
                        size_t n);
/* From here on rows without an iteration alone are taken, for names that have
 * no value yet. */
void latest_values_early(struct latest_values *l);

/* Gives each value as a row of v_metric, without "job", in the order of their
 * names' first appearance. */
int latest_values_each(const struct latest_values *l,
                       int (*row)(void *arg, const struct store_cell *cells,
                                  size_t n, struct error *err),
                       void *arg, struct error *err) MUST_CHECK;

#endif
