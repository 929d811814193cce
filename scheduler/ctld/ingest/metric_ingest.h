/* metric_ingest.h - store the metric rows that workers send. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_METRIC_INGEST_H
#define MGPU_SCHEDULER_CTLD_INGEST_METRIC_INGEST_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct curve_cache;
struct iteration_times;
struct sol_shares;
struct metric_name_limit;
struct store;

int metric_ingest_init(struct ctld *c, struct error *err) MUST_CHECK;
void metric_ingest_clear(struct ctld *c);
/* The end of the attempt is durable: frees what is known of it. */
void metric_ingest_forget(struct ctld *c, uint64_t job, int32_t attempt);

struct ingest_count {
    uint64_t stored, repeated;
    uint64_t dropped;              /* malformed lines */
    uint64_t unwanted;             /* rows over the limit of metric names */
    int64_t iteration;             /* the highest; 0: there is none */
    struct iteration_times *times; /* for the rows of rank 0; NULL: not
                                      wanted */
    struct sol_shares *shares;     /* the same; none of what was not stored */
    struct curve_cache *curves;    /* learns which rows were stored; or NULL */
};
/* Stores one batch of lines as rows, and adds to *io. Called on the writer's
 * thread. */
int metric_ingest_store(struct store *s, uint64_t job, int32_t attempt,
                        int32_t rank, struct metric_name_limit *names,
                        const char *text, size_t len, struct ingest_count *io,
                        struct error *err) MUST_CHECK;
/* Counts and logs what metric_ingest_store() did; called on the loop. */
void metric_ingest_count(struct ctld *c, const struct ingest_count *n);

#endif
