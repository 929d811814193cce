/* plan_rows.h - how long the rows of a job are, for its plan of memory. */
#ifndef MGPU_WORKER_MODEL_TOOL_PLAN_ROWS_H
#define MGPU_WORKER_MODEL_TOOL_PLAN_ROWS_H

#include <stdbool.h>

#include "worker/batch.h"

struct plan_rows {
    struct batch_info info;
    int64_t batches, host; /* as batch_source_ops.plan() */
    bool is_read;          /* of the data; else all as long as allowed */
};

struct plan_rows_ask {
    const struct job_spec *spec;
    enum dtype dt;
    bool is_gpu;
    int32_t ranks, parts; /* parts: batches of an iteration of a rank */
    int32_t vocab;
    bool skips_data; /* do not read it, even if it is here */
};

/* Reads and tokenises the data, as a rank does. Of data that is not here all
 * rows have train.tokenizer.max_seq_len.
 * err  ERR_INVAL the data does not fit the job, or is not here and
 *      max_seq_len is not set; ERR_IO, ERR_NOMEM */
int plan_rows_read(const struct plan_rows_ask *ask, struct plan_rows *ret,
                   struct error *err) MUST_CHECK;

#endif
