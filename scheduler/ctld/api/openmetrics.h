/* openmetrics.h - the metrics of the daemon in OpenMetrics format. */
#ifndef MGPU_SCHEDULER_CTLD_API_OPENMETRICS_H
#define MGPU_SCHEDULER_CTLD_API_OPENMETRICS_H

struct ctld;
struct http_exchange;

void openmetrics_reply(struct ctld *c, struct http_exchange *x);

#endif
