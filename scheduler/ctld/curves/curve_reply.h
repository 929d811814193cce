/* curve_reply.h - a curve as the JSON of mgpu.curve/1. */
#ifndef MGPU_SCHEDULER_CTLD_CURVES_CURVE_REPLY_H
#define MGPU_SCHEDULER_CTLD_CURVES_CURVE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "scheduler/ctld/curve_data/thinning.h"
#include "scheduler/ctld/curves/curve_cursor.h"

struct curve_reply {
    uint64_t job;
    const char *of, *x;
    bool rows_removed;
    bool is_complete;
    struct curve_cursor cursor; /* attempt 0: null */
    bool is_kept;   /* the daemon keeps the curve: the next two are known */
    bool is_whole;  /* all of the curve, whatever the request's cursor */
    int64_t before; /* rows of the store before the cursor */
    const struct thinning *curve;
};

/* err  ERR_NOMEM */
int curve_reply_write(const struct curve_reply *r, struct buf *out,
                      struct error *err) MUST_CHECK;

#endif
