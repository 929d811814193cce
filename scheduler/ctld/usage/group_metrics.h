/* group_metrics.h - jobs and GPUs by partition, type of GPUs and account, for
 * /metrics. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_GROUP_METRICS_H
#define MGPU_SCHEDULER_CTLD_USAGE_GROUP_METRICS_H

#include "jobs/base/buf.h"

struct ctld;

/* Adds the value of a label, in quotes. Returns 0, or -1: out of memory. */
int group_metrics_add_value(struct buf *b, const char *value);

/* Adds the families mgpu_group_jobs, _pending and _gpus with the labels of
 * controller.metrics_labels; nothing without labels. Returns 0, or -1: out of
 * memory. */
int group_metrics_add(struct ctld *c, struct buf *b);

#endif
