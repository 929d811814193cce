/* worker_report.h - the final report of the worker of an attempt. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_WORKER_REPORT_H
#define MGPU_SCHEDULER_CTLD_INGEST_WORKER_REPORT_H

#include <jansson.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/engine/engine.h"

struct worker_report {
    int32_t exit_code;
    char why[JOB_REASON_CAP], fault_node[ALLOC_NODE_NAME_CAP];
    char cause[JOB_CAUSE_CAP];
    char failures[ENGINE_FAILURES_MAX][JOB_REASON_CAP];
    int32_t n_failures;
    struct engine_report_extra extra; /* but its cause and failures */
};
/* err  ERR_INVAL it has no exit code; *ret is untouched */
int worker_report_parse(const json_t *o, struct worker_report *ret,
                        struct error *err) MUST_CHECK;
/* Its "saves_failed": texts of `o`. What is too much, or no text, is left out
 * with all that follows. */
struct engine_failures worker_report_failures(const json_t *o);
/* Passes it to engine_report(). */
int worker_report_use(struct engine *e, uint64_t job, int32_t attempt,
                      const struct worker_report *r,
                      struct error *err) MUST_CHECK;

#endif
