/* metric_set.h - the metrics that a program named itself, as curves. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_METRIC_SET_H
#define MGPU_SCHEDULER_TOOLS_COMMON_METRIC_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "jobs/wire/metric_rows.h"
#include "scheduler/tools/common/client.h"

struct metric_curve {
    char name[METRIC_NAME_CAP];
    int rank;
    double *x, *y; /* x: iteration; y: NAN where it was null */
    size_t n, cap;
};

/* In the order in which names and ranks first appear. */
struct metric_set {
    struct metric_curve *curves;
    size_t n, cap;
    size_t next; /* where the next value probably belongs */
};

/* Adds one value. One without an iteration (NAN) follows the last one. Of
 * several attempts, the last one that reached an iteration counts.
 * err  ERR_NOMEM */
int metric_set_add(struct metric_set *s, const char *name, int rank, double x,
                   double y, struct error *err) MUST_CHECK;
/* Adds the first n rows of mgpu.values/1, which come attempt by attempt. */
int metric_set_take(struct metric_set *s, const json_t *reply, size_t n,
                    struct error *err) MUST_CHECK;
/* Reads all values of a job, page by page. */
int metric_set_read(struct client *c, const char *word, struct metric_set *s,
                    struct error *err) MUST_CHECK;
/* The curve of the lowest rank that has the name; NULL: none. */
const struct metric_curve *metric_set_find(const struct metric_set *s,
                                           const char *name);
/* Whether no curve of this name has a lower rank: of each name just one. */
bool metric_set_is_first(const struct metric_set *s,
                         const struct metric_curve *c);
void metric_set_clear(struct metric_set *s); /* zeroed is fine */

#endif
