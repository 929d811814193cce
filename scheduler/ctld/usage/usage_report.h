/* usage_report.h - GET /v1/usage: who used how much in a period. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_USAGE_REPORT_H
#define MGPU_SCHEDULER_CTLD_USAGE_USAGE_REPORT_H

struct http_exchange;

/* arg is the struct ctld. ?by=user|account|class|node&since=; replies with
 * mgpu.usage/1. Every user sees the GPU-hours of all, as in /v1/gpus, and the
 * busy hours and the classes of their own jobs; administrators see all of them.
 */
void serve_usage(void *arg, struct http_exchange *x);

#endif
