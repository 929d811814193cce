/* own_values.h - the metrics that a job named itself, beside its iterations: a
 * column for each name. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_OWN_VALUES_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_OWN_VALUES_H

#include <stdint.h>

#include "jobs/wire/metric_rows.h"
#include "scheduler/tools/common/client.h"

struct own_value {
    int64_t attempt, iteration; /* -1: without an iteration */
    int64_t rank;
    size_t name; /* index into names */
    double value;
};

struct own_values {
    char (*names)[METRIC_NAME_CAP]; /* in the order in which they appear */
    size_t n_names, cap_names;
    struct own_value *v; /* by attempt, iteration, rank */
    size_t n, cap, at;   /* at: the first that was not taken */
};

/* Reads all values of all attempts: 40 bytes each. */
int own_values_read(struct client *c, const char *word, struct own_values *ret,
                    struct error *err) MUST_CHECK;
void own_values_clear(struct own_values *o); /* zeroed is fine */

/* Where a row of iterations stands relative to the next value: < 0: the value
 * belongs to an earlier row, which has none but such values. */
int own_values_order(const struct own_values *o, int64_t attempt,
                     int64_t iteration, int64_t rank);
/* Takes the values of the row of the next value.
 * out  ret[n_names]  NAN: the row has none of that name
 * ret  the first of them; NULL: all were taken */
const struct own_value *own_values_take(struct own_values *o, double *ret);

#endif
