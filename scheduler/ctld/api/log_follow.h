/* log_follow.h - streams of logs: GET /v1/jobs/:id/logs. */
#ifndef MGPU_SCHEDULER_CTLD_API_LOG_FOLLOW_H
#define MGPU_SCHEDULER_CTLD_API_LOG_FOLLOW_H

#include "jobs/base/error.h"

struct ctld;

int log_follow_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Ends all streams. */
void log_follow_end(struct ctld *c);
/* Ends all streams, and frees; the thread of the logs has ended. */
void log_follow_clear(struct ctld *c);

#endif
