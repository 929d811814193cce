/* metric_name_limit.h - limit the distinct metric names of an attempt. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_METRIC_NAME_LIMIT_H
#define MGPU_SCHEDULER_CTLD_INGEST_METRIC_NAME_LIMIT_H

#include <stdbool.h>

#include "jobs/wire/metric_rows.h"

struct metric_name_limit;

struct metric_name_limit *metric_name_limit_create(void); /* NULL: no memory */
struct metric_name_limit *metric_name_limit_ref(struct metric_name_limit *n);
void metric_name_limit_unref(struct metric_name_limit *n); /* NULL is fine */
/* Whether the row may be stored; called on the writer's thread. */
bool metric_name_limit_take(struct metric_name_limit *n,
                            const struct metric_row *row);

#endif
