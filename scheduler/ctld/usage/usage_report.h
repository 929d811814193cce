/* usage_report.h - GET /v1/usage: who used how much in a period. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_USAGE_REPORT_H
#define MGPU_SCHEDULER_CTLD_USAGE_USAGE_REPORT_H

struct http_exchange;

/* arg is the struct ctld. ?by=user|account|class|node&since=; replies with
 * mgpu.usage/1. Who had GPUs is everybody's,
 * as in /v1/gpus; how busy they were is not. */
void serve_usage(void *arg, struct http_exchange *x);

#endif
