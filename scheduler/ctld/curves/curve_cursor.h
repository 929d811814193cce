/* curve_cursor.h - from where on the next request for a curve reads. */
#ifndef MGPU_SCHEDULER_CTLD_CURVES_CURVE_CURSOR_H
#define MGPU_SCHEDULER_CTLD_CURVES_CURVE_CURSOR_H

#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct job;

/* The text is "ATTEMPT.X". */
struct curve_cursor {
    int32_t attempt; /* 1 or more; 0: none */
    int64_t x;       /* iteration or epoch */
};

/* in   attempt  that the request names; 0: none
 * err  ERR_INVAL no cursor, or one of another attempt */
int curve_cursor_parse(const char *text, int64_t attempt,
                       struct curve_cursor *ret, struct error *err) MUST_CHECK;

/* The processes of the largest attempt that the job may have; 1 or more. */
int64_t curve_cursor_ranks(const struct job *job);

/* Up to where no rank of the job's attempt has rows to come: the least
 * iteration that a rank reported last. An attempt that is over has no bound,
 * so it is INT64_MAX. */
int64_t curve_cursor_settled(struct ctld *c, const struct job *job);

#endif
